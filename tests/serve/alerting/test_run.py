"""The alert process over real tables, with a manual clock and recording channels: restarts and crashes."""

import pytest
from deltalake import DeltaTable

from schemas.rows import AlertControl
from streaming.base.errors import UserError
from streaming.serve.alerting.channels.channel import ChannelError
from streaming.serve.alerting.follow import Ledger, claimed, is_claimed, write_control
from streaming.serve.alerting.state import AlertState
from tests.support.alerting import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    Listener,
    append_transitions,
    config,
    quiet,
    rounds,
    start,
    transition,
)
from tests.support.tables import create_tables


def test_an_incident_is_sent_when_it_opens_and_when_it_resolves(tables, clock, ops):
    alerting = start(tables, clock, {"ops": ops})
    append_transitions(tables, transition())
    rounds(alerting)
    assert ops.received == [("OPENED", "i1")]
    append_transitions(tables, transition(what="RESOLVED", seq=2))
    rounds(alerting)
    assert ops.received == [("OPENED", "i1"), ("RESOLVED", "i1")]
    assert [message.key for message in ops.messages] == ["i1:1:ops", "i1:2:ops"]
    assert ops.messages[0].link == "http://watch/incident/i1"


def test_a_line_of_the_log_names_channel_group_and_incident(tables, clock, ops):
    lines = []
    alerting = start(tables, clock, {"ops": ops})
    alerting._report = lambda sentence, **fields: lines.append((sentence, fields))
    append_transitions(tables, transition())
    ops.error = ChannelError("HTTP 500")
    rounds(alerting)
    ops.error = None
    clock.forward(MINUTE)
    rounds(alerting)
    opening = transition()
    fields = {
        "channel": "ops",
        "cluster": opening.cluster,
        "group": opening.group,
        "codes": [opening.code],
        "incidents": ["i1"],
    }
    assert lines == [
        ("ops: attempt 1 failed: HTTP 500", fields | {"attempt": 1}),
        (f"ops: OPENED {opening.code} {opening.group} {opening.subject}", fields | {"attempt": 2}),
    ]


def test_the_first_start_sends_open_incidents_and_no_resolved_ones(tables, clock, ops):
    append_transitions(tables, transition("past"), transition("open", seq=2), transition("past", "RESOLVED", 3))
    rounds(start(tables, clock, {"ops": ops}))
    assert ops.received == [("OPENED", "open")]


def test_an_incident_that_opened_and_resolved_during_downtime_is_sent(tables, clock, ops):
    rounds(start(tables, clock, {"ops": ops}))
    append_transitions(tables, transition())
    append_transitions(tables, transition(what="RESOLVED", seq=2))
    rounds(start(tables, clock, {"ops": ops}))
    assert ops.received == [("OPENED", "i1"), ("RESOLVED", "i1")]


def test_a_restart_sends_nothing_twice(tables, clock, ops):
    rounds(start(tables, clock, {"ops": ops}))
    append_transitions(tables, transition())
    for _ in range(3):
        rounds(start(tables, clock, {"ops": ops}))
    assert ops.received == [("OPENED", "i1")]


@pytest.mark.parametrize("at", ["before anything is kept", "before it is sent", "before it is known to be sent"])
def test_a_crash_loses_no_message_and_a_repeated_one_has_the_same_key(tables, clock, ops, at, monkeypatch):
    rounds(start(tables, clock, {"ops": ops}))
    append_transitions(tables, transition())
    alerting = start(tables, clock, {"ops": ops})
    if at == "before anything is kept":
        monkeypatch.setattr(Ledger, "append", crash)
    elif at == "before it is sent":
        ops.before = crash
    with pytest.raises(CrashError):
        one_round_and_crash(alerting)
    monkeypatch.undo()
    ops.before = lambda: None
    again = start(tables, clock, {"ops": ops})
    rounds(again)
    keys = [message.key for message in ops.messages]
    assert keys == ["i1:1:ops"] * (2 if at == "before it is known to be sent" else 1)


def one_round_and_crash(alerting):
    alerting.round()
    for future in alerting._sender._under_way.values():
        future.result(10)
    raise CrashError


class CrashError(BaseException):
    pass


def crash(*_, **__):
    raise CrashError


def test_a_failing_channel_is_retried_later_and_delays_no_other(tables, clock, ops):
    settings = quiet(routes=[{"channels": ["ops", "chat"]}])
    dead = Listener()
    dead.error = ChannelError("no response (ConnectError)")
    alerting = start(tables, clock, {"ops": ops, "chat": dead}, settings)
    append_transitions(tables, transition())
    append_transitions(tables, transition("i2", group="audit", time=NOW + 9))
    rounds(alerting, 3)
    assert ops.received == [("OPENED", "i1"), ("OPENED", "i2")]
    attempts = [row for row in Ledger(tables).rows() if row.step == "FAILED"]
    assert [(row.channel, row.attempt, row.detail) for row in attempts] == [("chat", 1, "no response (ConnectError)")]
    clock.forward(2 * SECOND - 1)
    rounds(alerting)
    assert len([row for row in Ledger(tables).rows() if row.step == "FAILED"]) == 1
    dead.error = None
    clock.forward(1)
    rounds(alerting, 3)
    assert dead.received == [("OPENED", "i1"), ("OPENED", "i2")]


def test_many_messages_take_few_commits_and_a_failed_one_delays_the_next(tables, clock, ops):
    alerting = start(tables, clock, {"ops": ops}, quiet(limit={"messages": 99, "span": "10m", "alerts": 20}))
    append_transitions(tables, *(transition(f"i{number}", group=f"g{number}", seq=number) for number in range(1, 11)))
    ops.before = lambda: setattr(ops, "error", ChannelError("HTTP 503") if len(ops.messages) == 4 else None)
    rounds(alerting)
    assert ops.received == [("OPENED", f"i{number}") for number in range(1, 5)]
    ops.before = lambda: None
    ops.error = None
    rounds(start(tables, clock, {"ops": ops}, quiet()))
    assert len(ops.messages) == 4  # the pause is not over
    clock.forward(2 * SECOND)
    rounds(start(tables, clock, {"ops": ops}, quiet()))
    assert ops.received == [("OPENED", f"i{number}") for number in range(1, 11)]
    assert [(row.key, row.attempt) for row in Ledger(tables).rows() if row.step == "FAILED"] == [("i5:5:ops", 1)]
    assert DeltaTable(tables / "alert_deliveries").version() < 10


@pytest.mark.parametrize(("quick_seconds", "decided"), [(0, 1), (60, 2)])
def test_a_slow_channel_gets_messages_one_by_one(tables, clock, ops, monkeypatch, quick_seconds, decided):
    monkeypatch.setattr("streaming.serve.alerting.deliver._QUICK_SECONDS", quick_seconds)
    alerting = start(tables, clock, {"ops": ops})
    rounds(alerting)
    append_transitions(tables, *(transition(f"i{number}", group=f"g{number}", seq=number) for number in range(1, 4)))
    for number in (1, decided):
        alerting.round()
        assert len(alerting._dispatcher.state.queues["ops"].packed) == number
        alerting._sender._under_way["ops"].result(10)


def test_the_retry_pause_of_a_failing_channel_continues_after_a_restart(tables, clock):
    dead = Listener()
    dead.error = ChannelError("HTTP 503")
    rounds(start(tables, clock, {"ops": dead}))
    append_transitions(tables, transition())
    rounds(start(tables, clock, {"ops": dead}))
    dead.error = None
    clock.forward(SECOND)
    rounds(start(tables, clock, {"ops": dead}))
    assert dead.received == []
    clock.forward(SECOND)
    rounds(start(tables, clock, {"ops": dead}))
    assert dead.received == [("OPENED", "i1")]


def test_an_exception_in_a_channel_is_a_failed_attempt(tables, clock, ops):
    alerting = start(tables, clock, {"ops": ops})
    ops.error = ZeroDivisionError("inside of a library")
    append_transitions(tables, transition())
    rounds(alerting)
    assert [row.detail for row in Ledger(tables).rows() if row.step == "FAILED"] == ["ZeroDivisionError"]


def test_a_channel_with_resend_gets_open_alerts_again_but_no_resolved_ones(tables, clock):
    manager = Listener()
    manager.resend_ms = MINUTE
    alerting = start(tables, clock, {"ops": manager})
    append_transitions(tables, transition(), transition("i2", seq=2))
    rounds(alerting)
    assert len(manager.messages) == 1
    manager.standing.clear()
    clock.forward(MINUTE)
    rounds(alerting)
    assert [[one["incident_id"] for one in message.alerts] for message in manager.standing] == [["i1", "i2"]]
    append_transitions(tables, transition(what="RESOLVED", seq=3))
    clock.forward(MINUTE)
    rounds(alerting)
    clock.forward(MINUTE)
    rounds(alerting)
    assert [one["incident_id"] for one in manager.standing[-1].alerts] == ["i2"]


def test_open_alerts_are_resent_even_while_new_messages_fail(tables, clock):
    manager = Listener()
    manager.resend_ms = MINUTE
    reports = []
    alerting = start(tables, clock, {"ops": manager})
    alerting._report = lambda sentence, **_: reports.append(sentence)
    append_transitions(tables, transition())
    rounds(alerting)
    manager.error = ChannelError("HTTP 500")
    append_transitions(tables, transition("i2", seq=2))
    rounds(alerting)
    manager.standing.clear()
    clock.forward(MINUTE)
    rounds(alerting, 3)
    assert [[one["incident_id"] for one in message.alerts] for message in manager.standing] == [["i1"]]

    manager.standing_error = ChannelError("HTTP 401")
    for _ in range(3):
        clock.forward(MINUTE)
        rounds(alerting, 3)
    manager.standing_error = None
    clock.forward(MINUTE)
    rounds(alerting, 3)
    assert [line for line in reports if "update" in line] == [
        "ops: update of open alerts failed: HTTP 401", "ops: update of open alerts succeeds again",
    ]  # fmt: skip


def test_a_silence_added_while_the_process_runs_takes_effect(tables, clock, ops):
    alerting = start(tables, clock, {"ops": ops})
    rounds(alerting)
    silence = AlertControl(time=NOW, control="SILENCE", control_id="s1", cluster=None, group="orders", code=None,
                           until=NOW + HOUR, reason="upgrade", author="ops")  # fmt: skip
    write_control(tables, silence)
    rounds(alerting)
    append_transitions(tables, transition())
    rounds(alerting)
    assert ops.received == []
    clock.forward(HOUR)
    again = start(tables, clock, {"ops": ops})
    rounds(again)
    assert ops.received == [("OPENED", "i1")]


def test_compaction_and_vacuum_while_it_runs_change_nothing(tables, clock, ops):
    alerting = start(tables, clock, {"ops": ops})
    for number in range(1, 4):
        append_transitions(tables, transition(f"i{number}", seq=number))
        rounds(alerting)
        for table in ("anomalies", "alert_deliveries"):
            delta = DeltaTable(tables / table)
            delta.optimize.compact()
            delta.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    rounds(start(tables, clock, {"ops": ops}))
    assert ops.received == [("OPENED", f"i{number}") for number in (1, 2, 3)]


def test_after_lost_versions_it_continues_with_the_open_incidents(tables, clock, ops):
    rounds(start(tables, clock, {"ops": ops}))
    append_transitions(tables, transition("sent"))
    rounds(start(tables, clock, {"ops": ops}))
    append_transitions(tables, transition("sent", "RESOLVED", 2))
    append_transitions(tables, transition("past", seq=3))
    append_transitions(tables, transition("past", "RESOLVED", 4), transition("open", seq=5))
    delta = DeltaTable(tables / "anomalies")
    delta.optimize.compact()
    delta.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    rounds(start(tables, clock, {"ops": ops}))
    assert sorted(ops.received[1:]) == [("OPENED", "open"), ("RESOLVED", "sent")]


def test_the_ledger_contains_the_whole_state(tables, clock, ops):
    alerting = start(tables, clock, {"ops": ops}, config(dead_man={"job": "0s", "sources": "0s", "forget": "1h"}))
    append_transitions(tables, transition(), transition("child", seq=2, parent="i1"))
    rounds(alerting)
    clock.forward(MINUTE)
    rounds(alerting)
    state = AlertState()
    for row in Ledger(tables).rows():
        state.apply(row)
    assert (state.incidents, state.queues) == (alerting._dispatcher.state.incidents, alerting._dispatcher.state.queues)


def test_recreated_tables_end_the_process_with_a_user_error(tables, clock, ops, tmp_path):
    alerting = start(tables, clock, {"ops": ops})
    rounds(alerting)
    tables.rename(tmp_path / "old")
    create_tables(tables)
    clock.forward(2 * MINUTE)
    with pytest.raises(UserError, match="have been replaced"):
        rounds(alerting)


def test_only_one_process_may_claim_a_root(tmp_path):
    assert not is_claimed(tmp_path)
    with claimed(tmp_path):
        assert is_claimed(tmp_path)
        with pytest.raises(UserError, match="Another"), claimed(tmp_path):
            pass
    assert not is_claimed(tmp_path)


def test_a_failed_write_of_the_ledger_loses_no_decision(tables, clock, ops, monkeypatch):
    alerting = start(tables, clock, {"ops": ops})
    append_transitions(tables, transition())
    append, refused = Ledger.append, []

    def once_full(*given):
        if not refused:
            refused.append(given)
            raise OSError("no space left on device")
        append(*given)

    monkeypatch.setattr(Ledger, "append", once_full)
    with pytest.raises(UserError, match="no space left"):
        alerting.run()
    rounds(start(tables, clock, {"ops": ops}))
    assert ops.received == [("OPENED", "i1")]


def test_stopping_records_the_sent_messages(tables, clock, ops):
    alerting = start(tables, clock, {"ops": ops})
    ops.before = alerting.stop
    append_transitions(tables, transition())
    alerting.run()
    assert [row.step for row in Ledger(tables).rows()] == ["QUEUED", "PACKED", "SENT"]
