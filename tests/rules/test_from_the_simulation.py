"""Errors that seeded simulations (tests/detection) showed, each as a short trace."""

import pytest

from rebalance_model.observe.policy import Policy
from tests.support.hook_trace import HookTrace
from tests.support.trace import Trace, holding

LIVES = Policy().client_lock_max_live_time / 1000
KEPT = Policy().broker_lock_max_live_time / 1000
CONTENDED = Policy().lock_contended_after // 1000
HOOK = "broker-a-0"


def opened(trace: Trace, code: str) -> list[str]:
    return [what for _, how, what in trace.incidents() if how == "OPENED" and what.split()[0] == code]


def two() -> HookTrace:
    return HookTrace().boots(0).heart_beat(0, "a", "b").locks(1, "a", 0, 1).locks(1, "b", 2, 3)


def test_a_lock_whose_renewals_may_be_lost_is_not_known_to_have_expired():
    """Seed 23: the disk of the hook was full for 60 s, and each lock was as old as that when it reported again."""
    trace = two().stands(2, 62)
    trace.hook_seq[HOOK] += 9
    trace.heart_beat(62, "a", "b").passes(62 + LIVES)
    assert opened(trace, "LOCK_EXPIRED") == []
    renewed = trace.locks(62 + LIVES, "a", 0, 1).passes(63 + LIVES)
    assert len(opened(renewed, "LOCK_EXPIRED")) == 2, "those of b: they were not renewed for long enough since"


def test_a_refusal_of_long_ago_makes_no_orphan_of_a_lock_that_has_run_out():
    """Seed 34: at the start two clients ask for each queue; the one that has it froze until it was dropped."""
    trace = two().locks(2, "b", 0, granted=())
    for at in range(20, 180, 20):
        trace.heart_beat(at, "b").locks(at, "b", 2, 3).passes(at + 1)
    assert "a" not in trace.state.members
    assert opened(trace, "LOCK_ORPHANED") == []


def test_a_refusal_right_after_the_kill_shows_an_orphaned_lock():
    """The counterpart of the near miss above."""
    trace = two().lists(2, "b").locks(2, "b", 0, 2, 3, granted=(2, 3)).passes(7)
    assert opened(trace, "LOCK_ORPHANED") == ["LOCK_ORPHANED"]
    trace.passes(1 + KEPT).passes(2 + KEPT)
    assert [how for _, how, what in trace.incidents() if what == "LOCK_ORPHANED"][-1] == "RESOLVED"


def test_a_returning_client_does_not_contend_for_the_lock_kept_for_it():
    """Seed 35: a client is killed repeatedly; others are refused its lock, and then it has its queue again."""
    trace = two()
    for round_at in (10, 100):
        trace.lists(round_at, "b")
        for second in range(CONTENDED + 6):
            trace.locks(round_at + second, "b", 0, 2, 3, granted=(2, 3))
        back = round_at + CONTENDED + 6
        trace.heart_beat(back, "a", number=round_at).locks(back, "a", 0, 1).passes(back + 1)
        trace.locks(back + 17, "b", 0, 2, 3, granted=(2, 3)).passes(back + 18)
    assert opened(trace, "LOCK_CONTENDED") == []


def test_a_long_refusal_by_a_live_client_is_contention_after_an_orphan():
    """The counterpart of the near miss above."""
    trace = two().lists(10, "b").locks(10, "b", 0, granted=()).heart_beat(11, "a", number=1).locks(11, "a", 0)
    for second in range(12, 17 + CONTENDED):
        trace.locks(second, "a", 0).locks(second, "b", 0, granted=())
    assert opened(trace, "LOCK_CONTENDED") == ["LOCK_CONTENDED REFUSED"]


def test_a_repeated_commit_causes_no_duplicate_consumption():
    """Seed 58: a client that shuts down commits before it unregisters, and once more after it."""
    trace = HookTrace().boots(0).heart_beat(0, "a", "b").asks(1, "a", 0).commits(2, "a", 0, 108)
    trace.of("broker-b").boots(0).heart_beat(0, "a", "b").of("broker-a")  # the broker that it unregisters from next
    trace.asks(3, "b", 0).pulls(4, "b", 0, offset=108).commits(7, "b", 0, 109).leaves(7, "b").commits(7, "b", 0, 109)
    assert opened(trace.passes(8), "DUPLICATE_CONSUMPTION") == []


def test_a_queue_of_an_unsubscribed_topic_is_not_stalled():
    """Seed 26: the only member that subscribed to it has left; new messages there are not this group's."""
    trace = HookTrace().boots(0).heart_beat(0, "a", topics=("Other",)).heart_beat(0, "b")
    trace.asks(1, "b", 0).pulls(2, "b", 0, offset=5, commit=5).pulls(3, "b", 0, offset=5, commit=5)
    trace.leaves(10, "b")
    for at in range(20, 140, 20):
        trace.heart_beat(at, "a", topics=("Other",)).passes(at)
    assert opened(trace, "QUEUE_STALLED") == []


def test_losses_reported_by_a_hook_may_explain_missing_heartbeats():
    """Seed 89: its first tick after a full disk came before any word of the group, whose numbers show the gap."""
    trace = two().stands(2, 62).loses(3, 62).passes(63)
    assert [what for _, how, what in trace.incidents() if how == "OPENED"] == []
    assert len(opened(trace.passes(125), "STALE_HEARTBEAT")) == 2


def test_losses_of_a_ticking_hook_may_explain_missing_clients():
    """The other side of the near miss: no source paused, so only the losses that the hook reports count."""
    trace = two().passes(2).loses(3, 25).passes(25 + LIVES)
    assert [what for _, how, what in trace.incidents() if how == "OPENED"] == []
    assert len(opened(trace.passes(26 + LIVES), "LOCK_EXPIRED")) == 4


@pytest.mark.parametrize("reason", ["unreadable request", "unreadable field", "event too large", "lite topic"])
def test_calls_that_a_hook_cannot_read_explain_no_missing_ones(reason):
    """Not a seed: any client may send one a second, and would switch off the rules for every group of the broker."""
    trace = two()
    for at in range(2, 3 + int(LIVES)):
        trace.passes(at).loses(at - 1, at, reason)
    assert len(opened(trace.passes(3 + LIVES), "LOCK_EXPIRED")) == 4


def test_a_lag_that_jumps_at_the_end_of_a_window_has_not_grown_in_it():
    """Seed 1: one message more than was committed at every answer, as it fell out, until the owner was killed."""
    trace = Trace()
    for turn in range(36):
        lag = 0 if turn < 2 else 1 if turn < 35 else 3
        trace.poll(10 * turn, {"a": holding(0)}, {0: (50 + 2 * turn, 50 + 2 * turn - lag)})
    assert opened(trace, "LAG_GROWTH") == []
