"""Notifications of a route with hours."""

import pytest

from streaming.serve.alerting.dispatcher import Dispatcher
from tests.support.alerting import HOUR, MINUTE, NOW, SECOND, config, queued, reasons_held, send, silence, transition

DAY = {"hours": "09:00-18:00", "time_zone": "Asia/Shanghai"}  # NOW is 00:53 there
BEGIN = NOW + 8 * HOUR + 6 * MINUTE + 40 * SECOND


def by_day(**more):
    """Return a dispatcher that notifies `pager` of what is critical at any time, and `chat` of the rest by day."""
    routes = [{"channels": ["pager"], "severity": "critical"}, {"channels": ["chat"], **DAY}]
    return Dispatcher(config(routes=routes, **more))


def test_outside_the_hours_only_the_route_without_hours_is_notified():
    dispatcher = by_day()
    dispatcher.take(transition("i1", severity="warning"), NOW)
    dispatcher.take(transition("i2"), NOW)
    rows = dispatcher.take_rows()
    assert [(row.step, row.incident_id, row.channel) for row in rows] == [
        ("HELD", "i1", "chat"), ("QUEUED", "i2", "pager"),
    ]  # fmt: skip
    assert (rows[0].reason, rows[0].due_at) == ("OFF_HOURS", BEGIN)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_is_still_open_when_the_hours_begin_is_sent_then(restarted):
    dispatcher = by_day()
    for name in ("open", "over", "milder"):
        dispatcher.take(transition(name, severity="warning"), NOW)
    dispatcher.take(transition("over", "RESOLVED", 2, severity="warning"), NOW + HOUR)
    dispatcher.take(transition("milder", "DEESCALATED", 2, severity="info"), NOW + HOUR)
    rows = dispatcher.take_rows()
    if restarted:
        dispatcher = by_day()
        dispatcher = Dispatcher(dispatcher._config, rows)
    dispatcher.check_pending(BEGIN - 1)
    assert queued(dispatcher) == []
    dispatcher.check_pending(BEGIN)
    dispatcher.check_pending(BEGIN + MINUTE)
    assert queued(dispatcher) == [("OPENED", "open", "chat"), ("OPENED", "milder", "chat")]


def test_an_incident_that_becomes_critical_by_night_is_sent_at_once():
    dispatcher = by_day()
    dispatcher.take(transition(severity="warning"), NOW)
    dispatcher.take(transition(what="ESCALATED", seq=2), NOW + HOUR)
    dispatcher.check_pending(BEGIN)
    assert queued(dispatcher) == [("OPENED", "i1", "pager")]


def test_an_escalation_outside_the_hours_waits_for_them_unless_it_passed():
    routes = [{"channels": ["chat"], "severity": "warning", **DAY}]
    dispatcher = Dispatcher(config(routes=routes))
    for name in ("worse", "passed"):
        dispatcher.take(transition(name, severity="warning"), BEGIN - 15 * HOUR - MINUTE)  # a minute before 18:00
        dispatcher.take(transition(name, "ESCALATED", 2), NOW)
    dispatcher.take(transition("passed", "DEESCALATED", 3, severity="warning"), NOW + HOUR)
    dispatcher.take_rows()
    assert dispatcher.state.incidents["passed"].off_hours == set()
    dispatcher.check_pending(BEGIN)
    assert queued(dispatcher) == [("ESCALATED", "worse", "chat")]


def test_a_resolution_waits_for_the_hours_unless_it_was_sent_by_night():
    dispatcher = by_day()
    evening = BEGIN - 15 * HOUR - MINUTE
    dispatcher.take(transition("day", severity="warning"), evening)
    dispatcher.take(transition("night"), NOW)
    dispatcher.take(transition("night", "DEESCALATED", 2, severity="warning"), NOW)
    dispatcher.take_rows()
    for name in ("day", "night"):
        dispatcher.take(transition(name, "RESOLVED", 3, severity="warning"), NOW)
    due = {row.incident_id: (row.channel, row.due_at) for row in dispatcher.take_rows() if row.step == "QUEUED"}
    assert due == {"day": ("chat", BEGIN), "night": ("pager", NOW + 30 * SECOND)}


def test_an_alertmanager_gets_resolutions_at_once():
    manager = {"kind": "alertmanager", "url": "http://127.0.0.1:1"}
    dispatcher = Dispatcher(config(routes=[{"channels": ["ops"], **DAY}], channels={"ops": manager}))
    dispatcher.take(transition(), BEGIN)
    dispatcher.take_rows()
    dispatcher.take(transition(what="RESOLVED", seq=2), BEGIN + 10 * HOUR)
    assert [row.due_at for row in dispatcher.take_rows()] == [BEGIN + 10 * HOUR + 30 * SECOND]


def test_reminders_wait_for_the_hours():
    dispatcher = by_day()
    dispatcher.take(transition(severity="warning"), BEGIN - 15 * HOUR - MINUTE)
    send(dispatcher, BEGIN - 15 * HOUR, "chat")
    dispatcher.take_rows()
    dispatcher.check_pending(BEGIN - 1)
    assert queued(dispatcher) == []
    dispatcher.check_pending(BEGIN)
    assert queued(dispatcher) == [("REMINDER", "i1", "chat")]


def test_a_channel_of_two_routes_is_notified_by_the_one_within_its_hours():
    routes = [{"channels": ["chat"], "further": True, **DAY}, {"channels": ["chat"], "group_wait": "1s"}]
    dispatcher = Dispatcher(config(routes=routes))
    dispatcher.take(transition(), NOW)
    [row] = dispatcher.take_rows()
    assert (row.step, row.due_at) == ("QUEUED", NOW + SECOND)


def test_a_route_outside_its_hours_is_the_last_one_unless_it_has_further():
    for further in (False, True):
        routes = [{"channels": ["chat"], "further": further, **DAY}, {"channels": ["pager"]}]
        dispatcher = Dispatcher(config(routes=routes))
        dispatcher.take(transition(), NOW)
        assert queued(dispatcher) == ([("OPENED", "i1", "pager")] if further else [])
        dispatcher.check_pending(BEGIN)
        assert queued(dispatcher) == [("OPENED", "i1", "chat")]


@pytest.mark.parametrize("fields", [{"parent": "p1"}, {}])
def test_what_holds_for_all_channels_holds_when_the_hours_begin(fields):
    dispatcher = by_day()
    dispatcher.take(transition(severity="warning"), NOW)
    if fields:
        dispatcher.take(transition(what="RECLASSIFIED", seq=2, severity="warning", **fields), NOW)
    else:
        dispatcher.controls.take([silence(until=BEGIN + HOUR)])
    dispatcher.check_pending(BEGIN)
    assert queued(dispatcher) == []
    dispatcher.check_pending(BEGIN + HOUR)
    assert queued(dispatcher) == ([] if fields else [("OPENED", "i1", "chat")])


def test_a_silence_that_ends_outside_the_hours_leaves_the_alert_to_them():
    dispatcher = by_day()
    dispatcher.controls.take([silence(until=NOW + HOUR)])
    dispatcher.take(transition(severity="warning"), NOW)
    dispatcher.check_pending(NOW + HOUR)
    assert reasons_held(dispatcher) == ["SILENCED", "OFF_HOURS"]
    dispatcher.check_pending(BEGIN)
    assert queued(dispatcher) == [("OPENED", "i1", "chat")]
