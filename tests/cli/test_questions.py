"""The commands that ask: what they print as table, JSON and CSV, and how they end."""

import csv
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import pytest
from typer.testing import CliRunner

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import AssignmentChange, GroupSnapshot, IncidentTransition
from streaming.base import times
from streaming.base.errors import UserError
from streaming.base.times import written
from streaming.cli import main, output, sql
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
from streaming.queries.sql_process import SqlProcess
from streaming.queries.what_if import what_if
from tests.support.asked import END, INSTANTS, ReportedGroup, everything, write
from tests.support.processes import descendants
from tests.support.tables import append
from tests.support.trace import START

AMID = INSTANTS[5]
"""Client a is silent, its queues are stuck."""
AT = ("--at", written(AMID))


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def model(asked_model):
    return asked_model


@pytest.fixture(scope="module")
def process(asked):
    with SqlProcess(asked) as opened:
        yield opened


@pytest.fixture
def ask(model, process, asked, monkeypatch):
    """Run a command over the tables, in a terminal of so many columns; the clock stands at the log's end.

    The tables are opened once for all: that takes longer than the commands.
    """
    monkeypatch.setattr(output, "tables", lambda: nullcontext(model))
    monkeypatch.setattr(sql, "place_of_tables", lambda: asked)
    monkeypatch.setattr("streaming.queries.sql_process.SqlProcess", lambda _: nullcontext(process))
    monkeypatch.setattr(times.time, "time_ns", lambda: END * 1_000_000)

    def run(*arguments: str, columns: int | None = None) -> Ended:
        if columns is None:
            monkeypatch.delenv("COLUMNS", raising=False)
        else:
            monkeypatch.setenv("COLUMNS", str(columns))
        ended = CliRunner().invoke(main.app, arguments)
        if ended.exception is not None and not isinstance(ended.exception, SystemExit):
            raise ended.exception
        return Ended(ended.exit_code, ended.stdout, ended.stderr)

    return run


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
    "incidents": (("incident", "list"), lambda m: incidents(m, only_open=True), results.Incident),
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
def test_json_is_the_answers_own(ask, model, command, question, kind):
    assert ask(*command, "--format", "json").out == as_json(question(model)).decode() + "\n"


@QUESTIONS
def test_csv_has_a_header_and_the_answers_rows(ask, model, command, question, kind):
    answer = question(model)
    expected = answer if isinstance(answer, list) else [answer] if answer is not None else []

    rows = list(csv.DictReader(io.StringIO(ask(*command, "--format", "csv").out)))
    assert [tuple(row) for row in rows] == [tuple(kind.model_fields)] * len(expected)
    for row, one in zip(rows, expected, strict=True):
        told = json.loads(as_json(one))
        for name, text in row.items():
            value = told[name]
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
        ("group list", ("everyone", "broadcasting", "pull consumer", "1 critical, 1 warning")),
        ("group show g", ("g (c)  BAD NO_ACTIVE_CLIENTS_WITH_LAG", "8 unassigned",
                          "lag - (unknown for 8 queues, 5 of them stale)",
                          "failed messages: - to be tried again, - dead letters",
                          "telemetry: polls", "(missing telemetry) or not applicable: BROKER_LOCKS_LOST",
                          "Open incidents", "connection closed (+3)  a  ")),
        ("group rebalances g -n 1", ("the newest 1 shown (-n for more)", "pauses of all queues together: -, ",
                                     "by cause: ")),
        ("group show everyone", ("broadcasting", "read by every client")),
        ("group assignments everyone", ("every client",)),
        ("group assignments g", ("unassigned", "UNKNOWN no known owner")),
        ("incident list", ("the group", "NO_ACTIVE_CLIENTS_WITH_LAG", "open")),
        ("incident show twin-d-st", ("REBALANCE_STORM MEMBER_FLAPPING", "Diagnosis", "First step", "Evidence at",
                                     "Explains", "STALE_HEARTBEAT", "OPENED", "Triggering event",
                                     "rebalance-watch group show twin --cluster d --at 2027-01-15T08:00:")),
        ("who-owned g Orders broker-a:0", ("Orders@broker-a:0 of g, now: unassigned", "previous owner: b", "until")),
        ("sql -- 'SELECT 1 AS one'", ("one",)),
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


def test_who_owned_a_queue_is_answered_for_each_group_that_has_it(ask, model):
    printed = ask("who-owned", "Orders@broker-a:0", *AT).out

    lines = {tuple(line.split()[:2]): line for line in printed.splitlines()[2:]}
    assert {("c", "g"), ("c", "twin"), ("d", "twin"), ("c", "everyone")} < lines.keys()
    for one in queue_owners(model, "Orders", "broker-a", 0, at=AMID):
        owner = one.owner.client_id if one.owner else "-" if one.unknown else "unassigned"
        assert lines[one.cluster, one.group].split()[2] == owner
    assert "everyone: everyone is broadcasting: every client reads every queue" in printed


def test_a_queue_that_only_one_group_has_needs_no_group(ask, model):
    [of_one, *_] = model.rows(
        "SELECT s.topic || '@' || s.broker || ':' || s.queue_id AS queue, any_value(s.group) AS name FROM queue_state s"
        " GROUP BY s.topic, s.broker, s.queue_id HAVING count(DISTINCT (s.cluster, s.group)) = 1 ORDER BY queue"
    )
    assert ask("queue", "show", of_one["queue"]) == ask("queue", "show", of_one["name"], of_one["queue"])


@pytest.mark.parametrize("command", ["assignments", "show", "rebalances"])
def test_a_command_about_one_group_lists_the_groups_if_none_is_named(ask, model, command):
    ended = ask("group", command)

    assert ended.code == 2
    assert {one.group for one in groups(model)} <= set(ended.out.split())
    assert f"Specify one group of these, as an argument or with -g: rebalance-watch group {command} " in ended.err


def test_one_rebalance_is_shown_with_every_move(ask, model):
    newest = next(one for one in rebalances(model, find_group(model, "g")) if len(one.moves) > 2)

    assert ask("group", "rebalances", "g", "--id", newest.rebalance_id[:10], "--format", "json").out == (
        as_json(rebalance(model, find_group(model, "g"), newest.rebalance_id)).decode() + "\n"
    )
    shown = ask("group", "rebalances", "g", "--id", newest.rebalance_id[:10]).out
    assert shown.count("Orders@broker-") == len(newest.moves)
    assert all(labels.cause(cause) in " ".join(shown.split()) for cause in newest.causes)


def test_problems_are_queues_not_ok_or_not_where_they_should_be(ask, model):
    at = INSTANTS[1]
    command = ("group", "assignments", "g", "--at", str(at), "--format", "json")

    every, some = json.loads(ask(*command).out), json.loads(ask(*command, "--problems").out)
    assert some == [
        one for one in every
        if one["status"] != "OK" or (one["expected_owner"] is not None and one["expected_owner"] != one["owner"])
    ]  # fmt: skip
    assert 0 < len(some) < len(every)


def test_what_if_says_which_names_it_made_up_and_what_each_client_gets(ask, model):
    printed = ask("allocate", "g", "--leave", "a", "--join", "2", "--strategy", "avg_by_circle", *AT).out
    assert "g without a, with b1, b2" in printed
    assert "those of the new clients are assumed" in printed
    assert "AVG (current)" in printed or "own strategy is not simulated" in printed
    assert "Orders with AVG_BY_CIRCLE, by client" in printed
    own = what_if(model, find_group(model, "g", at=INSTANTS[1]), join=["z"]).plans[0]
    named = ask("allocate", "g", "--join", "z", "--at", str(INSTANTS[1])).out
    assert "made up" not in named
    for share in own.shares:
        assert [share.client_id, str(share.now), str(share.then)] in [line.split()[:3] for line in named.splitlines()]


def test_a_rolling_restart_lists_the_members_in_order(ask, model):
    plan = rolling_restart(model, find_group(model, "g", at=INSTANTS[1]))
    printed = ask("allocate", "g", "--rolling-restart", "--at", str(INSTANTS[1])).out

    assert f"g: restart of {len(plan.steps)} members under {plan.strategy}" in printed
    lines = [line.split() for line in printed.splitlines()]
    for step in plan.steps:
        assert [step.client_id, *map(str, (step.queues, step.moved, step.moved_overlapped))] in lines


def test_each_queue_that_moves_is_listed_on_request(ask, model):
    moves = what_if(model, find_group(model, "g", at=INSTANTS[1]), leave=["a"]).plans[0].moves
    printed = ask("allocate", "g", "--leave", "a", "--queues", "--at", str(INSTANTS[1])).out.splitlines()

    assert moves
    for move in moves:
        assert [move.queue, move.from_client or "unassigned", move.to_client] in [line.split() for line in printed]


def test_a_health_check_ends_with_3_unless_all_is_well(ask):
    assert ask("group", "list", "--check").code == 3
    assert ask("group", "show", "g", "--check").code == 3
    assert ask("group", "show", "calm", "--check").code == 0
    assert ask("group", "list").code == 0


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("group", "show", "--format", "json"), "Specify one group"),
        (("group", "diff", "--from", "1h"), "Specify one group"),
        (("group", "show", "g", "-g", "h"), "Specify one group"),
        (("group", "diff", "g"), "--from"),
        (("who-owned", "g", "Orders"), "Specify the queue last"),
        (("queue", "show", "x", "g", "Orders", "broker-a:0"), "Specify group, topic and queue"),
        (("who-owned", "x", "g", "Orders", "broker-a:0"), "Specify group, topic and queue"),
        (("allocate", "g", "--strategy", "FAIR"), "Unsupported strategy FAIR"),
        (("allocate", "g", "--rolling-restart", "--join", "1"), "omit --leave, --join and --clients"),
        (("incident", "list", "--severity", "awful"), "awful"),
        (("group", "list", "--every", "0"), "0.5"),
    ],
)
def test_wrong_usage_ends_with_2(ask, command, says):
    ended = ask(*command)
    assert ended.code == 2
    assert says in " ".join(ended.err.replace("│", "").split())


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("group", "show", "gg"), "did you mean g"),
        (("who-owned", "broker-a:0"), "No group has a topic broker-a: known topics: "),
        (
            ("who-owned", "Orders:0"),
            "Several brokers have such a queue: specify one of Orders@broker-a:0, ",
        ),
        (("queue", "show", "Orders@broker-a:0"), r"Several groups have the queue Orders@broker-a:0: specify one of "),
        (("queue", "show", "Orders@broker-a:99"), "No group has a queue Orders@broker-a:99: Orders has queues 0 to "),
        (("who-owned", "Orders@broker-a:99"), "No group has a queue Orders@broker-a:99: Orders has queues 0 to "),
        (("who-owned", "g", "Orders:99"), "Unknown queue 99 of Orders in g."),
        (("who-owned", "g", "broker-a:0"), "Unknown topic broker-a of g. Known topics"),
        (("who-owned", "g", "Orders:0"), "specify one of Orders@broker-a:0, Orders@broker-b:0"),
        (("--tz", "Mars", "who-owned", "g", "Orders:0"), "Unknown time zone 'Mars'"),
        (("group", "show", "twin"), "select one with --cluster"),
        (("group", "list", "--at", "soon"), "Invalid time 'soon'"),
        (("group", "list", "--at", "2020-01-01"), "History begins at"),
        (("incident", "show", "zz"), "No incident has an id beginning with 'zz'"),
        (("sql", "SELECT * FROM nothing"), "nothing"),
        (("sql", "DROP TABLE anomalies"), "Only a single SELECT"),
        (("sql", "SELECT * FROM read_text('/etc/hostname')"), "read_text"),
        (("allocate", "g", "--leave", "zz"), "zz is not a member of g"),
    ],
)
def test_what_can_not_be_answered_is_a_sentence(ask, command, sentence):
    with pytest.raises(UserError, match=sentence):
        ask(*command)


LATER = END + 431_373_000


def test_after_the_last_telemetry_the_time_and_its_distance_are_said(ask):
    for command in (("group", "list"), ("group", "show", "g"), ("group", "assignments", "g"), ("incident", "list"),
                    ("client", "list"), ("allocate", "g", "--join", "1"),
                    ("queue", "show", "g", "Orders", "broker-a:0")):  # fmt: skip
        for output_format in ("table", "json"):
            ended = ask(*command, "--at", written(LATER), "--format", output_format)
            assert f"As of {written(LATER)}, 4 d 23 h after the last telemetry (20" in ended.err
            assert "-431" not in ended.out
    shown = ask("group", "assignments", "calm", "--at", written(LATER)).out
    assert "UNKNOWN no telemetry since" in shown
    assert "  OK" not in shown


def test_who_owned_a_queue_after_the_last_telemetry_is_unknown(ask):
    with pytest.raises(UserError, match=rf"at {written(LATER)} are unknown: that is 4 d 23 h after"):
        ask("who-owned", "g", "Orders@broker-a:0", "--at", written(LATER))
    with pytest.raises(UserError, match=rf"at {written(LATER)} are unknown: that is 4 d 23 h after"):
        ask("group", "diff", "g", "--from", written(AMID), "--to", written(LATER))


def test_a_time_that_telemetry_covers_is_named_in_full(ask):
    assert ask("group", "list", *AT).err == f"As of {written(AMID)}.\n"
    assert not ask("group", "list", *AT, "--format", "json").err
    assert not ask("group", "list").err


def test_what_is_stale_is_said_and_no_health_check_passes(ask, monkeypatch):
    monkeypatch.setattr(times.time, "time_ns", lambda: (END + 85_000) * 1_000_000)
    ended = ask("group", "list", "--check")
    assert ended.code == 3
    assert re.search(r"No telemetry since \S+Z, for 1 min \d+ s: what is shown is stale\.", ended.err)
    assert re.search(r"OK \(stale, 1 min \d+ s old\) +c +calm", ended.out)


def test_sql_prints_rows_and_says_when_there_are_more(ask, monkeypatch):
    query = "SELECT h.client_id, count(*) AS n, NULL AS x FROM assignment_history h GROUP BY ALL ORDER BY ALL"

    told = json.loads(ask("sql", query, "--format", "json").out)
    assert told["columns"] == ["client_id", "n", "x"]
    header, *rows = csv.reader(io.StringIO(ask("sql", query, "--format", "csv").out))
    assert header == told["columns"]
    assert rows == [[client, str(n), ""] for client, n, _ in told["rows"]]
    assert [line.split() for line in ask("sql", query).out.splitlines()[1:]] == [
        [client, f"{n}", "-"] for client, n, _ in told["rows"]
    ]
    cut = ask("sql", query, "--limit", "1", columns=200)
    assert "there are more than 1 rows; increase --limit" in cut.err
    assert len(cut.out.splitlines()) == 2
    assert ask("sql", f"SELECT * FROM ({query}) WHERE n < 0").out == "No rows.\n"


def test_a_row_that_is_too_wide_stands_upright(ask):
    shown = ask("sql", "SELECT * FROM anomalies a ORDER BY a.time, a.cluster, a.group, a.seq LIMIT 2", columns=80).out
    assert [line.split()[0] for line in shown.splitlines() if line[:1].strip()][:3] == ["row", "cluster", "group"]
    assert "row 2" in shown


def run(root: Path, monkeypatch, *arguments: str, given: str | None = None):
    """With the tables of a root, opened by the command itself."""
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(root))
    return CliRunner().invoke(main.app, arguments, input=given)


def test_sql_comes_from_stdin_too(asked, monkeypatch):
    ended = run(asked.parent, monkeypatch, "sql", "-", "--format", "csv", given="SELECT 41 + 1 AS answer")
    assert ended.stdout == "answer\n42\n"


def test_without_tables_it_says_where_there_are_some(tmp_path, monkeypatch):
    assert "run `rebalance-watch demo`" in str(run(tmp_path, monkeypatch, "group", "list").exception)
    (tmp_path / "demo" / "tables").mkdir(parents=True)
    said = run(tmp_path, monkeypatch, "group", "list").exception
    assert isinstance(said, UserError)
    assert f"To query those of the demo, use --root {tmp_path / 'demo'}" in str(said)


def test_watching_shows_what_is_new_and_ends_at_ctrl_c(tmp_path: Path):
    """As JSON into a pipe: a line each round."""
    tables = tmp_path / "tables"
    of_g = [effect for effect in everything() if effect.group == "g"]
    write(tables, tuple(effect for effect in of_g if effect.time <= INSTANTS[0]))
    command = [sys.executable, "-m", "streaming.cli.main", "--root", str(tmp_path), "group", "list", "--watch"]
    with subprocess.Popen(
        [*command, "--every", "0.5", "--format", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"REBALANCE_WATCH_RUNTIME__ROOT": str(tmp_path)},
    ) as watching:  # fmt: skip
        [first] = json.loads(watching.stdout.readline())
        later = msgspec.structs.replace(ReportedGroup("g").state(), time=END, health_reason="it is later now")
        append(tables, [later])
        second = first
        while second["time"] == first["time"]:
            [second] = json.loads(watching.stdout.readline())
        watching.send_signal(signal.SIGINT)
        _, error = watching.communicate(timeout=120)
    assert second["health_reason"] == "it is later now"
    assert (watching.returncode, error) == (130, "")


def test_a_name_has_no_power_over_the_terminal(tmp_path, monkeypatch):
    """A client's id is what the client says it is."""
    evil = "\x1b[2J\x9b31m\nevil"
    write(tmp_path / "tables", tuple(
        msgspec.structs.replace(effect, members=(evil,)) if type(effect) is GroupSnapshot
        else msgspec.structs.replace(effect, client_id=evil) if type(effect) is AssignmentChange
        else msgspec.structs.replace(effect, client_id=evil, main_client_id=evil) if type(effect) is IncidentTransition
        else effect
        for effect in everything() if effect.group in {"g", "everyone"}
    ))  # fmt: skip
    for command in (
        ("group", "show", "everyone"),
        ("group", "show", "g"),
        ("group", "assignments", "g", "--at", str(AMID)),
        ("who-owned", "g", "Orders", "broker-a:0"),
        ("incident", "list", "--all"),
        ("sql", "SELECT a.client_id FROM anomalies a"),
    ):
        printed = run(tmp_path, monkeypatch, *command).stdout
        assert "evil" in printed or command[1] == "show"
        assert not {"\x1b", "\x9b"} & {*printed}
        assert all("evil" not in line[:4] for line in printed.splitlines())


def test_a_ctrl_c_that_a_library_loses_ends_the_watching_too():
    before = signal.getsignal(signal.SIGINT)
    with output._interruption() as check:
        check()
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            check()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_ctrl_c_that_a_library_makes_an_error_of_ends_a_question_too():
    def asked():
        with output._interruption():
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            raise RuntimeError("Query interrupted")

    with pytest.raises(KeyboardInterrupt):
        asked()


def ticks_of(pid):
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return int(user) + int(system)


def eventually_busy(pid, seconds):
    """Wait until a process and those below it have had so many seconds of a processor: then they run the query."""
    ticks, deadline = seconds * os.sysconf("SC_CLK_TCK"), time.monotonic() + 120
    while time.monotonic() < deadline:
        if sum(ticks_of(one) for one in (pid, *descendants(pid))) >= ticks:
            return
        time.sleep(0.05)
    pytest.fail("it does nothing")


def test_ctrl_c_ends_a_long_query_without_a_traceback(asked):
    long = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3"
    with subprocess.Popen(
        [sys.executable, "-m", "streaming.cli.main", "--root", str(asked.parent), "sql", long, "--timeout", "900"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as asking:  # fmt: skip
        eventually_busy(asking.pid, 5)
        asking.send_signal(signal.SIGINT)
        _, error = asking.communicate(timeout=120)
    assert (asking.returncode, error) == (130, "")
