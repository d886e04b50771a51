"""Answers of commands about an instant after the last telemetry, and from old telemetry."""

import json
import re

import pytest

from streaming.base import times
from streaming.base.errors import UserError
from streaming.base.times import written
from tests.support.asked import AMID, AT, END

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
    assert re.search(r"UNKNOWN +c +calm .* last known health: OK", ended.out)
    assert re.search(r"BAD \(stale, 1 min \d+ s old\) +c +g", ended.out)


def test_data_that_has_ended_is_as_of_its_end_and_says_so_once(ask, monkeypatch):
    at_end = {command: ask(*command).out for command in (("group", "list"), ("client", "list"), ("incident", "list"))}
    monkeypatch.setattr(times.time, "time_ns", lambda: LATER * 1_000_000)
    for command, before in at_end.items():
        ended = ask(*command)
        assert re.fullmatch(r"As of \S+Z, the last telemetry, 4 d 2\d h ago: .*\n", ended.err)
        assert "stale" not in ended.out
        assert "4 d" not in ended.out
        assert len(ended.out.splitlines()) == len(before.splitlines())
    assert ask("group", "list", "--check").code == 3


def test_a_time_ago_is_before_the_last_telemetry(ask, monkeypatch):
    monkeypatch.setattr(times.time, "time_ns", lambda: LATER * 1_000_000)
    lately = json.loads(ask("group", "rebalances", "g", "--since", "1h", "--format", "json").out)
    assert lately == json.loads(ask("group", "rebalances", "g", "--format", "json").out) != []
    assert re.search("No rebalances of g since ", ask("group", "rebalances", "g", "--since", "1ms").out)


def test_a_clock_time_after_the_data_names_the_same_time_of_the_last_day(ask, monkeypatch):
    monkeypatch.setattr(times.time, "time_ns", lambda: LATER * 1_000_000)
    clock = written(AMID)[11:19]
    said = ask("group", "list", "--at", clock).err
    meant = re.search(r"Did you mean --at '(.+)'\?", said)[1]
    assert meant.endswith(clock)
    assert ask("group", "list", "--at", meant).err == f"As of {written(AMID // 1000 * 1000)}.\n"
