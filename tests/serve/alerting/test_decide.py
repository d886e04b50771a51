"""Decide which transitions are sent to which channel: the truth table, then the lifecycle of an incident."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.serve.alerting.dispatcher import REJECTIONS_MAX, Dispatcher, pack
from streaming.serve.alerting.state import AlertState
from tests.support.alerting import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    config,
    next_delivery,
    queued,
    reasons_held,
    send,
    silence,
    transition,
)

SEVERITIES = ("info", "warning", "critical")


def control_of(control, name):
    return msgspec.structs.replace(silence(name), control=control)


def routed(severity="info", **fields):
    return config(routes=[{"channels": ["ops"], "severity": severity, **fields}])


@pytest.mark.parametrize(
    ("threshold", "severity", "parent", "covered", "what"),
    list(itertools.product(SEVERITIES, SEVERITIES, (None, "p1"), (False, True),
                           ("OPENED", "ESCALATED", "DEESCALATED", "RECLASSIFIED", "RESOLVED"))),
)  # fmt: skip
def test_an_incident_is_sent_if_it_opens_or_worsens_above_the_threshold(threshold, severity, parent, covered, what):
    dispatcher = Dispatcher(routed(threshold))
    if covered:
        dispatcher.controls.take([silence(group="ord*")])
    dispatcher.take(transition(what=what, severity=severity, parent=parent), NOW)
    high_enough = SEVERITIES.index(severity) >= SEVERITIES.index(threshold)
    sent = what in {"OPENED", "ESCALATED"} and high_enough and parent is None and not covered
    assert queued(dispatcher) == ([("OPENED", "i1", "ops")] if sent else [])


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"parent": "p1"}, "ABSORBED"),
        ({"group": "audit"}, "NO_ROUTE"),
        ({"group": "orders-silent"}, "SILENCED"),
        ({"what": "DEESCALATED"}, "DEESCALATED"),
        ({"what": "RECLASSIFIED"}, "RECLASSIFIED"),
        ({"what": "RESOLVED"}, "NOT_NOTIFIED"),
    ],
)
def test_the_ledger_has_the_reason_why_no_alert_was_sent(fields, why):
    dispatcher = Dispatcher(routed(groups=["orders*"]))
    dispatcher.controls.take([silence(group="*-silent")])
    dispatcher.take(transition(**fields), NOW)
    assert reasons_held(dispatcher) == [why]


def test_opening_escalation_and_resolution_are_sent():
    dispatcher = Dispatcher(config())
    dispatcher.take(transition(severity="warning"), NOW)
    dispatcher.take(transition(what="RECLASSIFIED", seq=2, severity="warning"), NOW)
    dispatcher.take(transition(what="ESCALATED", seq=3), NOW)
    dispatcher.take(transition(what="DEESCALATED", seq=4, severity="warning"), NOW)
    dispatcher.take(transition(what="RESOLVED", seq=5, severity="warning"), NOW)
    assert queued(dispatcher) == [("OPENED", "i1", "ops"), ("ESCALATED", "i1", "ops"), ("RESOLVED", "i1", "ops")]
    assert dispatcher.state.incidents == {}


def test_a_stuck_ordered_queue_is_sent_though_it_is_shown_under_its_cause():
    dispatcher = Dispatcher(config())
    dispatcher.take(transition(parent="p1", absorbed=False), NOW)
    assert queued(dispatcher) == [("OPENED", "i1", "ops")]


def test_an_open_child_is_sent_when_its_parent_resolves():
    dispatcher = Dispatcher(config())
    dispatcher.take(transition(parent="p1"), NOW)
    dispatcher.take(transition(what="ESCALATED", seq=2, parent="p1"), NOW)
    assert queued(dispatcher) == []
    dispatcher.take(transition(what="ESCALATED", seq=3), NOW)
    assert queued(dispatcher) == [("OPENED", "i1", "ops")]


def test_a_channel_with_a_higher_threshold_gets_the_escalation_as_opened():
    dispatcher = Dispatcher(config(routes=[
        {"channels": ["pager"], "severity": "critical", "further": True}, {"channels": ["chat"]}
    ]))  # fmt: skip
    dispatcher.take(transition(severity="warning"), NOW)
    dispatcher.take(transition(what="ESCALATED", seq=2), NOW)
    dispatcher.take(transition(what="RESOLVED", seq=3), NOW)
    assert queued(dispatcher) == [
        ("OPENED", "i1", "chat"), ("OPENED", "i1", "pager"), ("ESCALATED", "i1", "chat"),
        ("RESOLVED", "i1", "chat"), ("RESOLVED", "i1", "pager"),
    ]  # fmt: skip


def test_only_the_first_matching_route_is_used():
    dispatcher = Dispatcher(config(routes=[{"channels": ["pager"], "codes": ["LAG_*"]}, {"channels": ["chat"]}]))
    dispatcher.take(transition(), NOW)
    dispatcher.take(transition("i2", code="CLOCK_SKEW"), NOW)
    assert queued(dispatcher) == [("OPENED", "i1", "pager"), ("OPENED", "i2", "chat")]


def test_the_resolution_of_a_sent_incident_ignores_silences():
    dispatcher = Dispatcher(config())
    dispatcher.take(transition(), NOW)
    dispatcher.controls.take([silence()])
    dispatcher.take(transition(what="RESOLVED", seq=2), NOW)
    assert [kind for kind, *_ in queued(dispatcher)] == ["OPENED", "RESOLVED"]


@pytest.mark.parametrize("meanwhile", ["RECLASSIFIED", "DEESCALATED"])
def test_an_incident_without_a_route_after_its_silence_is_checked_once(meanwhile):
    dispatcher = Dispatcher(config(routes=[{"channels": ["pager"], "severity": "critical"}]))
    dispatcher.controls.take([silence(until=NOW + MINUTE)])
    dispatcher.take(transition(severity="warning"), NOW)
    dispatcher.take(transition(what=meanwhile, seq=2, severity="warning"), NOW)
    dispatcher.take_rows()
    dispatcher.check_pending(NOW + MINUTE)
    assert [row.reason for row in dispatcher.take_rows()] == ["NO_ROUTE"]
    dispatcher.check_pending(NOW + MINUTE)
    assert dispatcher.take_rows() == []


@pytest.mark.parametrize("by_hand", [False, True])
def test_an_incident_still_open_when_its_silence_ends_is_sent_then(by_hand):
    dispatcher = Dispatcher(config())
    dispatcher.controls.take([silence(code="LAG_*", until=NOW + MINUTE)])
    dispatcher.take(transition("resolved"), NOW)
    dispatcher.take(transition("open"), NOW)
    dispatcher.take(transition("resolved", "RESOLVED", 2), NOW)
    dispatcher.take(transition("open", "RECLASSIFIED", 2), NOW)
    dispatcher.check_pending(NOW + MINUTE - 1)
    assert queued(dispatcher) == []
    if by_hand:
        dispatcher.controls.take([control_of("END", "s1")])
    dispatcher.check_pending(NOW + MINUTE - 1 if by_hand else NOW + MINUTE)
    assert queued(dispatcher) == [("OPENED", "open", "ops")]


def test_each_reminder_of_an_open_incident_has_its_own_key():
    dispatcher = Dispatcher(config(remind_after="1h"))
    dispatcher.take(transition(), NOW)
    send(dispatcher, NOW + MINUTE)
    dispatcher.take_rows()
    keys = []
    for hours in (1, 2):
        dispatcher.check_pending(NOW + hours * HOUR - 1)
        assert queued(dispatcher) == []
        dispatcher.check_pending(NOW + hours * HOUR)
        dispatcher.check_pending(NOW + hours * HOUR)
        [row] = [row for row in dispatcher.take_rows() if row.step == "QUEUED"]
        assert row.message == "REMINDER"
        keys.append(row.key)
        send(dispatcher, NOW + hours * HOUR)
        dispatcher.take_rows()
    assert keys == ["i1:1:ops:1", "i1:1:ops:2"]


@pytest.mark.parametrize(
    ("why", "settings"),
    [
        ("acknowledged", {}),
        ("silenced", {}),
        ("resolved", {}),
        ("never", {"remind_after": "0s"}),
        ("an Alertmanager", {"channels": {"ops": {"kind": "alertmanager", "url": "http://127.0.0.1:1"}}}),
    ],
)
def test_no_reminder_is_sent_if(why, settings):
    dispatcher = Dispatcher(config(**settings))
    dispatcher.take(transition(), NOW)
    if why == "acknowledged":
        dispatcher.controls.take([control_of("ACK", "i1")])
    elif why == "silenced":
        dispatcher.controls.take([silence(until=NOW + 100 * HOUR)])
    elif why == "resolved":
        dispatcher.take(transition(what="RESOLVED", seq=2), NOW)
    send(dispatcher, NOW + MINUTE)
    dispatcher.take_rows()
    dispatcher.check_pending(NOW + 50 * HOUR)
    assert queued(dispatcher) == []


def test_an_acknowledged_incident_still_sends_escalation_and_resolution():
    dispatcher = Dispatcher(config())
    dispatcher.take(transition(severity="warning"), NOW)
    dispatcher.controls.take([control_of("ACK", "i1")])
    dispatcher.take(transition(what="ESCALATED", seq=2), NOW)
    dispatcher.take(transition(what="RESOLVED", seq=3), NOW)
    assert [kind for kind, *_ in queued(dispatcher)] == ["OPENED", "ESCALATED", "RESOLVED"]


def test_a_repeated_transition_changes_nothing():
    dispatcher = Dispatcher(config())
    for _ in range(2):
        dispatcher.take(transition(seq=2), NOW)
        dispatcher.take(transition(seq=1), NOW)
    assert len(queued(dispatcher)) == 1


def test_retries_back_off_exponentially_up_to_a_limit():
    dispatcher = Dispatcher(config())
    dispatcher.take(transition(), NOW)
    pack(dispatcher, "ops", None, NOW + MINUTE)
    pauses = []
    for _ in range(10):
        dispatcher.failed(next_delivery(dispatcher), "no answer", NOW, rejected=False)
        pauses.append((dispatcher.state.queues["ops"].retry_at - NOW) // SECOND)
    assert pauses == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert next_delivery(dispatcher).alerts[0].key == "i1:1:ops"


def test_only_rejections_count_towards_giving_up_even_after_a_restart():
    dispatcher = Dispatcher(config())
    dispatcher.take(transition(), NOW)
    pack(dispatcher, "ops", None, NOW + MINUTE)
    for number in range(2 * REJECTIONS_MAX):
        dispatcher.failed(next_delivery(dispatcher), "no answer", NOW, rejected=False)
        if number < REJECTIONS_MAX - 1:
            dispatcher.failed(next_delivery(dispatcher), "HTTP 400", NOW, rejected=True)
    again = Dispatcher(config(), dispatcher.take_rows())
    assert next_delivery(again) == next_delivery(dispatcher) is not None
    again.failed(next_delivery(again), "HTTP 400", NOW, rejected=True)
    assert next_delivery(again) is None


def test_a_recovered_channel_counts_its_failures_from_one():
    dispatcher = Dispatcher(config())
    for number, incident in enumerate(("i1", "i2")):
        dispatcher.take(transition(incident), NOW)
        pack(dispatcher, "ops", None, NOW + MINUTE)
        queue = dispatcher.state.queues["ops"]
        dispatcher.failed(next_delivery(dispatcher), "no answer", NOW + number, rejected=False)
        assert (queue.failures, queue.retry_at, queue.failed_since) == (1, NOW + number + 2 * SECOND, NOW + number)
        dispatcher.sent(next_delivery(dispatcher), NOW)
        assert (queue.failures, queue.failed_since, queue.error) == (0, None, "")


def test_a_rejected_message_is_dropped_and_its_resolution_is_not_sent():
    dispatcher = Dispatcher(config())
    dispatcher.take(transition("bad"), NOW)
    dispatcher.take(transition("good", group="audit"), NOW)
    pack(dispatcher, "ops", dispatcher._config.limit, NOW + MINUTE)
    dispatcher.take(transition("bad", "RESOLVED", 2), NOW)
    answer(dispatcher, "ops", "rejected", NOW)
    assert [alert.key for alert in next_delivery(dispatcher).alerts] == ["good:1:ops"]
    assert [one.alert.transition.incident_id for one in dispatcher.state.queues["ops"].waiting.values()] == ["good"]


def test_catching_up_sends_open_incidents_and_resolves_sent_ones():
    dispatcher = Dispatcher(config())
    dispatcher.take(transition("sent"), NOW)
    dispatcher.take_rows()
    dispatcher.catch_up(
        [transition("sent", "RESOLVED", 9), transition("past", "RESOLVED", 9), transition("new", "RECLASSIFIED", 9),
         transition("child", "ESCALATED", 9, parent="p1")],
        NOW,
    )  # fmt: skip
    assert queued(dispatcher) == [("RESOLVED", "sent", "ops"), ("OPENED", "new", "ops")]


ACTS = ("OPENED", "ESCALATED", "DEESCALATED", "RESOLVED", "pack", "sent", "failed", "rejected", "silence", "end",
        "check")  # fmt: skip
steps = st.lists(
    st.tuples(
        st.sampled_from(ACTS),
        st.sampled_from(["i1", "i2", "i3"]),
        st.sampled_from(SEVERITIES),
        st.sampled_from(["ops", "chat"]),
    ),
    max_size=60,
)  # fmt: skip


@given(steps)
def test_the_ledger_restores_the_state_and_each_channel_stays_in_order(story):
    """A restarted process has the former one's state; no channel gets an update of an incident before its opening."""
    routes = [
        {"channels": ["ops"], "severity": "warning", "further": True},
        {"channels": ["chat"], "hours": ["16:00-16:58", "17:03-18:00"]},  # the story begins at 16:53:20
    ]
    dispatcher = Dispatcher(config(routes=routes, remind_after="1m", group_wait="0s"))
    rows, now = [], NOW
    for number, (what, incident, severity, channel) in enumerate(story, 1):
        now += 20 * SECOND
        perform(dispatcher, what, transition(incident, what, number, severity=severity, group=incident), channel, now)
        rows += dispatcher.take_rows()
    again = AlertState()
    for row in rows:
        again.apply(row)
    assert again.incidents == dispatcher.state.incidents
    assert again.queues == dispatcher.state.queues
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    keys = [(row.key, row.channel) for row in rows if row.step == "QUEUED"]
    assert len(keys) == len(set(keys))
    for channel in ("ops", "chat"):
        opened = set()
        for row in rows:
            if row.step == "SENT" and row.channel == channel:
                assert row.message != "OPENED" or row.incident_id not in opened
                assert row.message in {"OPENED", "ESCALATED"} or row.incident_id in opened
                (opened.discard if row.message == "RESOLVED" else opened.add)(row.incident_id)


def perform(dispatcher, what, transition, channel, now):
    if what == "pack":
        pack(dispatcher, channel, dispatcher._config.limit, now)
    elif what in {"sent", "failed", "rejected"}:
        answer(dispatcher, channel, what, now)
    elif what == "silence":
        dispatcher.controls.take([silence(group=transition.incident_id, until=now + MINUTE)])
    elif what == "end":
        dispatcher.controls.take([control_of("END", "s1")])
    elif what == "check":
        dispatcher.check_pending(now)
    elif (transition.incident_id in dispatcher.state.incidents) != (what == "OPENED"):  # as the observer reports it
        dispatcher.take(transition, now)


def answer(dispatcher, channel, what, now):
    for _ in range(REJECTIONS_MAX if what == "rejected" else 1):
        delivery = next_delivery(dispatcher, channel)
        if delivery is not None and what == "sent":
            dispatcher.sent(delivery, now)
        elif delivery is not None:
            dispatcher.failed(delivery, "no", now, rejected=what == "rejected")


def undecided(**fields):
    """Return a critical incident of a broker whose ticks stopped and which may turn out to be unreachable."""
    return transition(alert_after=NOW + 30 * SECOND, **fields)


def test_an_alert_waits_for_a_possible_parent_and_is_sent_without_one():
    dispatcher = Dispatcher(config())
    dispatcher.take(undecided(), NOW)
    assert reasons_held(dispatcher) == ["UNDECIDED"]
    dispatcher.check_pending(NOW + 29 * SECOND)
    assert dispatcher.take_rows() == []
    dispatcher.check_pending(NOW + 30 * SECOND)
    assert queued(dispatcher) == [("OPENED", "i1", "ops")]


def test_an_alert_whose_parent_opens_in_time_is_not_sent():
    dispatcher = Dispatcher(config())
    dispatcher.take(undecided(), NOW)
    dispatcher.take(transition(what="DEESCALATED", seq=2, parent="p1"), NOW + 5 * SECOND)
    dispatcher.check_pending(NOW + MINUTE)
    dispatcher.take(transition(what="RESOLVED", seq=3, parent="p1"), NOW + HOUR)
    assert queued(dispatcher) == []


def test_a_process_that_reads_late_does_not_wait_for_a_parent():
    dispatcher = Dispatcher(config())
    dispatcher.take(undecided(), NOW + HOUR)
    assert queued(dispatcher) == [("OPENED", "i1", "ops")]


def test_the_wait_for_a_parent_continues_after_a_crash():
    dispatcher = Dispatcher(config())
    dispatcher.take(undecided(), NOW)
    again = Dispatcher(config(), dispatcher.take_rows())
    again.check_pending(NOW + 10 * SECOND)
    assert queued(again) == []
    again.check_pending(NOW + 31 * SECOND)
    assert queued(again) == [("OPENED", "i1", "ops")]


def test_an_empty_group_routes_incidents_of_the_cluster():
    of_cluster = {"group": "", "code": "BROKER_UNREACHABLE", "subject": "broker-a"}
    routes = [{"channels": ["pager"], "groups": [""]}, {"channels": ["ops"], "groups": ["ord*"]}]
    dispatcher = Dispatcher(config(routes=routes))
    dispatcher.take(transition("i1", **of_cluster), NOW)
    dispatcher.take(transition("i2"), NOW)
    assert queued(dispatcher) == [("OPENED", "i1", "pager"), ("OPENED", "i2", "ops")]
