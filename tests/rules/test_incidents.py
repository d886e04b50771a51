"""The scenario table of three incidents: one that fires, a near miss, a recovery; each with its reason."""

import msgspec
import pytest

from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.rules.lifecycle import NOT_APPLICABLE
from tests.support.hook_trace import HookTrace
from tests.support.incident_rows import rows
from tests.support.trace import SILENT, START, Held, Member, Trace, holding


def healthy(trace: Trace, start: float, stop: float, commit: int = 85) -> int:
    """Rounds of two members that consume everything; returns the commit reached."""
    at = start
    while at < stop:
        commit += 5
        offsets = dict.fromkeys(range(4), (commit, commit))
        trace.poll(at, {"a": holding(0, 1), "b": holding(2, 3)}, offsets)
        at += 10
    return commit


def stuck_rounds(trace: Trace, member: Member, *, rounds: int, start: float = 20) -> None:
    """Queue 0 has lag and its commit stands; ``member`` is what its owner answers."""
    for n in range(rounds):
        at = start + 10 * n
        reached = round(148 + at / 10)
        offsets = {0: (reached, 100), **dict.fromkeys(range(1, 4), (reached, reached))}
        trace.poll(at, {"a": member, "b": holding(2, 3)}, offsets)


def test_a_healthy_group_raises_nothing():
    trace = Trace()
    healthy(trace, 0, 600)
    assert trace.incidents() == []


@pytest.mark.parametrize(
    ("owner", "sub_cause"),
    [
        # the listener has a message and its stamp stands
        (Member((Held(0, consume_age=50, in_listener=1, cached=9), Held(1))), "LISTENER_HUNG"),
        # a client without such a stamp: the message is in the listener, or waits
        (Member((Held(0, consume_age=None, in_listener=1, cached=9), Held(1))), "LISTENER_HUNG"),
        (Member((Held(0, consume_age=None, cached=9), Held(1))), "UNDETERMINED"),
        # the listener receives the message again every second
        (Member((Held(0, consume_age=1, cached=10), Held(1))), "SUSPEND_LOOP"),
        # suspended for the longest time RocketMQ allows, 30 s: still a loop
        (Member((Held(0, consume_age=30, cached=10), Held(1))), "SUSPEND_LOOP"),
        (Member((Held(0, locked=False), Held(1))), "NOT_LOCKED"),
        (Member((Held(0, consume_age=50, pull_age=31), Held(1))), "NOT_PULLING"),
        (Member((Held(0, consume_age=50, pull_age=29), Held(1))), "NOTHING_RECEIVED"),
        # kept but dropped, the queue is unassigned
        (Member((Held(0, dropped=True), Held(1))), "ZOMBIE"),
        (Member((Held(0, dropped=True, unlock_attempts=2), Held(1))), "UNLOCK_PENDING"),
        (Member((Held(1),)), "UNASSIGNED"),
    ],
)
def test_a_stuck_queue_opens_once_past_60_s_with_its_sub_cause(owner: Member, sub_cause: str):
    trace = Trace()
    healthy(trace, 0, 20)
    stuck_rounds(trace, owner, rounds=8)
    # lag and a standing commit are first seen at 20; 60 s is not more than 60 s; at 90 it is
    assert trace.incidents("ORDERED_QUEUE_STUCK") == [(90, "OPENED", f"ORDERED_QUEUE_STUCK {sub_cause}")]


def test_a_commit_that_advances_in_time_is_a_near_miss():
    trace = Trace()
    healthy(trace, 0, 20)
    stuck_rounds(trace, holding(0, 1), rounds=7)
    trace.poll(90, {"a": holding(0, 1), "b": holding(2, 3)}, {0: (200, 101)})
    trace.poll(100, {"a": holding(0, 1), "b": holding(2, 3)}, {0: (210, 101)})
    assert trace.incidents("ORDERED_QUEUE_STUCK") == []


def test_a_stuck_queue_resolves_only_when_its_commit_advances():
    trace = Trace()
    healthy(trace, 0, 20)
    stuck_rounds(trace, Member((Held(0, consume_age=1, cached=10), Held(1))), rounds=8)
    stuck_rounds(trace, holding(0, 1), rounds=3, start=100)  # cured, and nothing consumed yet
    trace.poll(130, {"a": holding(0, 1), "b": holding(2, 3)}, {0: (200, 101)})
    assert [t for t in trace.incidents() if t[1] in ("OPENED", "RESOLVED")] == [
        (90, "OPENED", "ORDERED_QUEUE_STUCK SUSPEND_LOOP"),
        (130, "RESOLVED", "ORDERED_QUEUE_STUCK UNDETERMINED"),
    ]


def test_an_offset_of_0_without_a_commit_ever_seen_is_unknown_not_lag():
    trace = Trace()
    for n in range(12):
        trace.poll(10 * n, {"a": holding(0, 1), "b": holding(2, 3)}, {0: (50 + n, 0)})
    assert trace.incidents() == []


def test_a_concurrent_group_has_no_stuck_ordered_queue():
    trace = Trace()
    member = Member((Held(0, consume_age=50, in_listener=1),), orderly=False)
    for n in range(12):
        trace.poll(10 * n, {"a": member}, {0: (50 + n, 10)})
    assert trace.incidents("ORDERED_QUEUE_STUCK") == []


def test_uncovered_time_does_not_count():
    """The collector is away for 50 s: two answers so far apart prove nothing of what lies between."""
    trace = Trace()
    healthy(trace, 0, 20)
    stuck_rounds(trace, holding(0, 1), rounds=3)  # 20 s covered, at 40
    stuck_rounds(trace, holding(0, 1), rounds=4, start=90)  # another 30 s, at 120
    assert trace.incidents() == []
    stuck_rounds(trace, holding(0, 1), rounds=2, start=130)
    assert [t[0] for t in trace.incidents()] == [140]


def test_lost_events_are_not_covered():
    trace = Trace()
    healthy(trace, 0, 20)
    stuck_rounds(trace, holding(0, 1), rounds=5)
    trace.seq += 7
    stuck_rounds(trace, holding(0, 1), rounds=3, start=70)  # without the loss it would open at 90
    assert trace.incidents("ORDERED_QUEUE_STUCK") == []


def test_a_frozen_owner_expires_its_locks_then_is_named_as_the_cause():
    """SIGSTOP after its answer at 10: it may have renewed until it was asked in vain, at 20."""
    trace = Trace()
    healthy(trace, 0, 20)
    for n in range(9):
        offsets = {0: (150 + n, 110), 1: (150, 110), 2: (150 + n, 150 + n)}
        trace.poll(20 + 10 * n, {"a": SILENT, "b": holding(2, 3)}, offsets)
    lock = [t for t in trace.incidents() if "LOCK" in t[2]]
    assert lock == [
        (50.001, "OPENED", "LOCK_EXPIRED"),
        (50.001, "OPENED", "LOCK_EXPIRED"),
        (80.001, "ESCALATED", "LOCK_EXPIRED"),
        (80.001, "ESCALATED", "LOCK_EXPIRED"),
    ]
    stuck = [t for t in trace.incidents() if "STUCK" in t[2]]
    assert stuck == [(90, "OPENED", "ORDERED_QUEUE_STUCK OWNER_UNRESPONSIVE")] * 2


def test_one_failed_request_is_a_near_miss():
    """A long garbage collection: the lock would have run out by the collector's clock, but the client renewed it."""
    trace = Trace()
    trace.poll(0, {"a": holding(0, 1, lock_age=25), "b": holding(2, 3)})
    trace.poll(10, {"a": SILENT, "b": holding(2, 3)}).tick(19)
    trace.poll(20, {"a": holding(0, 1), "b": holding(2, 3)})
    assert trace.incidents() == []


def test_silence_neither_opens_nor_resolves_incidents_of_the_last_answer():
    trace = Trace()
    healthy(trace, 0, 20)
    trace.poll(20, {"a": holding(0, lock_age=45), "b": holding(2, 3)})
    trace.poll(30, {"a": SILENT, "b": holding(2, 3)})
    trace.poll(40, {"a": SILENT, "b": holding(2, 3)}).tick(55)
    assert trace.incidents("LOCK_EXPIRED") == [(20, "OPENED", "LOCK_EXPIRED")]


def test_a_silent_broker_does_not_make_its_clients_locks_expire():
    trace = Trace()
    healthy(trace, 0, 20)
    for n in range(12):
        trace.poll(20 + 10 * n, None)
        trace._fold(trace._answer("a", Member(error=-1), 1_800_000_020_000 + 10_000 * n))
    assert trace.incidents("LOCK_EXPIRED", "PULL_EXPIRED", "CLIENT_UNRESPONSIVE") == []


def test_a_lock_expires_within_one_answer_and_resolves_at_the_renewal():
    trace = Trace()
    healthy(trace, 0, 20)
    trace.poll(20, {"a": holding(0, lock_age=30), "b": holding(2, 3)})  # exactly 30 s: RocketMQ's own `>` lets it live
    trace.poll(30, {"a": holding(0, lock_age=30.001), "b": holding(2, 3)})
    trace.poll(40, {"a": holding(0, lock_age=61), "b": holding(2, 3)})
    trace.poll(50, {"a": holding(0, lock_age=1), "b": holding(2, 3)})
    assert trace.incidents() == [
        (30, "OPENED", "LOCK_EXPIRED"),
        (40, "ESCALATED", "LOCK_EXPIRED"),
        (50, "RESOLVED", "LOCK_EXPIRED"),
    ]


def test_an_expired_lock_resolves_when_the_queue_goes_to_another():
    trace = Trace()
    healthy(trace, 0, 20)
    trace.poll(20, {"a": holding(0, lock_age=45), "b": holding(2, 3)})
    trace.poll(30, {"a": holding(), "b": holding(0, 2, 3)})
    assert trace.incidents() == [(20, "OPENED", "LOCK_EXPIRED"), (30, "RESOLVED", "LOCK_EXPIRED")]


def test_an_expired_lock_resolves_when_its_client_is_dropped_by_the_broker():
    trace = Trace()
    healthy(trace, 0, 20)
    for at in (20, 30, 40, 50, 60):
        trace.poll(at, {"a": SILENT, "b": holding(2, 3)})
    trace.poll(70, {"b": holding(2, 3)})
    assert [t[1] for t in trace.incidents("LOCK_EXPIRED")] == ["OPENED", "OPENED", "RESOLVED", "RESOLVED"]
    assert trace.owners() == {0: None, 1: None, 2: "b", 3: "b"}


@pytest.mark.parametrize(("age", "fires"), [(120, False), (120.001, True)])
def test_a_pull_expires_past_120_s(age, fires):
    trace = Trace()
    healthy(trace, 0, 20)
    trace.poll(20, {"a": Member((Held(0, pull_age=age), Held(1))), "b": holding(2, 3)})
    assert trace.incidents() == ([(20, "OPENED", "PULL_EXPIRED")] if fires else [])


def test_a_pull_that_stands_still_is_aged_by_the_collector_too():
    """All queues of a slow client are pulled at one time: its newest stamp is that pull itself, so its own clock
    shows no age at all; but the same stamp has been seen for 120.001 s.
    """
    trace = Trace()
    pulled = 5
    for at in (10, 20, 60, 130, 130.001):
        age = at - pulled
        still = Member((Held(0, pull_age=age, consume_age=age, lock_age=age),), orderly=False)
        trace.poll(at, {"a": still})
    assert trace.incidents() == [(130.001, "OPENED", "PULL_EXPIRED")]
    trace.poll(140, {"a": Member((Held(0),), orderly=False)})
    assert trace.incidents()[-1] == (140, "RESOLVED", "PULL_EXPIRED")


def test_an_incident_ends_whose_rule_does_not_apply_any_more():
    trace = Trace()
    trace.poll(10, {"a": holding(0, pull_age=500)})
    trace.effects.clear()
    trace.state.views["broker-a"].info.consume_type = "CONSUME_ACTIVELY"
    trace._fold(trace._answer("a", holding(0, pull_age=500), 1_800_000_020_000))
    assert [(one.transition, one.resolution) for one in rows(trace, "PULL_EXPIRED")] == [("RESOLVED", NOT_APPLICABLE)]


def test_it_ends_at_once_though_nothing_else_has_changed():
    """A broker with an embedded proxy: its members answer no request, and divide no queues."""
    trace = HookTrace().heart_beat(0, "a").asks(1, "a", 0).pulls(2, "a", 0).commits(3, "a", 0, 0)
    for at in range(20, 151, 10):
        trace.heart_beat(at, "a").pulls(at + 1, "a", 0, offset=at)
    assert [what for _, what, _ in trace.incidents("QUEUE_STALLED")] == ["OPENED"]
    trace.heart_beat(180, "a").heart_beat(210, "a")
    trace._fold(trace._answer("a", SILENT, START + 225_000))
    resolved = rows(trace, "QUEUE_STALLED")[-1]
    assert (resolved.time, resolved.resolution) == (START + 225_000, NOT_APPLICABLE)


def test_retry_queues_are_ignored():
    trace = Trace()
    healthy(trace, 0, 20)
    retry = Held(0, topic="%RETRY%g", lock_age=100, pull_age=500)
    trace.poll(20, {"a": Member((Held(0), Held(1), retry)), "b": holding(2, 3)})
    assert trace.incidents() == []


def test_an_incident_has_evidence_explanation_and_first_step():
    trace = Trace()
    healthy(trace, 0, 20)
    stuck_rounds(trace, Member((Held(0, consume_age=1, cached=10), Held(1))), rounds=8)
    [opened] = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == "ORDERED_QUEUE_STUCK"]
    evidence = msgspec.json.decode(opened.evidence)
    assert evidence["stalled_ms"] == 70_000
    assert (evidence["lag"], evidence["commit_offset"], evidence["owner"]) == (57, 100, "a")
    assert "poison" in opened.explanation
    assert opened.first_step
    assert opened.cause.split("|")[1] == "c/g"
    assert (opened.severity, opened.client_id, opened.subject) == ("critical", "a", "Orders@broker-a:0")


def test_a_sub_cause_that_changes_is_no_new_alert():
    trace = Trace()
    healthy(trace, 0, 20)
    stuck_rounds(trace, Member((Held(0, consume_age=1, cached=10), Held(1))), rounds=8)
    stuck_rounds(trace, Member((Held(0, consume_age=50, in_listener=1), Held(1))), rounds=2, start=100)
    assert trace.incidents() == [
        (90, "OPENED", "ORDERED_QUEUE_STUCK SUSPEND_LOOP"),
        (100, "RECLASSIFIED", "ORDERED_QUEUE_STUCK LISTENER_HUNG"),
    ]
