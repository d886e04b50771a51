"""Whom a transition is told, and why not: the truth table, then what a life of an incident leads to."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.rows import AlertControl
from streaming.alerting.book import Book
from streaming.alerting.decide import REJECTIONS_MAX, Desk
from streaming.alerting.pack import pack
from tests.streaming.alerting.basis import HOUR, MINUTE, NOW, SECOND, config, next_delivery, transition

SEVERITIES = ("info", "warning", "critical")


def silence(name="s1", until=NOW + HOUR, **covers):
    given = {"cluster": None, "group": None, "code": None, **covers}
    return AlertControl(
        time=NOW, control="SILENCE", control_id=name, until=until, reason="known", author="ops", **given
    )


def said(control, name):
    return msgspec.structs.replace(silence(name), control=control)


def queued(desk):
    """(kind, incident, channel) of what is decided to be told."""
    return [(row.message, row.incident_id, row.channel) for row in desk.take_rows() if row.step == "QUEUED"]


def held(desk):
    """Why nobody is told."""
    return [row.detail.split()[0] for row in desk.take_rows() if row.step == "HELD"]


def routed(severity="info", **fields):
    return config(routes=[{"channels": ["ops"], "severity": severity, **fields}])


@pytest.mark.parametrize(
    ("threshold", "severity", "parent", "covered", "what"),
    list(itertools.product(SEVERITIES, SEVERITIES, (None, "p1"), (False, True),
                           ("OPENED", "ESCALATED", "DEESCALATED", "RECLASSIFIED", "RESOLVED"))),
)  # fmt: skip
def test_an_incident_is_told_if_it_opens_or_worsens_above_the_threshold_without_parent_and_silence(
    threshold, severity, parent, covered, what
):
    desk = Desk(routed(threshold))
    if covered:
        desk.controls.take([silence(group="ord*")])
    desk.take(transition(what=what, severity=severity, parent=parent), NOW)
    high_enough = SEVERITIES.index(severity) >= SEVERITIES.index(threshold)
    told = what in {"OPENED", "ESCALATED"} and high_enough and parent is None and not covered
    assert queued(desk) == ([("OPENED", "i1", "ops")] if told else [])


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"parent": "p1"}, "ABSORBED"),
        ({"group": "audit"}, "NO_ROUTE"),
        ({"group": "orders-silent"}, "SILENCED"),
        ({"what": "DEESCALATED"}, "DEESCALATED"),
        ({"what": "RECLASSIFIED"}, "RECLASSIFIED"),
        ({"what": "RESOLVED"}, "NOT_TOLD"),
    ],
)
def test_the_ledger_says_why_nobody_was_told(fields, why):
    desk = Desk(routed(groups=["orders*"]))
    desk.controls.take([silence(group="*-silent")])
    desk.take(transition(**fields), NOW)
    assert held(desk) == [why]


def test_a_life_opened_worse_over():
    desk = Desk(config())
    desk.take(transition(severity="warning"), NOW)
    desk.take(transition(what="RECLASSIFIED", seq=2, severity="warning"), NOW)
    desk.take(transition(what="ESCALATED", seq=3), NOW)
    desk.take(transition(what="DEESCALATED", seq=4, severity="warning"), NOW)
    desk.take(transition(what="RESOLVED", seq=5, severity="warning"), NOW)
    assert queued(desk) == [("OPENED", "i1", "ops"), ("ESCALATED", "i1", "ops"), ("RESOLVED", "i1", "ops")]
    assert desk.book.known == {}


def test_a_child_is_told_once_its_parent_is_over_and_it_is_not():
    desk = Desk(config())
    desk.take(transition(parent="p1"), NOW)
    desk.take(transition(what="ESCALATED", seq=2, parent="p1"), NOW)
    assert queued(desk) == []
    desk.take(transition(what="ESCALATED", seq=3), NOW)
    assert queued(desk) == [("OPENED", "i1", "ops")]


def test_a_channel_that_hears_of_it_only_when_it_is_worse_gets_it_as_opened_and_both_are_told_the_end():
    desk = Desk(config(routes=[
        {"channels": ["pager"], "severity": "critical", "further": True}, {"channels": ["chat"]}
    ]))  # fmt: skip
    desk.take(transition(severity="warning"), NOW)
    desk.take(transition(what="ESCALATED", seq=2), NOW)
    desk.take(transition(what="RESOLVED", seq=3), NOW)
    assert queued(desk) == [
        ("OPENED", "i1", "chat"), ("OPENED", "i1", "pager"), ("ESCALATED", "i1", "chat"),
        ("RESOLVED", "i1", "chat"), ("RESOLVED", "i1", "pager"),
    ]  # fmt: skip


def test_the_first_route_that_fits_is_the_only_one():
    desk = Desk(config(routes=[{"channels": ["pager"], "codes": ["LAG_*"]}, {"channels": ["chat"]}]))
    desk.take(transition(), NOW)
    desk.take(transition("i2", code="CLOCK_SKEW"), NOW)
    assert queued(desk) == [("OPENED", "i1", "pager"), ("OPENED", "i2", "chat")]


def test_what_was_told_is_closed_in_spite_of_a_silence():
    desk = Desk(config())
    desk.take(transition(), NOW)
    desk.controls.take([silence()])
    desk.take(transition(what="RESOLVED", seq=2), NOW)
    assert [kind for kind, *_ in queued(desk)] == ["OPENED", "RESOLVED"]


@pytest.mark.parametrize("meanwhile", ["RECLASSIFIED", "DEESCALATED"])
def test_what_no_route_takes_when_its_silence_ends_is_looked_at_once(meanwhile):
    desk = Desk(config(routes=[{"channels": ["pager"], "severity": "critical"}]))
    desk.controls.take([silence(until=NOW + MINUTE)])
    desk.take(transition(severity="warning"), NOW)
    desk.take(transition(what=meanwhile, seq=2, severity="warning"), NOW)
    desk.take_rows()
    desk.look_again(NOW + MINUTE)
    assert [row.detail for row in desk.take_rows()] == ["NO_ROUTE"]
    desk.look_again(NOW + MINUTE)
    assert desk.take_rows() == []


@pytest.mark.parametrize("by_hand", [False, True])
def test_what_is_still_open_when_its_silence_ends_is_told_then(by_hand):
    desk = Desk(config())
    desk.controls.take([silence(code="LAG_*", until=NOW + MINUTE)])
    desk.take(transition("over"), NOW)
    desk.take(transition("open"), NOW)
    desk.take(transition("over", "RESOLVED", 2), NOW)
    desk.take(transition("open", "RECLASSIFIED", 2), NOW)
    desk.look_again(NOW + MINUTE - 1)
    assert queued(desk) == []
    if by_hand:
        desk.controls.take([said("END", "s1")])
    desk.look_again(NOW + MINUTE - 1 if by_hand else NOW + MINUTE)
    assert queued(desk) == [("OPENED", "open", "ops")]


def send(desk, now, channel="ops"):
    pack(desk, channel, None, now)
    desk.sent(next_delivery(desk, channel), now)


def test_what_stays_open_is_told_again_with_a_key_of_its_own_each_time():
    desk = Desk(config(remind_after="1h"))
    desk.take(transition(), NOW)
    send(desk, NOW + MINUTE)
    desk.take_rows()
    keys = []
    for hours in (1, 2):
        desk.look_again(NOW + hours * HOUR - 1)
        assert queued(desk) == []
        desk.look_again(NOW + hours * HOUR)
        desk.look_again(NOW + hours * HOUR)
        [row] = [row for row in desk.take_rows() if row.step == "QUEUED"]
        assert row.message == "REMINDER"
        keys.append(row.key)
        send(desk, NOW + hours * HOUR)
        desk.take_rows()
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
def test_nobody_is_reminded_of_what_is(why, settings):
    desk = Desk(config(**settings))
    desk.take(transition(), NOW)
    if why == "acknowledged":
        desk.controls.take([said("ACK", "i1")])
    elif why == "silenced":
        desk.controls.take([silence(until=NOW + 100 * HOUR)])
    elif why == "resolved":
        desk.take(transition(what="RESOLVED", seq=2), NOW)
    send(desk, NOW + MINUTE)
    desk.take_rows()
    desk.look_again(NOW + 50 * HOUR)
    assert queued(desk) == []


def test_an_acknowledged_incident_still_tells_that_it_is_worse_and_over():
    desk = Desk(config())
    desk.take(transition(severity="warning"), NOW)
    desk.controls.take([said("ACK", "i1")])
    desk.take(transition(what="ESCALATED", seq=2), NOW)
    desk.take(transition(what="RESOLVED", seq=3), NOW)
    assert [kind for kind, *_ in queued(desk)] == ["OPENED", "ESCALATED", "RESOLVED"]


def test_the_same_transition_again_changes_nothing():
    desk = Desk(config())
    for _ in range(2):
        desk.take(transition(seq=2), NOW)
        desk.take(transition(seq=1), NOW)
    assert len(queued(desk)) == 1


def test_a_failed_attempt_is_due_again_after_twice_as_long_up_to_the_longest():
    desk = Desk(config())
    desk.take(transition(), NOW)
    pack(desk, "ops", None, NOW + MINUTE)
    pauses = []
    for _ in range(10):
        desk.failed(next_delivery(desk), "no answer", NOW, rejected=False)
        pauses.append((desk.book.lanes["ops"].retry_at - NOW) // SECOND)
    assert pauses == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert next_delivery(desk).alerts[0].key == "i1:1:ops"


def test_only_refusals_count_towards_giving_a_message_up_also_after_a_restart():
    desk = Desk(config())
    desk.take(transition(), NOW)
    pack(desk, "ops", None, NOW + MINUTE)
    for number in range(2 * REJECTIONS_MAX):
        desk.failed(next_delivery(desk), "no answer", NOW, rejected=False)
        if number < REJECTIONS_MAX - 1:
            desk.failed(next_delivery(desk), "HTTP 400", NOW, rejected=True)
    again = Desk(config(), desk.take_rows())
    assert next_delivery(again) == next_delivery(desk) is not None
    again.failed(next_delivery(again), "HTTP 400", NOW, rejected=True)
    assert next_delivery(again) is None


def test_a_channel_that_is_back_is_not_failing_and_its_next_failure_is_its_first():
    desk = Desk(config())
    for number, incident in enumerate(("i1", "i2")):
        desk.take(transition(incident), NOW)
        pack(desk, "ops", None, NOW + MINUTE)
        lane = desk.book.lanes["ops"]
        desk.failed(next_delivery(desk), "no answer", NOW + number, rejected=False)
        assert (lane.failures, lane.retry_at, lane.failed_since) == (1, NOW + number + 2 * SECOND, NOW + number)
        desk.sent(next_delivery(desk), NOW)
        assert (lane.failures, lane.failed_since, lane.error) == (0, None, "")


def test_a_message_that_is_refused_for_what_it_holds_is_given_up_and_what_was_not_opened_is_not_closed():
    desk = Desk(config())
    desk.take(transition("bad"), NOW)
    desk.take(transition("good", group="audit"), NOW)
    pack(desk, "ops", desk._config.limit, NOW + MINUTE)
    desk.take(transition("bad", "RESOLVED", 2), NOW)
    answer(desk, "ops", "rejected", NOW)
    assert [alert.key for alert in next_delivery(desk).alerts] == ["good:1:ops"]
    assert [one.alert.transition.incident_id for one in desk.book.lanes["ops"].waiting.values()] == ["good"]


def test_catching_up_tells_what_is_open_closes_what_was_told_and_leaves_the_past_alone():
    desk = Desk(config())
    desk.take(transition("told"), NOW)
    desk.take_rows()
    desk.catch_up(
        [transition("told", "RESOLVED", 9), transition("past", "RESOLVED", 9), transition("new", "RECLASSIFIED", 9),
         transition("child", "ESCALATED", 9, parent="p1")],
        NOW,
    )  # fmt: skip
    assert queued(desk) == [("RESOLVED", "told", "ops"), ("OPENED", "new", "ops")]


ACTS = ("OPENED", "ESCALATED", "DEESCALATED", "RESOLVED", "pack", "sent", "failed", "rejected", "silence", "end",
        "look")  # fmt: skip
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
def test_whatever_happens_the_ledger_folds_to_the_same_book_and_only_what_was_opened_is_closed(story):
    """A process that starts again knows what the one before knew; each channel's messages make sense in their order."""
    desk = Desk(config(routes=[{"channels": ["ops"], "severity": "warning", "further": True}, {"channels": ["chat"]}],
                       remind_after="1m", group_wait="0s"))  # fmt: skip
    rows, now = [], NOW
    for number, (what, incident, severity, channel) in enumerate(story, 1):
        now += 20 * SECOND
        act(desk, what, transition(incident, what, number, severity=severity, group=incident), channel, now)
        rows += desk.take_rows()
    again = Book()
    for row in rows:
        again.apply(row)
    assert again.known == desk.book.known
    assert again.lanes == desk.book.lanes
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


def act(desk, what, one, channel, now):
    if what == "pack":
        pack(desk, channel, desk._config.limit, now)
    elif what in {"sent", "failed", "rejected"}:
        answer(desk, channel, what, now)
    elif what == "silence":
        desk.controls.take([silence(group=one.incident_id, until=now + MINUTE)])
    elif what == "end":
        desk.controls.take([said("END", "s1")])
    elif what == "look":
        desk.look_again(now)
    elif (one.incident_id in desk.book.known) != (what == "OPENED"):  # as the observer tells it
        desk.take(one, now)


def answer(desk, channel, what, now):
    for _ in range(REJECTIONS_MAX if what == "rejected" else 1):
        delivery = next_delivery(desk, channel)
        if delivery is not None and what == "sent":
            desk.sent(delivery, now)
        elif delivery is not None:
            desk.failed(delivery, "no", now, rejected=what == "rejected")


def undecided(**fields):
    """A critical child of a broker whose ticks have stopped; whether the broker is unreachable is not decided."""
    return transition(alert_after=NOW + 30 * SECOND, **fields)


def test_what_a_parent_may_yet_explain_waits_and_is_told_when_none_came():
    desk = Desk(config())
    desk.take(undecided(), NOW)
    assert held(desk) == ["UNDECIDED"]
    desk.look_again(NOW + 29 * SECOND)
    assert desk.take_rows() == []
    desk.look_again(NOW + 30 * SECOND)
    assert queued(desk) == [("OPENED", "i1", "ops")]


def test_what_a_parent_explains_in_time_is_not_told():
    desk = Desk(config())
    desk.take(undecided(), NOW)
    desk.take(transition(what="DEESCALATED", seq=2, parent="p1"), NOW + 5 * SECOND)
    desk.look_again(NOW + MINUTE)
    desk.take(transition(what="RESOLVED", seq=3, parent="p1"), NOW + HOUR)
    assert queued(desk) == []


def test_a_late_process_does_not_wait_for_what_is_decided_long_since():
    desk = Desk(config())
    desk.take(undecided(), NOW + HOUR)
    assert queued(desk) == [("OPENED", "i1", "ops")]


def test_a_start_after_a_crash_still_waits_for_a_parent():
    desk = Desk(config())
    desk.take(undecided(), NOW)
    again = Desk(config(), desk.take_rows())
    again.look_again(NOW + 10 * SECOND)
    assert queued(again) == []
    again.look_again(NOW + 31 * SECOND)
    assert queued(again) == [("OPENED", "i1", "ops")]


def test_a_route_names_what_is_about_the_cluster():
    of_cluster = {"group": "", "code": "BROKER_UNREACHABLE", "subject": "broker-a"}
    routes = [{"channels": ["pager"], "groups": [""]}, {"channels": ["ops"], "groups": ["ord*"]}]
    desk = Desk(config(routes=routes))
    desk.take(transition("i1", **of_cluster), NOW)
    desk.take(transition("i2"), NOW)
    assert queued(desk) == [("OPENED", "i1", "pager"), ("OPENED", "i2", "ops")]
