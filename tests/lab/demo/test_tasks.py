"""The tasks of a new user, each by one command over the demo's recording, days after it ended (tests/README.md)."""

import csv
import json
import re
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from streaming.base.times import instant_ms
from streaming.cli import main, output
from streaming.queries.present import known_ends
from streaming.serve.mcp.groups import GroupTools

pytestmark = pytest.mark.xdist_group("demo tables")  # as for tests/lab/demo/test_quantities.py


@pytest.fixture
def ask(model, monkeypatch):
    """Return what a command prints and says beside it, in a terminal of so many columns."""
    monkeypatch.setattr(output, "tables", lambda: nullcontext(model))

    def run(*arguments: str, columns: int = 1_000) -> tuple[str, str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        ended = CliRunner().invoke(main.app, ["--tz", "UTC", *arguments])
        assert ended.exit_code == 0, ended.output
        return ended.stdout, ended.stderr

    return run


def test_what_is_wrong_since_when_and_what_first(ask):
    listed, said = ask("incident", "list")
    [line] = listed.splitlines()[1:]
    assert "Nobody consumes Orders:3 (and 2 more): a dead connection counts as a client" in line
    assert said.startswith("As of 2026-11-21T16:09:")
    printed, _ = ask("incident", "show", line.split()[0])
    assert printed.startswith("Nobody consumes Orders:3: a dead connection counts as a client")
    assert "First step\nWait until the broker drops the dead connection" in printed
    assert "some of these queues" in printed
    assert "first queues" not in printed


def test_who_owned_a_queue_at_an_instant_and_why_it_moved(ask):
    owner, said = ask("who-owned", "orders-group", "Orders", "broker-a:4", "--at", "2026-11-21 15:50")
    assert "127.0.0.1@orders-3\n  since  11-21 15:44:58" in owner
    assert said == "As of 2026-11-21T15:50:00.000Z.\n"
    rebalance = re.search(r"by rebalance (\w+)", owner)[1]
    why, _ = ask("group", "rebalances", "orders-group", "--id", rebalance)
    assert "joined" in why
    assert "Orders@broker-a:4" in why


def test_the_costliest_rebalance(ask):
    listed, _ = ask("group", "rebalances", "orders-group")
    assert "costliest: dc4958b1, 8 min 34 s" in listed
    assert "≥8 min 34 s" in listed
    assert "unknown of" not in listed
    assert ask("group", "rebalances", "orders-group", "--since", "1h")[0] == listed  # the hour before the end


def test_an_unhealthy_client_comes_first(ask):
    listed, _ = ask("client", "list", "orders-group")
    first = listed.splitlines()[1]
    assert first.startswith("127.0.0.1@orders-1  BAD QUEUE_UNASSIGNED")
    assert "QUEUE_UNASSIGNED GHOST_CONNECTION" in ask("client", "show", "orders-1")[0]


def test_a_client_at_a_past_time_has_no_interval_that_ends_later(ask):
    shown, _ = ask("client", "show", "orders-3", "--at", "2026-11-21 15:50", "--format", "json")
    at = instant_ms("2026-11-21T15:50Z", 0)
    client = json.loads(shown)
    assert client["until"] == at
    assert {interval["to_time"] for interval in client["intervals"] if (interval["to_time"] or 0) > at} == set()
    assert any(interval["to_time"] is None for interval in client["intervals"])


def test_what_happens_if_a_client_leaves(ask):
    said, _ = ask("allocate", "orders-group", "--leave", "orders-1", "--at", "2026-11-21 15:58")
    assert "AVG (current)        3          2" in said
    assert "host or network lost" in said


def test_a_time_after_the_data_names_the_one_that_was_meant(ask):
    _, said = ask("group", "list", "--at", "15:57")
    meant = re.search(r"Did you mean --at '(11-21 15:57:00)'\?", said)[1]
    listed, said = ask("group", "list", "--at", meant)
    assert said == "As of 2026-11-21T15:57:00.000Z.\n"
    assert "UNKNOWN" not in listed


def test_lag_over_time_is_that_of_the_last_hour_of_the_data(model):
    tools = GroupTools(SimpleNamespace(model=lambda: model))
    answer = tools.show_lag(group="orders-group")
    ends = known_ends(model)
    assert answer.answer
    assert all(ends.first < point.time <= ends.last for point in answer.answer)
    assert answer.note.startswith("As of 2026-11-21T16:09:")


def test_ten_minutes_of_lag_are_those_before_the_end_of_the_data(ask):
    lags, said = ask("group", "lag", "orders-group", "--since", "10m")
    assert "from 11-21 15:59:18 UTC to 11-21 16:09:18 UTC" in lags
    assert said.startswith("As of 2026-11-21T16:09:18")


def test_an_export_has_every_row_of_the_list(ask):
    rows = list(csv.DictReader(ask("incident", "list", "--all", "--format", "csv")[0].splitlines()))
    listed = json.loads(ask("incident", "list", "--all", "--format", "json")[0])
    assert [row["incident_id"] for row in rows] == [one["incident_id"] for one in listed]
    assert rows[0]["headline"] == "Nobody consumes Orders:3 (and 2 more): a dead connection counts as a client"


def test_80_columns_have_whole_words(ask):
    listed, _ = ask("incident", "list", "--all", columns=80)
    assert max(map(len, listed.splitlines())) <= 80
    headlines = json.loads(ask("incident", "list", "--all", "--format", "json")[0])
    words = {word for one in headlines for word in one["headline"].split() if len(word) < 15}
    assert words <= set(listed.split())


def test_data_that_has_ended_says_so_once(ask):
    for command in (("group", "list"), ("group", "show", "orders-group"), ("client", "list"), ("incident", "list"),
                    ("queue", "show", "Orders@broker-a:3")):  # fmt: skip
        printed, said = ask(*command)
        assert said.count("the last telemetry") == 1
        assert "stale" not in printed
        assert "7 d" not in printed
