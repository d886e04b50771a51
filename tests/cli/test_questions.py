"""The commands that ask: what they print as table, JSON and CSV."""

import csv
import io
import json
import shlex
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from rebalance_model.entities import MessageQueue
from streaming.base.times import written
from streaming.queries import labels, plan, results
from streaming.queries.clients import client, clients
from streaming.queries.group_at import find_group
from streaming.queries.groups import groups, overview
from streaming.queries.incident_detail import incident
from streaming.queries.incidents import incidents
from streaming.queries.ownership import diff, queues, who_owned
from streaming.queries.queue_history import queue_detail
from streaming.queries.queue_owners import QueueOwner, queue_owners
from streaming.queries.rebalances import rebalance, rebalances
from streaming.queries.results import as_json, times_of
from streaming.queries.rolling_restart import RollingRestart, rolling_restart
from streaming.queries.what_if import what_if
from tests.support.asked import AMID, AT, END, INSTANTS
from tests.support.trace import START

ASKED = {
    "group list": (("group", "list"), groups, results.Group),
    "group list then": (("group", "list", *AT, "--cluster", "d"), lambda m: groups(m, AMID, "d"), results.Group),
    "group show": (("group", "show", "g", *AT), lambda m: overview(m, find_group(m, "g", at=AMID)), results.Overview),
    "assignments": (
        ("group", "assignments", "-g", "twin", "-c", "d", "-t", "Orders", *AT),
        lambda m: queues(m, find_group(m, "twin", "d", at=AMID), topic="Orders"),
        results.Queue,
    ),
    "retry": (
        ("group", "assignments", "g", "--retry"),
        lambda m: queues(m, find_group(m, "g"), retry=True),
        results.Queue,
    ),
    "rebalances": (
        ("group", "rebalances", "g", "--since", written(START), "--until", written(AMID), "-n", "3"),
        lambda m: rebalances(m, find_group(m, "g"), since=START, until=AMID, last=3),
        results.Rebalance,
    ),
    "diff": (
        ("group", "diff", "g", "--from", written(INSTANTS[2]), "--to", written(AMID)),
        lambda m: diff(m, find_group(m, "g", at=INSTANTS[2]), AMID),
        results.OwnerChange,
    ),
    "who-owned": (
        ("who-owned", "g", "Orders", "broker-a:0", *AT),
        lambda m: who_owned(m, find_group(m, "g", at=AMID), MessageQueue("Orders", "broker-a", 0)),
        results.Interval,
    ),
    "nobody": (
        ("who-owned", "g", "Orders@broker-a:0"),
        lambda m: who_owned(m, find_group(m, "g"), MessageQueue("Orders", "broker-a", 0)),
        results.Interval,
    ),
    "of every group": (
        ("who-owned", "Orders@broker-a:0", *AT),
        lambda m: queue_owners(m, "Orders", "broker-a", 0, at=AMID),
        QueueOwner,
    ),
    "of every group then": (
        ("who-owned", "-t", "Orders", "broker-a:0", "-c", "d", *AT),
        lambda m: queue_owners(m, "Orders", "broker-a", 0, cluster="d", at=AMID),
        QueueOwner,
    ),
    "incidents": (("incident", "list"), lambda m: incidents(m, only_open=True, unfold=False), results.Incident),
    "all incidents": (
        ("incident", "list", "--all", "-g", "g", "--severity", "critical"),
        lambda m: incidents(m, group="g", severity="critical", unfold=False),
        results.Incident,
    ),
    "incidents since": (
        ("incident", "list", "--since", "5m", "--code", "lock_expired", "--at", "1m ago"),
        lambda m: incidents(m, code="LOCK_EXPIRED", since=END - 300_000, at=END - 60_000),
        results.Incident,
    ),
    "incident": (("incident", "show", "twin-d-st"), lambda m: incident(m, "twin-d-st"), results.IncidentDetail),
    "resolved incidents": (
        ("incident", "list", "--resolved"),
        lambda m: incidents(m, only_resolved=True, unfold=False),
        results.Incident,
    ),
    "queue": (
        ("queue", "show", "g", "Orders", "broker-a:0", *AT),
        lambda m: queue_detail(m, find_group(m, "g", at=AMID), MessageQueue("Orders", "broker-a", 0)),
        results.QueueDetail,
    ),
    "clients": (("client", "list", "g", *AT), lambda m: clients(m, "g", at=AMID), results.GroupClient),
    "client": (
        ("client", "show", "a", "-g", "g", *AT),
        lambda m: client(m, "a", group="g", at=AMID),
        results.ClientDetail,
    ),
    "allocate": (
        ("allocate", "g", "--leave", "a", "--join", "2", *AT),
        lambda m: what_if(m, find_group(m, "g", at=AMID), leave=["a"], join=["b1", "b2"]).plans,
        plan.Plan,
    ),
    "restart": (
        ("allocate", "g", "--rolling-restart", *AT),
        lambda m: rolling_restart(m, find_group(m, "g", at=AMID)),
        RollingRestart,
    ),
    "allocateMQ": (
        ("allocate", "-g", "g", "-t", "Orders", "-i", "x, y"),
        lambda m: what_if(m, find_group(m, "g"), clients=["x", "y"], topic="Orders").plans,
        plan.Plan,
    ),
}
QUESTIONS = pytest.mark.parametrize(("command", "question", "kind"), ASKED.values(), ids=ASKED)


@QUESTIONS
def test_json_is_the_answers_own(ask, asked_model, command, question, kind):
    assert ask(*command, "--format", "json").out == as_json(question(asked_model)).decode() + "\n"


@QUESTIONS
def test_csv_has_a_header_and_the_answers_rows(ask, asked_model, command, question, kind):
    answer = question(asked_model)
    expected = answer if isinstance(answer, list) else [answer] if answer is not None else []

    rows = list(csv.DictReader(io.StringIO(ask(*command, "--format", "csv").out)))
    assert [tuple(row) for row in rows] == [tuple(kind.model_fields)] * len(expected)
    for row, one in zip(rows, expected, strict=True):
        sent = json.loads(as_json(one))
        for name, text in row.items():
            value = sent[name]
            if name in times_of(kind) and value is not None:
                assert datetime.fromisoformat(text) == datetime.fromtimestamp(value / 1000, UTC)
            else:
                assert text == ("" if value is None else value) or json.loads(text) == value


@QUESTIONS
@pytest.mark.parametrize("columns", [80, 120])
def test_a_table_fits_the_terminal_and_has_no_colour_elsewhere(ask, columns, command, question, kind):
    printed = ask(*command, columns=columns).out
    assert printed
    assert max(map(len, printed.splitlines())) <= columns
    assert "\x1b" not in printed


def test_what_goes_into_a_pipe_is_not_folded(ask):
    (line,) = [line for line in ask("group", "list", *AT).out.splitlines() if " g " in line]
    assert "REBALANCE_STORM MEMBER_FLAPPING" in line


@pytest.mark.parametrize(
    ("command", "shows"),
    [
        ("group list", ("everyone", "broadcasting", "pull consumer", "2 critical, 3 warning")),
        ("group show g", ("g (c)  BAD ORDERED_QUEUE_STUCK", "8 unassigned",
                          "lag - (unknown for 8 queues, 5 of them stale)",
                          "failed messages: - to be tried again, - dead letters",
                          "telemetry: polls", "(missing telemetry) or not applicable: BROKER_LOCKS_LOST",
                          "Open incidents", "connection closed (+3)  a  ")),
        ("group rebalances g -n 1", ("the newest 1 shown (-n for more)", "pauses of all queues together: -, ",
                                     "by cause: ")),
        ("group show everyone", ("broadcasting", "read by every client")),
        ("group assignments everyone", ("every client",)),
        ("group assignments g", ("unassigned", "UNKNOWN no known owner")),
        ("incident list", (", and messages wait", "NO_ACTIVE_CLIENTS_WITH_LAG", "open")),
        ("incident show twin-d-st", ("REBALANCE_STORM MEMBER_FLAPPING", "Diagnosis", "First step", "Evidence at",
                                     "Explains", "STALE_HEARTBEAT", "OPENED", "Triggering event",
                                     "rebalance-watch group show twin --cluster d --at 2027-01-15T08:00:")),
        ("who-owned g Orders broker-a:0", ("Orders@broker-a:0 of g, now: unassigned", "previous owner: b", "until")),
    ],
)  # fmt: skip
def test_what_a_person_sees(ask, command, shows):
    shown = ask(*shlex.split(command)).out
    assert [text for text in shows if text not in shown] == []


def test_times_are_read_and_printed_in_the_chosen_zone(ask):
    asked = ("who-owned", "g", "Orders", "broker-a:0", "--at")
    utc, local = (f"{datetime.fromtimestamp(AMID / 1000, zone):%H:%M:%S}" for zone in (UTC, ZoneInfo("Asia/Shanghai")))
    assert f", {utc} UTC: " in ask("--tz", "UTC", *asked, utc).out
    shown = ask("--tz", "Asia/Shanghai", *asked, local).out
    assert f", {local} UTC+8: " in shown
    assert "opened (UTC+8)" in ask("--tz", "+8", "incident", "list", columns=200).out
    assert ask("--tz", "+8", "group", "list", "--format", "json") == ask("group", "list", "--format", "json")


def test_who_owned_a_queue_is_answered_for_each_group_that_has_it(ask, asked_model):
    printed = ask("who-owned", "Orders@broker-a:0", *AT).out

    lines = {tuple(line.split()[:2]): line for line in printed.splitlines()[2:]}
    assert {("c", "g"), ("c", "twin"), ("d", "twin"), ("c", "everyone")} < lines.keys()
    for one in queue_owners(asked_model, "Orders", "broker-a", 0, at=AMID):
        owner = one.owner.client_id if one.owner else "-" if one.unknown else "unassigned"
        assert lines[one.cluster, one.group].split()[2] == owner
    assert "everyone: everyone is broadcasting: every client reads every queue" in printed


def test_a_queue_that_only_one_group_has_needs_no_group(ask, asked_model):
    [of_one, *_] = asked_model.rows(
        "SELECT s.topic || '@' || s.broker || ':' || s.queue_id AS queue, any_value(s.group) AS name FROM queue_state s"
        " GROUP BY s.topic, s.broker, s.queue_id HAVING count(DISTINCT (s.cluster, s.group)) = 1 ORDER BY queue"
    )
    assert ask("queue", "show", of_one["queue"]) == ask("queue", "show", of_one["name"], of_one["queue"])


@pytest.mark.parametrize("command", ["assignments", "show", "rebalances"])
def test_a_command_about_one_group_lists_the_groups_if_none_is_named(ask, asked_model, command):
    ended = ask("group", command)

    assert ended.code == 2
    assert {one.group for one in groups(asked_model)} <= set(ended.out.split())
    assert f"Specify one group of these, as an argument or with -g: rebalance-watch group {command} " in ended.err


def test_one_rebalance_is_shown_with_every_move(ask, asked_model):
    newest = next(one for one in rebalances(asked_model, find_group(asked_model, "g")) if len(one.moves) > 2)

    assert ask("group", "rebalances", "g", "--id", newest.rebalance_id[:10], "--format", "json").out == (
        as_json(rebalance(asked_model, find_group(asked_model, "g"), newest.rebalance_id)).decode() + "\n"
    )
    shown = ask("group", "rebalances", "g", "--id", newest.rebalance_id[:10]).out
    assert shown.count("Orders@broker-") == len(newest.moves)
    assert all(labels.cause(cause) in " ".join(shown.split()) for cause in newest.causes)


def test_problems_are_queues_not_ok_or_not_where_they_should_be(ask, asked_model):
    at = INSTANTS[1]
    command = ("group", "assignments", "g", "--at", str(at), "--format", "json")

    every, some = json.loads(ask(*command).out), json.loads(ask(*command, "--problems").out)
    assert some == [
        one for one in every
        if one["status"] != "OK" or (one["expected_owner"] is not None and one["expected_owner"] != one["owner"])
    ]  # fmt: skip
    assert 0 < len(some) < len(every)


def test_what_if_says_which_names_it_made_up_and_what_each_client_gets(ask, asked_model):
    printed = ask("allocate", "g", "--leave", "a", "--join", "2", "--strategy", "avg_by_circle", *AT).out
    assert "g without a, with b1, b2" in printed
    assert "those of the new clients are assumed" in printed
    assert "AVG (current)" in printed or "own strategy is not simulated" in printed
    assert "Orders with AVG_BY_CIRCLE, by client" in printed
    own = what_if(asked_model, find_group(asked_model, "g", at=INSTANTS[1]), join=["z"]).plans[0]
    named = ask("allocate", "g", "--join", "z", "--at", str(INSTANTS[1])).out
    assert "made up" not in named
    for share in own.shares:
        assert [share.client_id, str(share.now), str(share.then)] in [line.split()[:3] for line in named.splitlines()]


def test_a_rolling_restart_lists_the_members_in_order(ask, asked_model):
    plan = rolling_restart(asked_model, find_group(asked_model, "g", at=INSTANTS[1]))
    printed = ask("allocate", "g", "--rolling-restart", "--at", str(INSTANTS[1])).out

    assert f"g: restart of {len(plan.steps)} members under {plan.strategy}" in printed
    lines = [line.split() for line in printed.splitlines()]
    for step in plan.steps:
        assert [step.client_id, *map(str, (step.queues, step.moved, step.moved_overlapped))] in lines


def test_each_queue_that_moves_is_listed_on_request(ask, asked_model):
    moves = what_if(asked_model, find_group(asked_model, "g", at=INSTANTS[1]), leave=["a"]).plans[0].moves
    printed = ask("allocate", "g", "--leave", "a", "--queues", "--at", str(INSTANTS[1])).out.splitlines()

    assert moves
    for move in moves:
        assert [move.queue, move.from_client or "unassigned", move.to_client] in [line.split() for line in printed]


def test_a_health_check_ends_with_3_unless_all_is_well(ask):
    assert ask("group", "list", "--check").code == 3
    assert ask("group", "show", "g", "--check").code == 3
    assert ask("group", "show", "calm", "--check").code == 0
    assert ask("group", "list").code == 0
