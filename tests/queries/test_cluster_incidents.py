"""A broker's outage in real tables: one line in the list, its consequences under it, on the groups that it touches."""

from pathlib import Path

import msgspec
import pytest

from rebalance_model.observe.effects import AnyEffect, GroupSnapshot, IncidentTransition, QueueSnapshot
from streaming.queries.groups import groups
from streaming.queries.incident_detail import incident
from streaming.queries.incidents import incidents
from streaming.queries.roots import cards
from streaming.serve.alerting.alert import Alert, Delivery
from streaming.serve.alerting.render import Texts, asking
from streaming.serve.dashboard.pages.group_state import state
from streaming.serve.dashboard.pages.home import overview
from streaming.serve.metrics.groups import group_families
from streaming.serve.metrics.snapshot import Sources, read_snapshot
from streaming.tables import ReadModel
from tests.rules.test_cluster_incidents import KILLED, Shards, brokers_and_groups
from tests.rules.test_revive_behind import revive_behind
from tests.support.asked import Asked
from tests.support.simulated import simulate
from tests.support.tables import append, make_tables
from tests.support.trace import START, Trace, holding

AT = 1_800_000_000_000 + 160_000
"""While the broker is down."""


@pytest.fixture(scope="module")
def shards():
    return Shards(simulate(brokers_and_groups(4, KILLED, minutes=6), hook=True, poll=True).events, 2)


@pytest.fixture(scope="module")
def tables(shards, tmp_path_factory):
    made = make_tables(tmp_path_factory.mktemp("outage"))
    append(made, shards.effects)
    return made


@pytest.fixture(scope="module")
def model(tables):
    with Asked(tables) as opened:
        yield opened


def test_the_list_is_one_line_that_unfolds(model):
    [line] = [one for one in incidents(model, unfold=False) if one.code == "BROKER_UNREACHABLE"]
    assert (line.group, line.subject, line.title) == ("", "broker-b", "BROKER_UNREACHABLE HOOK_SILENT")
    consequences = [one for one in incidents(model) if one.parent == line.incident_id]
    assert line.consequences == len(consequences) > 0
    assert not [one for one in incidents(model, unfold=False) if one.parent == line.incident_id]


def test_an_incident_of_the_cluster_says_what_it_touches_and_explains(model):
    [line] = [one for one in incidents(model) if one.code == "BROKER_UNREACHABLE"]
    story = incident(model, line.incident_id)
    assert story.reach.model_dump() == {"groups": 4, "queues": 8}
    assert {(one.code, one.group) for one in story.absorbed} == {
        ("TELEMETRY_GAP", ""),
        ("BROKER_LOCKS_LOST", "group-0"),
        ("BROKER_LOCKS_LOST", "group-2"),
    }
    assert story.incident.sub_cause == "HOOK_SILENT"


def test_a_group_that_it_touches_lists_it(model):
    assert "BROKER_UNREACHABLE" in {one.code for one in incidents(model, group="group-1")}
    group_now = state(model, "group-1", None, AT)
    [card] = cards(group_now.incidents)
    assert (card.first.code, [under.first.code for under in card.under]) == ("BROKER_UNREACHABLE", ["TELEMETRY_GAP"])
    assert (group_now.group.health, group_now.group.health_reason) == ("BAD", "BROKER_UNREACHABLE HOOK_SILENT")


def test_home_has_it_once(model):
    assert [(one.code, one.group) for one in overview(model, AT).incidents] == [("BROKER_UNREACHABLE", "")]


def test_a_group_that_it_does_not_touch_does_not(tmp_path):
    """A group whose queues are at another broker."""
    with ReadModel(append_all(tmp_path, elsewhere())) as model:
        assert {one.code for one in incidents(model)} >= {"BROKER_UNREACHABLE"}
        assert {one.code for one in incidents(model, group="elsewhere")} == set()


def elsewhere() -> list[AnyEffect]:
    trace = Trace(name="elsewhere")
    trace.poll(0, {"a": holding(0)}, {0: (5, 5)})
    row = IncidentTransition(
        cluster="c", group="", time=START + 1_000, known_at=START, seq=1, cause="", incident_id="i", sub_cause="",
        code="BROKER_UNREACHABLE", severity="critical", transition="OPENED", subject="broker-z", opened_at=START,
        topic=None, broker=None, queue_id=None, client_id=None, evidence="{}", explanation="", first_step="",
        parent=None,
    )  # fmt: skip
    queue = next(one for one in trace.effects if isinstance(one, QueueSnapshot))
    other = msgspec.structs.replace(queue, group="other", broker="broker-z")
    group = next(one for one in trace.effects if isinstance(one, GroupSnapshot))
    return [*trace.effects, row, other, msgspec.structs.replace(group, group="other")]


def append_all(folder: Path, effects: list[AnyEffect]) -> Path:
    append(make_tables(folder), effects)
    return folder


def test_metrics_count_it_once_without_a_group(model):
    families = {one.name: one for one in group_families(read_snapshot(model, Sources(), 10))}
    samples = families["rocketmq_consumer_incidents_open"].samples
    assert [one.labels for one in samples if one.labels["code"] == "BROKER_UNREACHABLE"] == []
    with_it = [one for one in incidents(model, only_open=True, at=AT) if one.parent is None]
    assert [(one.code, one.group) for one in with_it] == [("BROKER_UNREACHABLE", "")]


def test_a_message_about_it_says_what_it_touches(tables, shards):
    opened = shards.transitions("BROKER_UNREACHABLE")[0]
    alert = Alert(key="k", kind="OPENED", notified_severity=None, transition=opened)
    message = Texts("", "http://watch", asking(tables)).message(
        Delivery("k", "ops", (alert,), summary=False, attempt=1)
    )
    assert message.title == "CRITICAL BROKER_UNREACHABLE HOOK_SILENT: cluster sim broker-b"
    assert "Affects 4 groups, 8 queues" in message.body
    child = next(one for one in shards.transitions() if one.parent == opened.incident_id and one.group)
    assert asking(tables)(child) is None


@pytest.mark.parametrize("pops", [True, False])
def test_a_broker_that_gives_back_late_concerns_only_groups_that_pop(pops, tmp_path):
    trace = revive_behind(pops=pops)
    append(make_tables(tmp_path), trace.effects)
    with ReadModel(tmp_path) as model:
        [line] = [one for one in incidents(model) if one.code == "REVIVE_BEHIND"]
        assert (line.group, line.subject, line.severity) == ("", "broker-a", "warning")
        of_group = [one.code for one in incidents(model, group="g", cluster="c")]
        assert ("REVIVE_BEHIND" in of_group) is pops
        [group] = groups(model)
        assert (group.incidents.warning, group.health) == ((1, "WARN") if pops else (0, "OK"))
