"""The dead-man check: a silent job, or one silent source, is an alert; so is its return."""

import datetime as dt
import os

import pytest
from deltalake import DeltaTable

from streaming.serve.alerting.config import DeadMan
from streaming.serve.alerting.dispatcher import Dispatcher
from streaming.serve.alerting.follow import Follower
from streaming.serve.alerting.own_incidents import Watch
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
from tests.support.tables import append_rows

SETTINGS = DeadMan(job="3m", sources="2m", forget="1d")


def append_telemetry(tables, *sources):
    """Append to the archive a row of each (source, ingest time)."""
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
    """The check, with a dispatcher that keeps the alerts."""

    def __init__(self, tables, now, settings=SETTINGS):
        self.tables, self.settings = tables, settings
        self.dispatcher = Dispatcher(config())
        self.restart(now)

    def restart(self, now):
        """Restart the process: it keeps the alerts of the ledger and nothing else."""
        self.watch = Watch(self.tables, self.tables.parent / "checkpoints", self.settings, now)

    def at(self, now):
        """Run the check; return (transition, code, subject) of each alert."""
        transitions = self.watch.transitions(now, self.dispatcher.state.incidents)
        for one in transitions:
            self.dispatcher.take(one, now)
        return [(one.transition, one.code, one.subject) for one in transitions]


def test_a_job_that_stops_writing_is_reported_once_and_resolved(tables):
    append_transitions(tables, transition())
    written = committed(tables)
    checks = Checks(tables, written)
    assert checks.at(written + 3 * MINUTE - 1) == []
    assert checks.at(written + 3 * MINUTE) == [("OPENED", "JOB_SILENT", "job")]
    assert checks.at(written + 4 * MINUTE) == []
    append_transitions(tables, transition(seq=2, what="RESOLVED"))
    assert checks.at(committed(tables) + MINUTE) == [("RESOLVED", "JOB_SILENT", "job")]
    assert checks.dispatcher.state.incidents == {}


def test_a_job_silent_since_before_the_start_is_reported_at_once(tables):
    append_transitions(tables, transition())
    assert Checks(tables, committed(tables) + HOUR).at(committed(tables) + HOUR) == [("OPENED", "JOB_SILENT", "job")]


def test_a_job_that_commits_batches_without_rows_is_not_silent(tables):
    append_transitions(tables, transition())
    written = committed(tables)
    checks = Checks(tables, written)
    commits = tables.parent / "checkpoints" / "operator" / "commits"
    commits.mkdir(parents=True)
    os.utime(commits, ns=(0, (written + 2 * MINUTE) * 1_000_000))
    assert checks.at(written + 5 * MINUTE - 1) == []
    assert checks.at(written + 5 * MINUTE) == [("OPENED", "JOB_SILENT", "job")]


def test_compaction_does_not_count_as_a_write_of_the_job(tables):
    append_transitions(tables, transition())
    append_transitions(tables, transition(seq=2))
    written = committed(tables)
    checks = Checks(tables, written)
    DeltaTable(tables / "anomalies").optimize.compact()
    assert checks.at(written + 3 * MINUTE) == [("OPENED", "JOB_SILENT", "job")]


def test_the_silence_of_a_job_without_rows_counts_from_the_start(tables):
    now = 1_795_280_000_000
    checks = Checks(tables, now)
    assert checks.at(now + 3 * MINUTE - 1) == []
    assert checks.at(now + 3 * MINUTE) == [("OPENED", "JOB_SILENT", "job")]


def test_a_source_that_alone_is_silent_is_reported_and_resolved(tables):
    begin = 1_795_280_000_000
    append_telemetry(tables, ("poll-1@1", begin), ("broker-a/hook@5", begin))
    checks = Checks(tables, begin, DeadMan(job="0s", sources="2m", forget="1d"))
    assert checks.at(begin) == []
    append_telemetry(tables, ("poll-1@1", begin + 2 * MINUTE))
    assert checks.at(begin + 2 * MINUTE) == [("OPENED", "SOURCE_SILENT", "broker-a/hook")]
    append_telemetry(tables, ("poll-1@1", begin + 3 * MINUTE), ("broker-a/hook@9", begin + 3 * MINUTE))
    assert checks.at(begin + 3 * MINUTE) == [("RESOLVED", "SOURCE_SILENT", "broker-a/hook")]


def test_when_all_sources_are_silent_the_job_is_reported_and_no_source(tables):
    begin = 1_795_280_000_000
    append_telemetry(tables, ("poll-1@1", begin), ("poll-2@1", begin - SECOND))
    checks = Checks(tables, begin, DeadMan(job="0s", sources="2m", forget="1d"))
    assert checks.at(begin + HOUR) == []


def test_a_source_that_does_not_return_is_forgotten(tables):
    begin = 1_795_280_000_000
    settings = DeadMan(job="0s", sources="2m", forget="1h")
    append_telemetry(tables, ("poll-1@1", begin), ("poll-2@1", begin))
    checks = Checks(tables, begin, settings)
    append_telemetry(tables, ("poll-1@1", begin + 2 * MINUTE))
    assert checks.at(begin + 2 * MINUTE) == [("OPENED", "SOURCE_SILENT", "poll-2")]
    append_telemetry(tables, ("poll-1@1", begin + HOUR))
    assert checks.at(begin + HOUR) == [("RESOLVED", "SOURCE_SILENT", "poll-2")]
    assert Checks(tables, begin + 3 * HOUR, settings).at(begin + 3 * HOUR) == []


@pytest.fixture
def hook_silent(tables):
    """A check that has reported a hook, silent since NOW, while the collector reports."""
    checks = Checks(tables, NOW, DeadMan(job="0s", sources="2m", forget="1d"))
    append_telemetry(tables, ("poll-1@1", NOW), ("broker-a/hook@5", NOW))
    append_telemetry(tables, ("poll-1@1", NOW + 2 * MINUTE))
    assert checks.at(NOW + 2 * MINUTE) == [("OPENED", "SOURCE_SILENT", "broker-a/hook")]
    return checks


def test_a_restart_long_after_a_sources_silence_does_not_resolve_it(hook_silent, tables):
    now = NOW + 3 * HOUR
    append_telemetry(tables, ("poll-1@1", now))
    hook_silent.restart(now)
    assert hook_silent.at(now) == []
    append_telemetry(tables, ("broker-a/hook@9", now + MINUTE))
    assert hook_silent.at(now + MINUTE) == [("RESOLVED", "SOURCE_SILENT", "broker-a/hook")]
    assert hook_silent.at(now + MINUTE) == []


def test_a_silent_source_is_forgotten_in_time_despite_a_restart(hook_silent, tables):
    hook_silent.restart(NOW + 3 * HOUR)
    append_telemetry(tables, ("poll-1@1", NOW + 24 * HOUR - 1))
    assert hook_silent.at(NOW + 24 * HOUR) == []
    append_telemetry(tables, ("poll-1@1", NOW + 24 * HOUR))
    assert hook_silent.at(NOW + 24 * HOUR) == [("RESOLVED", "SOURCE_SILENT", "broker-a/hook")]
    assert hook_silent.at(NOW + 24 * HOUR) == []


def test_a_restart_while_all_sources_are_silent_resolves_none(hook_silent, tables):
    hook_silent.restart(NOW + 3 * HOUR)
    assert hook_silent.at(NOW + 3 * HOUR) == []
    append_telemetry(tables, ("poll-1@1", NOW + 4 * HOUR))
    assert hook_silent.at(NOW + 4 * HOUR) == []


def test_a_source_that_reported_again_before_a_restart_is_resolved(hook_silent, tables):
    append_telemetry(tables, ("poll-1@1", NOW + 3 * HOUR), ("broker-a/hook@9", NOW + 3 * HOUR - MINUTE))
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


def test_a_silent_job_is_sent_and_resolved_across_a_restart(tables):
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
