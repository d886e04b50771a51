"""Silence is an alert: the job's, or one source's while others speak; and so is its end."""

import datetime as dt
import os

import pytest
from deltalake import DeltaTable

from streaming.serve.alerting.config import DeadMan
from streaming.serve.alerting.dead_man import Watch
from streaming.serve.alerting.dispatcher import Dispatcher
from streaming.serve.alerting.follow import Follower
from tests.support.alerting import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    Clock,
    Listener,
    append_transitions,
    config,
    rounds,
    start,
    transition,
)
from tests.support.tables import append_rows, make_tables

SETTINGS = DeadMan(job="3m", sources="2m", forget="1d")


@pytest.fixture
def tables(tmp_path):
    return make_tables(tmp_path / "tables")


def heard(tables, *sources):
    """The archive has a row of each (source, when it was taken in)."""
    rows = [
        {"date": dt.date(1970, 1, 1) + dt.timedelta(milliseconds=time), "type": "TICK", "time": time,
         "cluster": "c", "broker": "", "broker_id": 0, "source": "poll", "source_id": source, "seq": 1,
         "group": None, "key": "", "value": "{}", "partition": 0, "offset": number, "ingest_time": time}
        for number, (source, time) in enumerate(sources)
    ]  # fmt: skip
    append_rows(tables, "telemetry", rows)


def committed(tables, name="anomalies"):
    return Follower(tables / name).last_append()


class Checks:
    """The check, with a dispatcher that keeps what it told."""

    def __init__(self, tables, now, settings=SETTINGS):
        self.tables, self.settings = tables, settings
        self.dispatcher = Dispatcher(config())
        self.restart(now)

    def restart(self, now):
        """The process starts again: what it told is in the ledger, all else it sees anew."""
        self.watch = Watch(self.tables, self.tables.parent / "checkpoints", self.settings, now)

    def at(self, now):
        """(transition, code, subject) of what it tells."""
        found = self.watch.look(now, self.dispatcher.state.known)
        for one in found:
            self.dispatcher.take(one, now)
        return [(one.transition, one.code, one.subject) for one in found]


def test_a_job_that_writes_nothing_is_told_once_and_again_when_it_writes(tables):
    append_transitions(tables, transition())
    written = committed(tables)
    checks = Checks(tables, written)
    assert checks.at(written + 3 * MINUTE - 1) == []
    assert checks.at(written + 3 * MINUTE) == [("OPENED", "JOB_SILENT", "job")]
    assert checks.at(written + 4 * MINUTE) == []
    append_transitions(tables, transition(seq=2, what="RESOLVED"))
    assert checks.at(committed(tables) + MINUTE) == [("RESOLVED", "JOB_SILENT", "job")]
    assert checks.dispatcher.state.known == {}


def test_a_job_that_stood_before_the_start_is_told_at_once(tables):
    append_transitions(tables, transition())
    assert Checks(tables, committed(tables) + HOUR).at(committed(tables) + HOUR) == [("OPENED", "JOB_SILENT", "job")]


def test_a_job_that_finishes_batches_and_concludes_nothing_is_not_silent(tables):
    append_transitions(tables, transition())
    written = committed(tables)
    checks = Checks(tables, written)
    commits = tables.parent / "checkpoints" / "operator" / "commits"
    commits.mkdir(parents=True)
    os.utime(commits, ns=(0, (written + 2 * MINUTE) * 1_000_000))
    assert checks.at(written + 5 * MINUTE - 1) == []
    assert checks.at(written + 5 * MINUTE) == [("OPENED", "JOB_SILENT", "job")]


def test_compaction_is_no_sign_of_life(tables):
    append_transitions(tables, transition())
    append_transitions(tables, transition(seq=2))
    written = committed(tables)
    checks = Checks(tables, written)
    DeltaTable(tables / "anomalies").optimize.compact()
    assert checks.at(written + 3 * MINUTE) == [("OPENED", "JOB_SILENT", "job")]


def test_tables_that_were_never_written_are_judged_from_the_start_on(tables):
    now = 1_795_280_000_000
    checks = Checks(tables, now)
    assert checks.at(now + 3 * MINUTE - 1) == []
    assert checks.at(now + 3 * MINUTE) == [("OPENED", "JOB_SILENT", "job")]


def test_a_source_that_is_silent_alone_is_reported_by_name_and_resolved(tables):
    begin = 1_795_280_000_000
    heard(tables, ("poll-1@1", begin), ("broker-a/hook@5", begin))
    checks = Checks(tables, begin, DeadMan(job="0s", sources="2m", forget="1d"))
    assert checks.at(begin) == []
    heard(tables, ("poll-1@1", begin + 2 * MINUTE))
    assert checks.at(begin + 2 * MINUTE) == [("OPENED", "SOURCE_SILENT", "broker-a/hook")]
    heard(tables, ("poll-1@1", begin + 3 * MINUTE), ("broker-a/hook@9", begin + 3 * MINUTE))
    assert checks.at(begin + 3 * MINUTE) == [("RESOLVED", "SOURCE_SILENT", "broker-a/hook")]


def test_when_all_sources_are_silent_the_job_is_reported_and_no_source(tables):
    begin = 1_795_280_000_000
    heard(tables, ("poll-1@1", begin), ("poll-2@1", begin - SECOND))
    checks = Checks(tables, begin, DeadMan(job="0s", sources="2m", forget="1d"))
    assert checks.at(begin + HOUR) == []


def test_a_source_that_is_gone_for_good_is_forgotten(tables):
    begin = 1_795_280_000_000
    settings = DeadMan(job="0s", sources="2m", forget="1h")
    heard(tables, ("poll-1@1", begin), ("poll-2@1", begin))
    checks = Checks(tables, begin, settings)
    heard(tables, ("poll-1@1", begin + 2 * MINUTE))
    assert checks.at(begin + 2 * MINUTE) == [("OPENED", "SOURCE_SILENT", "poll-2")]
    heard(tables, ("poll-1@1", begin + HOUR))
    assert checks.at(begin + HOUR) == [("RESOLVED", "SOURCE_SILENT", "poll-2")]
    assert Checks(tables, begin + 3 * HOUR, settings).at(begin + 3 * HOUR) == []


@pytest.fixture
def hook_silent(tables):
    """A check that has told of a hook, silent since NOW, while the poller speaks."""
    checks = Checks(tables, NOW, DeadMan(job="0s", sources="2m", forget="1d"))
    heard(tables, ("poll-1@1", NOW), ("broker-a/hook@5", NOW))
    heard(tables, ("poll-1@1", NOW + 2 * MINUTE))
    assert checks.at(NOW + 2 * MINUTE) == [("OPENED", "SOURCE_SILENT", "broker-a/hook")]
    return checks


def test_a_restart_long_after_a_sources_silence_does_not_resolve_it(hook_silent, tables):
    now = NOW + 3 * HOUR
    heard(tables, ("poll-1@1", now))
    hook_silent.restart(now)
    assert hook_silent.at(now) == []
    heard(tables, ("broker-a/hook@9", now + MINUTE))
    assert hook_silent.at(now + MINUTE) == [("RESOLVED", "SOURCE_SILENT", "broker-a/hook")]
    assert hook_silent.at(now + MINUTE) == []


def test_a_source_that_is_silent_over_a_restart_is_forgotten_as_ever(hook_silent, tables):
    hook_silent.restart(NOW + 3 * HOUR)
    heard(tables, ("poll-1@1", NOW + 24 * HOUR - 1))
    assert hook_silent.at(NOW + 24 * HOUR) == []
    heard(tables, ("poll-1@1", NOW + 24 * HOUR))
    assert hook_silent.at(NOW + 24 * HOUR) == [("RESOLVED", "SOURCE_SILENT", "broker-a/hook")]
    assert hook_silent.at(NOW + 24 * HOUR) == []


def test_a_restart_while_no_source_speaks_declares_none_well(hook_silent, tables):
    hook_silent.restart(NOW + 3 * HOUR)
    assert hook_silent.at(NOW + 3 * HOUR) == []
    heard(tables, ("poll-1@1", NOW + 4 * HOUR))
    assert hook_silent.at(NOW + 4 * HOUR) == []


def test_a_source_that_spoke_again_before_a_restart_is_well(hook_silent, tables):
    heard(tables, ("poll-1@1", NOW + 3 * HOUR), ("broker-a/hook@9", NOW + 3 * HOUR - MINUTE))
    hook_silent.restart(NOW + 3 * HOUR)
    assert hook_silent.at(NOW + 3 * HOUR) == [("RESOLVED", "SOURCE_SILENT", "broker-a/hook")]


def test_a_restart_does_not_resolve_a_job_whose_last_batch_left_the_log(tables):
    checks = Checks(tables, NOW)  # no append is in the tables' logs, as after a day in which only `maintain` wrote
    assert checks.at(NOW + 3 * MINUTE) == [("OPENED", "JOB_SILENT", "job")]
    now = NOW + 48 * HOUR
    checks.restart(now)
    assert checks.at(now) == checks.at(now + 3 * MINUTE) == []
    commits = tables.parent / "checkpoints" / "operator" / "commits"
    commits.mkdir(parents=True)
    os.utime(commits, ns=(0, (now + 4 * MINUTE) * 1_000_000))
    assert checks.at(now + 5 * MINUTE) == [("RESOLVED", "JOB_SILENT", "job")]


def test_silence_and_its_end_are_told_as_any_alert_over_a_restart(tables):
    append_transitions(tables, transition("old"), transition("old", "RESOLVED", 2))
    clock, ops = Clock(), Listener()
    clock.now = committed(tables) + HOUR
    settings = config(group_wait="0s")
    rounds(start(tables, clock, {"ops": ops}, settings))
    assert [message.title for message in ops.messages] == ["CRITICAL JOB_SILENT: job"]
    clock.now = committed(tables) + MINUTE
    append_transitions(tables, transition("new", parent="p", seq=3))
    rounds(start(tables, clock, {"ops": ops}, settings))
    assert [message.title for message in ops.messages][1:] == ["RESOLVED JOB_SILENT: job"]
