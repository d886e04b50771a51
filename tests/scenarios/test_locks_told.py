"""The scenario table of what hooks tell of locks, members and pulls: what fires, nearly fires, recovers, and why."""

import msgspec
import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.events import LockBatchMq
from tests.scenarios.hook_trace import A, HookTrace
from tests.scenarios.trace import SILENT, Held, Member, Trace, holding


def ordered(at: float = 0) -> HookTrace:
    """a has 0 and 1, b has 2 and 3, by their locks."""
    return HookTrace().heart_beat(at, "a", "b").locks(at + 1, "a", 0, 1).locks(at + 1, "b", 2, 3)


def told(trace: Trace, *codes: str) -> list[tuple[float, str, str]]:
    """Every transition of these codes, in the trace's seconds, once for all queues that share it."""
    return list(dict.fromkeys((round(at, 3), what, name) for at, what, name in trace.incidents(*codes)))


def evidence(trace: Trace, code: str) -> list[dict[str, object]]:
    told = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == code]
    return [msgspec.json.decode(e.evidence) for e in told]


# LOCK_ORPHANED (semantics 7.10: client killed; client-go #1080 never renewed)


def killed() -> HookTrace:
    """detection.md, worked on a real cluster: SIGKILL of a at 265.0, its last renewal at 263.3."""
    trace = ordered(243).heart_beat(260, "a", "b").locks(263.3, "a", 0, 1).pulls(264, "a", 0, offset=9)
    trace.commits(264.5, "a", 0, 7).commits(264.5, "a", 1, 7)
    trace.lists(265, "b")
    for second in range(58):
        trace.passes(265 + second).locks(265 + second, "b", 0, 1, granted=())
        if second % 20 == 0:
            trace.locks(265 + second, "b", 2, 3)
    return trace


def test_the_lock_of_a_killed_consumer_is_orphaned_from_3_s_after_the_first_refusal_to_its_end():
    trace = killed().locks(323.4, "b", 0, 1)
    assert told(trace, "LOCK_ORPHANED") == [
        (268.001, "OPENED", "LOCK_ORPHANED"),
        (295.001, "ESCALATED", "LOCK_ORPHANED"),  # queue 0 has messages that wait; of queue 1 that is not known
        (323.301, "RESOLVED", "LOCK_ORPHANED"),  # the lock has run out: whoever asks next has it
    ]
    assert [name for _, what, name in trace.incidents() if what == "ESCALATED"] == ["LOCK_ORPHANED"]
    first = evidence(trace, "LOCK_ORPHANED")[0]
    assert (first["holder"], first["lock_age_ms"], first["asked_by"]) == ("a", 4_701, "b")


def test_a_kill_is_carried_by_the_orphan_rule_since_whether_the_queue_is_stuck_is_a_coin_toss():
    """The commit stood 59.6 s: from 264.5 to 324.1."""
    trace = killed().locks(323.4, "b", 0, 1).pulls(323.9, "b", 0, offset=7).commits(324.1, "b", 0, 9)
    assert trace.incidents("ORDERED_QUEUE_STUCK") == []


def test_clients_that_are_shut_down_together_leave_no_orphans():
    """The lab's rollout: a leaves with a lock that it was granted meanwhile; b, that is refused it, leaves as well."""
    trace = ordered().leaves(20, "a").locks(20.2, "b", 0, granted=()).locks(21.2, "b", 0, granted=())
    trace.leaves(21.5, "b").passes(30)
    assert told(trace, "LOCK_ORPHANED") == []


def test_the_lock_of_a_client_that_said_goodbye_and_kept_it_is_orphaned_3_s_after_the_first_refusal():
    trace = ordered().leaves(20, "a")
    for second in range(5):
        trace.locks(20.2 + second, "b", 0, granted=()).passes(20.5 + second)
    trace.locks(25.2, "b", 0)
    assert told(trace, "LOCK_ORPHANED") == [(23.201, "OPENED", "LOCK_ORPHANED"), (25.2, "RESOLVED", "LOCK_ORPHANED")]


def test_an_orphaned_lock_that_nobody_asks_for_any_more_is_nobodys_trouble():
    trace = ordered().lists(20, "b").locks(20, "b", 0, granted=()).passes(29).lists(30, code=1)
    assert told(trace, "LOCK_ORPHANED") == [(23.001, "OPENED", "LOCK_ORPHANED"), (30, "RESOLVED", "LOCK_ORPHANED")]


def test_a_client_whose_connection_broke_and_that_is_back_was_no_orphan():
    """The broker tells its heirs at once, who are refused; its next call, up to 3 s later, makes it a member again."""
    trace = ordered().lists(20, "b").locks(20, "b", 0, granted=()).locks(21, "b", 0, granted=()).passes(22)
    trace.heart_beat(22.9, "a", number=1).passes(60)
    assert told(trace, "LOCK_ORPHANED") == []


def test_a_refusal_for_the_sake_of_a_living_member_is_no_orphan():
    """Start-up: every queue is asked for by two, refused once or twice, settled within 3 s (detection.md)."""
    trace = ordered().locks(1.5, "b", 0, 1, granted=()).locks(2.5, "b", 0, 1, granted=())
    trace.unlocks(3, "a", 0, 1).locks(3.5, "b", 0, 1)
    assert trace.incidents() == []


def test_a_refusal_is_not_judged_while_the_hook_is_silent():
    trace = ordered().lists(20, "b")
    trace.poll(20, {"b": holding(2, 3)})
    for at in (30, 40, 50):
        trace.poll(at, {"b": holding(0, 1, 2, 3)})
    assert trace.incidents("LOCK_ORPHANED") == []


def polled_kill(*, heir_takes_at: float) -> Trace:
    """a, which had 0 and 1 with locks 5 s old at 20, is gone at 30."""
    trace = Trace()
    for at in (0, 10, 20):
        trace.poll(at, {"a": holding(0, 1), "b": holding(2, 3)})
    for at in range(30, 100, 10):
        trace.poll(at, {"b": holding(0, 1, 2, 3) if at >= heir_takes_at else holding(2, 3)})
    return trace


@pytest.mark.parametrize(
    ("heir_takes_at", "expected"),
    [
        # past the heir's own timer of 20 s it would have the queue, if it were given it: at 60, not at 50
        (70, [(60, "OPENED"), (70, "RESOLVED")]),
        # nobody takes it, and the lock, seen renewed at 15, may have been again until 30: at 90 it is surely free
        (999, [(60, "OPENED"), (90, "RESOLVED")]),
        # a clean leave whose notification is lost: the heir finds out by its timer
        (50, []),
        (30, []),
    ],
)
def test_polls_alone_infer_an_orphaned_lock(heir_takes_at, expected):
    trace = polled_kill(heir_takes_at=heir_takes_at)
    found = trace.incidents("LOCK_ORPHANED")
    assert list(dict.fromkeys(found)) == [(at, what, "LOCK_ORPHANED INFERRED") for at, what in expected]


# LOCK_CONTENDED (semantics 7.26: #8772)


def refused(trace: HookTrace, begin: float, end: float) -> HookTrace:
    """b asks for 0 every 10 s in vain, while a renews."""
    at = begin
    while at <= end:
        trace.locks(at, "b", 0, 2, 3, granted=(2, 3)).locks(at + 0.01, "a", 0, 1)
        trace.heart_beat(at + 0.02, "a", "b")
        at += 10
    return trace


def test_a_lock_that_a_living_member_keeps_from_another_is_contended():
    trace = refused(ordered(), 10, 60)
    assert trace.incidents() == []  # six times over 50.0 s is a near miss
    trace.locks(60.1, "b", 0, granted=()).locks(71, "a", 0, 1).heart_beat(80, "a", "b").passes(81)
    trace.locks(91, "a", 0, 1).locks(91, "b", 2, 3).heart_beat(110, "a", "b").passes(141)
    assert told(trace, "LOCK_CONTENDED") == [
        (60.1, "OPENED", "LOCK_CONTENDED REFUSED"),
        (140.101, "RESOLVED", "LOCK_CONTENDED REFUSED"),  # asked for no more for 20 s, and 60 s clear
    ]
    assert evidence(trace, "LOCK_CONTENDED")[0]["asking_ms"] == 50_100


def test_a_client_that_sees_a_new_route_later_than_its_heirs_contends_nothing():
    """A topic that loses queues: each asks for its route every 30 s, and keeps its queues until its next turn."""
    assert refused(ordered(), 10, 40).incidents("LOCK_CONTENDED") == []


def test_a_thawed_client_that_asks_six_times_within_milliseconds_contends_nothing():
    trace = ordered()
    for n in range(6):
        trace.locks(30 + n * 0.0026, "b", 0, granted=())
    assert trace.locks(90, "a", 0, 1).incidents("LOCK_CONTENDED") == []


def test_asking_again_after_45_s_begins_anew():
    trace = ordered().locks(10, "b", 0, granted=()).locks(12, "b", 0, granted=())
    trace.locks(57.1, "b", 0, granted=()).locks(58, "b", 0, granted=())
    assert trace.incidents("LOCK_CONTENDED") == []


def test_a_lock_that_goes_to_and_fro_between_two_members_is_contended():
    trace = ordered().unlocks(10, "a", 0).locks(11, "b", 0).unlocks(20, "b", 0).locks(21, "a", 0).unlocks(30, "a", 0)
    assert trace.incidents() == []
    trace.locks(31, "b", 0).heart_beat(31, "a", "b").locks(50, "a", 1).passes(62)
    assert told(trace, "LOCK_CONTENDED") == [(31, "OPENED", "LOCK_CONTENDED TO_AND_FRO")]
    assert evidence(trace, "LOCK_CONTENDED")[0]["taken_by"] == "a, b, a, b"
    trace.heart_beat(62, "a", "b").passes(121.002)
    assert told(trace, "LOCK_CONTENDED")[1:] == [(121.001, "RESOLVED", "LOCK_CONTENDED TO_AND_FRO")]


def test_a_queue_that_goes_to_and_fro_in_a_rollout_is_given_by_other_shares_each_time():
    trace = ordered().unlocks(10, "a", 0).locks(11, "b", 0).heart_beat(12, "c").unlocks(20, "b", 0).locks(21, "a", 0)
    trace.leaves(25, "c").unlocks(30, "a", 0).locks(31, "b", 0)
    assert trace.incidents("LOCK_CONTENDED") == []


def test_of_many_who_ask_the_last_ones_are_remembered():
    trace = ordered()
    for n in range(12):
        trace.locks(10 + n, f"asks-{n}", 0, granted=())
    [mq] = [mq for mq in trace.state.queues if mq.queue_id == 0]
    assert list(trace.state.queues[mq].hook.refusals) == [f"asks-{n}" for n in range(4, 12)]


def test_contention_is_not_judged_while_the_hook_is_silent():
    trace = HookTrace().poll(0, {"a": holding(0, 1), "b": holding(2, 3)})
    trace.heart_beat(0.5, "a", "b").locks(1, "a", 0, 1).locks(1, "b", 2, 3)
    for at in range(10, 70, 10):
        trace.poll(at, {"a": holding(0, 1), "b": holding(2, 3)})
        trace.locks(at + 1, "b", 0, granted=()).locks(at + 1, "a", 0, 1).heart_beat(at + 1, "a", "b")
    trace.locks(62, "b", 0, granted=()).falls_silent(78, trace.view().source)
    for at in range(80, 210, 10):
        trace.poll(at, {"a": holding(0, 1), "b": holding(2, 3)})
    assert trace.incidents("LOCK_CONTENDED") == [(62, "OPENED", "LOCK_CONTENDED REFUSED")]


def test_the_locks_of_retry_queues_are_left_out():
    """They are implicit and locked like any other; a stuck retry queue is another matter."""
    retry = (MessageQueue("%RETRY%g", A, 0),)
    trace = HookTrace().boots(0).heart_beat(1, "a", "b")
    trace._tell(2, LockBatchMq, client_id="a", channel="a:0", requested=retry, granted=retry)
    for at in (3, 6, 9, 12):
        trace._tell(at, LockBatchMq, client_id="b", channel="b:0", requested=retry, granted=())
    trace.lists(13, "b")
    trace._tell(14, LockBatchMq, client_id="b", channel="b:0", requested=retry, granted=())
    trace.boots(20)
    assert trace.incidents() == []


# BROKER_LOCKS_LOST (semantics 7.11)


def restarted() -> HookTrace:
    return HookTrace().boots(0).heart_beat(1, "a", "b").locks(2, "a", 0, 1).locks(2, "b", 2, 3).boots(20)


def test_a_restart_loses_the_locks_until_their_owners_have_them_again():
    trace = restarted().heart_beat(21, "a", "b").locks(22, "a", 0, 1).locks(22, "b", 3)
    assert told(trace) == [(20, "OPENED", "BROKER_LOCKS_LOST")]
    assert evidence(trace, "BROKER_LOCKS_LOST")[0]["locks_missing"] == 4
    trace.locks(24, "b", 2)
    trace.heart_beat(50, "a", "b").heart_beat(80, "a", "b").passes(84)
    assert told(trace, "BROKER_LOCKS_LOST")[1:] == [(84, "RESOLVED", "BROKER_LOCKS_LOST")]


@pytest.mark.parametrize(
    ("how", "ends"),
    [
        (lambda t: t.passes(40), 32.001),  # the former owner believes in its lock for 30 s from its renewal at 2
        (lambda t: t.locks(26, "a", 0, granted=()), 26),  # refused, it knows better
        (lambda t: t.unlocks(26, "a", 0), 26),
        (lambda t: t.leaves(26, "a"), 26),
    ],
)
def test_another_who_takes_a_lost_lock_first_makes_two_owners(how, ends):
    trace = restarted().heart_beat(21, "a", "b").locks(22, "b", 2, 3).locks(23, "a", 1).locks(25, "b", 0)
    how(trace)
    for at in (40, 60, 80, 100):
        trace.heart_beat(at, "b").locks(at, "b", 2, 3)
    assert told(trace, "BROKER_LOCKS_LOST") == [
        (20, "OPENED", "BROKER_LOCKS_LOST"),
        (25, "ESCALATED", "BROKER_LOCKS_LOST TWO_OWNERS"),
        (ends + 60, "RESOLVED", "BROKER_LOCKS_LOST TWO_OWNERS"),
    ]
    assert evidence(trace, "BROKER_LOCKS_LOST")[1]["first_taker"] == "b"


def test_a_lost_lock_that_nobody_takes_stays_lost():
    trace = restarted().heart_beat(21, "a", "b").locks(22, "a", 0).locks(22, "b", 2, 3).passes(53)
    trace.heart_beat(53, "a", "b").locks(53, "b", 2, 3).passes(90)
    assert told(trace, "BROKER_LOCKS_LOST") == [(20, "OPENED", "BROKER_LOCKS_LOST")]


def test_a_restart_loses_nothing_of_a_group_that_locks_nothing():
    trace = HookTrace().boots(0).heart_beat(1, "a").asks(2, "a", 0).boots(20).heart_beat(21, "a").locks(22, "a")
    assert trace.incidents() == []


# STALE_HEARTBEAT


def test_a_heartbeat_is_stale_past_two_intervals_and_again_fresh_with_the_next():
    """SIGSTOP at 305, last heartbeat 277.1 (detection.md)."""
    trace = ordered(277.1).passes(300).locks(306, "a", 0, 1).locks(306, "b", 2, 3)
    trace.heart_beat(307, "b").locks(330, "b", 2, 3).passes(337.1)
    assert trace.incidents("STALE_HEARTBEAT") == []
    trace.passes(337.2).heart_beat(340, "a")
    assert told(trace, "STALE_HEARTBEAT") == [
        (337.101, "OPENED", "STALE_HEARTBEAT"),
        (340, "RESOLVED", "STALE_HEARTBEAT"),
    ]


def test_a_stale_member_that_is_dropped_is_stale_no_more():
    trace = ordered()
    for at in range(20, 140, 20):
        trace.heart_beat(at, "b").passes(at + 19)
    assert told(trace, "STALE_HEARTBEAT") == [
        (60.001, "OPENED", "STALE_HEARTBEAT"),
        (130.001, "RESOLVED", "STALE_HEARTBEAT"),
    ]
    assert evidence(trace, "STALE_HEARTBEAT")[0]["heartbeat_age_ms"] == 60_001


def test_a_heartbeat_that_may_have_been_lost_is_not_stale():
    trace = ordered().heart_beat(30, "b")
    trace.hook_seq["broker-a-0"] += 1
    trace.heart_beat(50, "b").heart_beat(80, "b").passes(100)
    assert trace.incidents("STALE_HEARTBEAT") == []


def test_a_member_that_was_frozen_before_the_hook_began_is_stale_too():
    trace = HookTrace().lists(0, "a", "b").heart_beat(1, "b").heart_beat(31, "b").passes(61)
    assert told(trace, "STALE_HEARTBEAT") == [(60.001, "OPENED", "STALE_HEARTBEAT")]


# CLIENT_ID_COLLISION (semantics 7.1: #667, #1547, #2760, #3480)


def test_heartbeats_of_one_id_that_return_to_both_channels_are_two_processes():
    trace = HookTrace().heart_beat(0, "a").heart_beat(10, "a", number=1).heart_beat(30, "a")
    assert trace.incidents() == []
    trace.heart_beat(40, "a", number=1)
    assert told(trace) == [(40, "OPENED", "CLIENT_ID_COLLISION")]
    assert evidence(trace, "CLIENT_ID_COLLISION") == [{"channels": "a:0, a:1", "count": 2}]


@pytest.mark.parametrize(
    ("how", "ends"),
    [
        (lambda t: t.leaves(50, "a", number=1), 50),  # by its own goodbye
        (lambda t: t.heart_beat(60, "a").heart_beat(90, "a").passes(101), 100.001),  # two intervals without one
    ],
)
def test_a_collision_ends_when_one_channel_is_left(how, ends):
    trace = HookTrace().heart_beat(0, "a").heart_beat(10, "a", number=1).heart_beat(30, "a")
    how(trace.heart_beat(40, "a", number=1))
    trace.heart_beat(101, "a")
    assert told(trace, "CLIENT_ID_COLLISION")[1:] == [(ends, "RESOLVED", "CLIENT_ID_COLLISION")]


def test_a_thawed_client_on_two_new_channels_is_one_process():
    trace = HookTrace().heart_beat(0, "a")
    for n, number in enumerate((1, 2, 1, 2, 1)):
        trace.heart_beat(100 + n / 1000, "a", number=number)
    for at in (130, 160, 190, 220):
        trace.heart_beat(at, "a", number=1)
    assert trace.incidents("CLIENT_ID_COLLISION") == []


def test_who_says_goodbye_unheard_was_no_second_process():
    trace = HookTrace().heart_beat(0, "a").leaves(1, "b").heart_beat(2, "a", number=1).leaves(3, "a")
    assert list(trace.view().heartbeats) == ["a"]


def test_a_client_that_goes_on_on_a_new_channel_is_one_process():
    trace = HookTrace().heart_beat(0, "a").heart_beat(30, "a")
    for at in (31, 61, 91):
        trace.heart_beat(at, "a", number=1)
    assert trace.incidents("CLIENT_ID_COLLISION") == []


def test_a_client_that_reconnects_for_each_heartbeat_is_one_process():
    trace = HookTrace()
    for n in range(12):
        trace.heart_beat(7 * n, "a", number=n)
    assert trace.incidents("CLIENT_ID_COLLISION") == []
    assert len(trace.view().heartbeats["a"].channels) == 4


@pytest.mark.parametrize(("until", "expected"), [(140, []), (150, [(150, "OPENED", "CLIENT_ID_COLLISION")])])
def test_polls_find_a_collision_when_both_connections_outlive_a_dead_one(until, expected):
    """Listed twice from 10 on: a dead connection is gone 130 s after its last heartbeat, at 140."""
    trace = Trace().poll(0, {"a": holding(0, 1, 2, 3)})
    trace.listed_twice = "a"
    for at in range(10, until + 1, 10):
        trace.poll(at, {"a": holding(0, 1, 2, 3)})
    assert trace.incidents("CLIENT_ID_COLLISION") == expected
    trace.listed_twice = None
    trace.poll(until + 10, {"a": holding(0, 1, 2, 3)})
    assert trace.incidents("CLIENT_ID_COLLISION")[1:] == [
        (until + 10, "RESOLVED", "CLIENT_ID_COLLISION") for _ in expected
    ]


# PULL_EXPIRED by the hook alone (semantics 7.14: #653)


def pulling(**pulled: int) -> HookTrace:
    """a pulls queue 0 at 2, heartbeats and renews."""
    trace = HookTrace().heart_beat(0, "a").locks(1, "a", 0).commits(2, "a", 0, 7).pulls(2, "a", 0, **pulled)
    for at in range(20, 121, 20):
        trace.heart_beat(at, "a").locks(at, "a", 0)
    return trace


def test_a_pull_expires_past_120_s_by_the_brokers_clock_and_resolves_with_the_next():
    trace = pulling(offset=7).passes(122)
    assert trace.incidents("PULL_EXPIRED") == []
    trace.passes(122.002).pulls(123, "a", 0, offset=7)
    assert told(trace, "PULL_EXPIRED") == [(122.001, "OPENED", "PULL_EXPIRED"), (123, "RESOLVED", "PULL_EXPIRED")]


@pytest.mark.parametrize(
    ("offset", "fires"),
    [
        (7 + 967, True),
        (7 + 968, False),  # with the last pull's 32 that is 1000 in its cache: flow control sends no pull
        (7, True),
        (0, True),
    ],
)
def test_a_pull_does_not_expire_of_a_client_that_may_hold_back(offset, fires):
    trace = pulling(offset=offset).passes(130)
    assert bool(trace.incidents("PULL_EXPIRED")) is fires


def test_a_queue_that_is_committed_further_than_its_master_gave_it_out_is_served_by_a_slave():
    trace = pulling(offset=7).commits(100, "a", 0, 40).passes(130)
    assert trace.incidents("PULL_EXPIRED") == []


def test_pulls_that_the_slaves_own_hook_tells_count():
    trace = pulling(offset=7).of(A, 1).pulls(100, "a", 0, 9, offset=7).heart_beat(101, "a").of(A).passes(130)
    assert trace.incidents("PULL_EXPIRED") == []


def test_a_queue_that_was_taken_and_never_pulled_expires_too():
    trace = HookTrace().heart_beat(0, "a").locks(1, "a", 0)
    for at in range(20, 121, 20):
        trace.heart_beat(at, "a").locks(at, "a", 0)
    assert told(trace.passes(122), "PULL_EXPIRED") == [(121.001, "OPENED", "PULL_EXPIRED")]


@pytest.mark.parametrize("reason", ["pulls itself", "no lock"])
def test_who_need_not_pull_does_not_pull_expire(reason):
    kind = "CONSUME_ACTIVELY" if reason == "pulls itself" else "CONSUME_PASSIVELY"
    trace = HookTrace().heart_beat(0, "a", consume_type=kind).locks(1, "a", 0).pulls(2, "a", 0)
    for at in range(20, 200, 20):
        trace.heart_beat(at, "a", consume_type=kind)
        trace.locks(at, "a", 0, granted=(0,) if reason == "pulls itself" else ())
    assert trace.incidents("PULL_EXPIRED") == []


def test_polls_beside_a_hook_double_nothing():
    """A frozen owner, seen by both: one incident of each kind and queue."""
    trace = HookTrace()
    trace.poll(0, {"a": holding(0, 1), "b": holding(2, 3)})
    trace.heart_beat(0.5, "a", "b").locks(1, "a", 0, 1).locks(1, "b", 2, 3)
    for at in range(10, 120, 10):
        frozen = Member(tuple(Held(q) for q in (0, 1))) if at < 20 else SILENT
        trace.poll(at, {"a": frozen, "b": holding(2, 3)}, {0: (150 + at, 110)})
        trace.heart_beat(at + 1, "b").locks(at + 1, "b", 2, 3)
    opened = [
        (code, s) for code, s in _opened(trace) if code in ("LOCK_EXPIRED", "STALE_HEARTBEAT", "ORDERED_QUEUE_STUCK")
    ]
    assert len(opened) == len(set(opened)) == 4


def _opened(trace: Trace) -> list[tuple[str, str]]:
    effects = [e for e in trace.effects if isinstance(e, IncidentTransition)]
    return [(e.code, e.subject) for e in effects if e.transition == "OPENED"]
