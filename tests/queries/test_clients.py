"""Clients by what brokers, hooks and they themselves have reported."""

import json
import re
from contextlib import nullcontext
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from rebalance_model.observe.effects import AssignmentChange
from streaming.base.errors import NotFoundError
from streaming.cli import main, output
from streaming.queries.clients import client, clients, mixed_versions
from streaming.queries.columns import CLIENT, shown_columns
from streaming.queries.columns.column import Context
from streaming.queries.group_at import find_group
from streaming.queries.groups import overview
from streaming.tables import ReadModel
from tests.serve.dashboard.tables import CLIENTS, DIED, MINUTE, Group, orders
from tests.support.tables import append, append_rows, make_tables

NOW = 1_795_300_000_000
GROUP = "orders-group"


def event(kind: str, time: int, **fields) -> dict:
    said = {"type": kind, "time": time, "cluster": "prod", "broker": "broker-a", "group": GROUP, **fields}
    return {
        "date": datetime.fromtimestamp(time / 1000, UTC).date(), "type": kind, "time": time, "cluster": "prod",
        "broker": "broker-a", "broker_id": 0, "source": "poll", "source_id": "poll-1@1", "seq": time, "group": GROUP,
        "key": f"prod/{GROUP}", "value": json.dumps(said), "partition": 0, "offset": time, "ingest_time": time,
    }  # fmt: skip


def by_proxy(time: int, proxy: str, *names: str, **fields) -> dict:
    connections = [
        {"client_id": name, "channel": "10.0.0.7:43254", "language": "GOLANG", "version": 493} for name in names
    ]
    subscriptions = [{"topic": "Orders", "sub_string": "*"}] if names else []
    said = {"proxy": proxy, "broker": "", "connections": connections, "subscriptions": subscriptions}
    given = said | fields  # an event omits what is null
    return event("PROXY_CONNECTION", time, **{name: value for name, value in given.items() if value is not None})


def listed(time: int, *versions: int) -> dict:
    connections = [
        {"client_id": name, "channel": f"10.0.0.5:4000{n}", "language": "JAVA"}
        | ({"version": version} if version else {})
        for n, (name, version) in enumerate(zip(CLIENTS, versions, strict=False))
    ]
    return event("CONSUMER_CONNECTION", time, connections=connections)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = make_tables(tmp_path_factory.mktemp("tables"))
    late = Group(GROUP, "Orders", CLIENTS)
    late.seq = 1_000
    late.incident(NOW - 40 * MINUTE, "over0001", "OPENED", NOW - 40 * MINUTE)
    late.incident(NOW - 39 * MINUTE, "over0001", "RESOLVED", NOW - 40 * MINUTE)
    append(folder, [*orders(NOW).taken(), *late.taken()])
    subscriptions = [{"topic": "Orders", "sub_string": "red"}, {"topic": f"%RETRY%{GROUP}", "sub_string": "*"}]
    append_rows(folder, "telemetry", [
        listed(NOW - 20 * MINUTE, 493, 493),  # too old to be shown
        listed(NOW - 4 * MINUTE, 0, 0),  # an event omits what is 0
        listed(NOW - 3 * MINUTE, 407, 407),
        listed(NOW - 2 * MINUTE, 407, 493),
        event("HEART_BEAT", NOW - MINUTE - 20_000, client_id=CLIENTS[0], version=407, language="JAVA",
              channel="10.0.0.5:50000", subscriptions=subscriptions),
        event("CONSUMER_RUNNING_INFO", NOW - MINUTE - 10_000, client_id=CLIENTS[1], start_time=NOW - 50 * MINUTE,
              subscriptions=subscriptions[:1]),
    ])  # fmt: skip
    with ReadModel(folder) as opened:
        yield opened


def test_days_after_the_data_a_client_has_one_age_in_the_list_and_alone(model, monkeypatch):
    """The data has ended, so that both are as of its end."""
    monkeypatch.setattr(output, "tables", lambda: nullcontext(model))
    listed, alone = (
        CliRunner().invoke(main.app, ["client", *words]).stdout
        for words in (("list", GROUP), ("show", CLIENTS[0], "-g", GROUP))
    )
    [line] = [one for one in listed.splitlines() if one.startswith(CLIENTS[0])]
    age = re.search(r"[\d.]+ \w+( [\d.]+ \w+)? ago", line)[0]
    assert age in alone
    assert " d " not in age


def test_a_client_has_what_was_last_reported_of_it(model):
    first, second = clients(model, GROUP, at=NOW)

    assert (first.client_id, first.is_member, first.queues, first.open_incidents) == (CLIENTS[0], True, 3, 1)
    assert (first.version, first.address) == ("4.9.7", "10.0.0.5:50000")
    assert first.last_heartbeat == first.seen_at == NOW - MINUTE - 20_000
    assert (second.version, second.language, second.address) == ("5.4.0", "JAVA", "10.0.0.5:40001")
    assert (second.seen_at, second.last_heartbeat) == (NOW - 2 * MINUTE, None)
    assert second.started_at == NOW - 50 * MINUTE
    assert first.subscriptions == second.subscriptions == ("Orders red",)


def test_what_nobody_has_reported_is_unknown(model):
    found = clients(model, at=NOW - 10 * MINUTE)

    assert {(one.version, one.address, one.seen_at, one.subscriptions) for one in found} == {(None, None, None, None)}


def test_members_with_different_known_versions_are_told_apart(model):
    assert mixed_versions(clients(model, at=NOW)) == {("prod", GROUP): {"4.9.7": 1, "5.4.0": 1}}
    assert mixed_versions(clients(model, at=NOW - 10 * MINUTE)) == {}


def test_a_client_that_is_gone_has_its_former_queues(model):
    detail = client(model, CLIENTS[2], at=NOW)

    assert detail.groups == ()
    assert [(one.queue_id, one.to_time) for one in detail.intervals] == [(4, NOW - DIED), (5, NOW - DIED)]
    with pytest.raises(NotFoundError, match="Unknown client"):
        client(model, CLIENTS[2], since=NOW - DIED + 1, at=NOW)


def test_incidents_of_a_client_are_those_of_the_period(model):
    assert [one.incident_id for one in client(model, CLIENTS[0], at=NOW).incidents] == ["stuck0001", "over0001"]
    recent = client(model, CLIENTS[0], since=NOW - 30 * MINUTE, at=NOW)
    assert [one.incident_id for one in recent.incidents] == ["stuck0001"]


def test_the_worst_clients_come_first_with_the_reason(model):
    assert [(one.health, one.health_reason) for one in clients(model, GROUP, at=NOW)] == [
        ("BAD", "ORDERED_QUEUE_STUCK"),
        ("OK", ""),
    ]
    before = clients(model, GROUP, at=NOW - 15 * MINUTE)
    assert {(one.health, one.health_reason) for one in before} == {("UNKNOWN", "not reported for 5 minutes")}


def test_an_owner_is_listed_before_the_first_state_of_its_group(tmp_path):
    folder = make_tables(tmp_path / "tables")
    append(folder, [row for row in orders(NOW).taken() if isinstance(row, AssignmentChange)])
    with ReadModel(folder) as model:
        owners = {one.client_id: one.is_member for one in clients(model, at=NOW)}
    assert owners
    assert not any(owners.values())


def test_after_the_last_telemetry_no_client_is_healthy_or_unhealthy(model):
    last, silent = NOW + 30_000, NOW + 240 * MINUTE
    assert {one.is_stale for one in clients(model, GROUP, at=last)} == {False}
    assert {(one.health, one.is_stale) for one in clients(model, GROUP, at=silent)} == {("UNKNOWN", True)}
    assert clients(model, GROUP, at=silent)[0].health_reason.endswith("; last known health: BAD")

    stale = clients(model, GROUP, at=NOW + 90_000)
    shown = [str(CLIENT["health"].value(one, Context(NOW))) for one in stale]
    assert shown == ["BAD ORDERED_QUEUE_STUCK (stale, 2 min 30 s old)", "OK (stale, 2 min 30 s old)"]


def test_a_client_that_has_queues_and_is_no_member_is_not_ok(tmp_path):
    group = Group(GROUP, "Orders", CLIENTS[:1])
    group.state(NOW - 5 * MINUTE)
    for queue_id, owner in enumerate(CLIENTS[:2]):
        group.owner(NOW - 5 * MINUTE, queue_id, owner)
        group.queue(NOW - MINUTE, queue_id, owner)
    group.state(NOW)
    append(make_tables(tmp_path / "tables"), group.taken())
    with ReadModel(tmp_path / "tables") as opened:
        found = clients(opened, GROUP)
    assert [(one.client_id, one.health) for one in found] == [(CLIENTS[1], "WARN"), (CLIENTS[0], "UNKNOWN")]


BEHIND = ("vm@1@0@x", "vm@2@0@y")


@pytest.fixture(scope="module")
def proxied(tmp_path_factory):
    """A group whose clients are behind proxies: both are listed, the heartbeats of one are seen."""
    folder = make_tables(tmp_path_factory.mktemp("proxied"))
    group = Group(GROUP, "Orders", ())
    group.state(NOW - 10 * MINUTE, proxied_clients=BEHIND)
    group.state(NOW + 30_000, proxied_clients=BEHIND[1:])
    append(folder, group.taken())
    append_rows(folder, "telemetry", [
        by_proxy(NOW - 2 * MINUTE, "proxy-1:8080", *BEHIND),
        by_proxy(NOW - MINUTE, "proxy-1:8080", connections=None, error={"code": -2}),
        event("PROXY_HEART_BEAT", NOW - MINUTE - 5_000, client_id=BEHIND[1], proxy="10.0.0.9%8080%8081",
              language="JAVA", version=493, registers=True, channel="10.0.0.9:50000"),
    ])  # fmt: skip
    with ReadModel(folder) as opened:
        yield opened


def test_clients_of_proxies_are_clients_with_language_version_and_proxy(proxied):
    """The one whose heartbeats are seen names its own proxy; the other one was listed by the proxy that was asked."""
    first, second = clients(proxied, GROUP, at=NOW)
    assert (first.client_id, first.is_member, first.health) == (BEHIND[0], True, "OK")
    assert (first.proxy, first.language, first.version, first.address) == (
        "proxy-1:8080", "GOLANG", "5.4.0", "10.0.0.7:43254",
    )  # fmt: skip
    assert (first.seen_at, first.last_heartbeat) == (NOW - 2 * MINUTE, None)
    assert (second.proxy, second.language, second.address) == ("10.0.0.9:8080", "JAVA", "10.0.0.7:43254")
    assert second.last_heartbeat == NOW - MINUTE - 5_000


def test_a_group_has_its_clients_of_proxies(proxied):
    shown = overview(proxied, find_group(proxied, GROUP, at=NOW))
    assert [one.client_id for one in shown.proxied] == list(BEHIND)
    assert shown.members == ()


def test_a_client_that_left_its_proxy_is_no_client(proxied):
    assert [one.client_id for one in clients(proxied, at=NOW)] == list(BEHIND)
    assert [one.client_id for one in clients(proxied, at=NOW + MINUTE)] == [BEHIND[1]]


def test_without_proxies_there_is_no_column_of_them(model, proxied):
    assert "proxy" not in [one.name for one in shown_columns(CLIENT.page, clients(model, GROUP, at=NOW))]
    assert "proxy" in [one.name for one in shown_columns(CLIENT.page, clients(proxied, GROUP, at=NOW))]
