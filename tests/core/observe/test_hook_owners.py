"""Owners of a queue, by the calls that a hook reports."""

from rebalance_model.entities import MessageQueue
from tests.support.hook_groups import LOCK_LIVES, concurrent, concurrently, expiries, ordered
from tests.support.hook_trace import B, HookTrace
from tests.support.trace import SILENT, START, TOPIC


def test_the_client_whose_lock_was_granted_has_the_queue():
    trace = ordered()
    assert trace.owners() == {0: "a", 1: "a", 2: "b", 3: "b"}
    assert trace.lock_table() == {0: ("a", 1), 1: ("a", 1), 2: ("b", 1), 3: ("b", 1)}


def test_a_refused_queue_is_not_owned_and_a_failed_call_refuses_nothing():
    trace = ordered().locks(20, "a", 0, 1, granted=(0,))
    assert trace.lock_table() == {0: ("a", 20), 2: ("b", 1), 3: ("b", 1)}
    trace.locks(21, "b", 2, 3, granted=(), code=1)
    assert trace.lock_table()[2] == ("b", 1)
    trace.locks(22, "a", 2, granted=())  # not its lock, so the refusal adds nothing
    assert trace.lock_table()[2] == ("b", 1)


def test_an_unlock_after_the_next_owners_grant_changes_nothing():
    trace = ordered().locks(61, "b", 0, 1, 2, 3).unlocks(62, "a", 0, 1)
    assert trace.owners() == dict.fromkeys(range(4), "b")
    assert set(trace.lock_table().values()) == {("b", 61)}


def test_an_unlock_releases():
    trace = ordered().unlocks(40, "a", 0)
    assert trace.owners()[0] is None
    assert trace.evidence()[-1] == (0, "RELEASED a", "UNLOCKED")


def test_after_a_restart_an_unlock_releases_what_the_broker_has_forgotten():
    """The demo's restart: owners that have not renewed their lock since give the queue up."""
    trace = ordered().boots(10).heart_beat(12, "a").heart_beat(12, "b").unlocks(13, "a", 0).unlocks(13, "b", 1)
    assert trace.owners() == {0: None, 1: "a", 2: "b", 3: "b"}
    assert trace.evidence()[-1] == (0, "RELEASED a", "UNLOCKED")


def test_the_last_client_to_query_the_offset_owns_a_concurrent_queue():
    trace = concurrent().asks(40, "b", 1)
    assert trace.owners() == {0: "a", 1: "b", 2: "b", 3: "b"}
    assert trace.evidence()[-2:] == [(1, "RELEASED a", "TAKEN_OVER"), (1, "ASSIGNED b", "OFFSET_ASKED")]


def test_pulls_in_turn_move_nothing_and_pulls_alone_replace_a_lost_query():
    """The former owner's last second, and two clients that pull one queue until both have rebalanced, are no news."""
    trace = concurrent().pulls(2, "a", 0)
    for at in range(3, 33):
        trace.pulls(at, "b", 0)
    assert trace.owners()[0] == "a"
    trace.pulls(33, "b", 0)  # a has not pulled for longer than a client that has the queue goes without
    assert trace.owners()[0] == "b"
    assert trace.evidence()[-1] == (0, "ASSIGNED b", "PULLED")
    trace.pulls(34, "a", 0)
    assert trace.owners()[0] == "b"


def test_a_pull_names_the_holder_where_none_is_known():
    trace = HookTrace().heart_beat(0, "a").pulls(1, "a", 0)
    assert trace.owners() == {0: "a"}


def test_pulls_and_queries_of_an_ordered_group_prove_no_lock():
    trace = ordered().asks(2, "b", 0).pulls(40, "b", 0)
    assert trace.owners()[0] == "a"


def cut_off() -> HookTrace:
    """The members of an ordered group without a, whose locks are 29 s old when it is back on another channel."""
    return ordered().heart_beat(20, "a", "b").locks(21, "b", 2, 3).lists(25, "b").heart_beat(29, "a", number=1)


def test_a_returning_client_that_pulls_under_a_living_lock_owns_the_queue():
    trace = cut_off()
    assert trace.owners()[0] is None
    trace.pulls(1 + LOCK_LIVES, "a", 0, number=1)
    assert trace.owners()[0] == "a"
    assert trace.evidence()[-1] == (0, "ASSIGNED a", "PULLED")
    trace.passes(40)
    assert [at for at, *_ in expiries(trace)] == [(trace.clock(0) - START) / 1000 + 1 + LOCK_LIVES + 0.001]


def test_a_pull_under_an_expired_or_foreign_lock_proves_no_owner():
    trace = cut_off().pulls(1 + LOCK_LIVES + 0.001, "a", 0, number=1).locks(33, "b", 1)
    trace.pulls(34, "a", 1, number=1)
    assert (trace.owners()[0], trace.owners()[1]) == (None, "b")


def test_a_group_restarted_as_concurrent_is_concurrent_once_locks_are_gone():
    """b replaces the ordered a: it asks where to begin, and pulls, but for no lock."""
    trace = ordered().leaves(10, "a").leaves(10, "b").heart_beat(12, "c").asks(13, "c", 0, 1)
    for at in range(14, 44):
        trace.pulls(at, "c", 0, 1)
    assert trace.state.orderly
    assert trace.owners()[0] is None
    trace.pulls(44.001, "c", 0, 1).pulls(45, "c", 0)
    assert trace.state.orderly is None
    assert (trace.owners()[0], trace.owners()[1]) == ("c", "c")
    trace.heart_beat(60, "c")
    for at in range(46, 200, 10):
        trace.heart_beat(at, "c").pulls(at, "c", 0, 1)
    assert trace.incidents("LOCK_EXPIRED", "ORDERED_QUEUE_STUCK") == []


def test_a_group_stays_ordered_while_any_lock_of_it_is_renewed():
    trace = ordered()
    for at in range(2, 200):
        trace.pulls(at, "a", 2)
        if at % 20 == 0:
            trace.heart_beat(at, "a", "b").locks(at, "b", 2, 3)
    assert trace.state.orderly
    assert trace.owners()[2] == "b"


def test_when_a_mixed_groups_ordered_member_leaves_pullers_own_the_queues():
    """While c locks, the hook believes locks alone: that b pulls 1 now is news, and that a pulls it no more."""
    trace = concurrent().heart_beat(4, "c").locks(5, "c", 3)
    for at in range(10, 150, 10):
        trace.heart_beat(at, "a", "b", "c").pulls(at, "a", 0).pulls(at, "b", 1, 2).pulls(at, "c", 3)
        trace.locks(at, "c", 3)
    trace.unlocks(150, "c", 3).leaves(150, "c")
    for at in range(151, 260, 5):
        trace.heart_beat(at, "a", "b").pulls(at, "a", 0).pulls(at, "b", 1, 2, 3).passes(at + 1)
    assert trace.state.orderly is None
    assert trace.owners() == {0: "a", 1: "b", 2: "b", 3: "b"}
    assert trace.incidents("PULL_EXPIRED", "QUEUE_DOUBLE_OWNED") == []


def test_the_mode_that_clients_answer_counts_beside_an_old_lock():
    """Answers show that the group is concurrent; a's lock has not run out, so b's pull proves nothing."""
    trace = HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0)
    trace.poll(2, {"a": concurrently(0), "b": concurrently(1, 2, 3)}).pulls(3, "b", 0)
    assert trace.state.orderly is False
    assert trace.owners()[0] == "a"
    hook_view = trace.state.queues[trace._mqs((0,))[0]].hook_view
    assert hook_view is not None
    assert (hook_view.holder, hook_view.concurrent_puller) == ("a", None)


def test_a_broker_without_a_hook_does_not_keep_a_group_ordered():
    """Polls report broker-a, where no client answers; a hook reports broker-b, where b pulls and renews no lock."""
    trace = HookTrace().poll(0, {"a": SILENT, "b": SILENT})
    trace.of(B).heart_beat(1, "a", "b").locks(2, "a", 0)
    for at in range(3, 60):
        trace.heart_beat(at, "a", "b").pulls(at, "b", 0)
    assert trace.state.orderly is None
    assert trace.state.queues[MessageQueue(TOPIC, B, 0)].owner == "b"


def test_of_more_askers_than_are_kept_the_oldest_is_forgotten():
    """A broker's clock may be set back: the ninth to ask is then the oldest."""
    askers = "cdefghij"
    trace = ordered()
    for number, client in enumerate(askers):
        trace.locks(20 + number, client, 0, granted=())
    trace.locks(10, "k", 0, granted=())
    hook_view = trace.state.queues[trace._mqs((0,))[0]].hook_view
    assert hook_view is not None
    assert sorted(hook_view.refusals) == list(askers)


def test_the_late_sum_of_an_earlier_holder_is_no_sign_of_the_last_one():
    """b had the queue for a moment after a, and did not pull it; only then the last pulls of a are reported."""
    trace = ordered().pulls(39, "a", 0, offset=5).unlocks(40, "a", 0).locks(40.1, "b", 0).unlocks(40.3, "b", 0)
    trace.locks(40.4, "a", 1).pulls(40.9, "a", 0, offset=9, first_time=trace.clock(39.1), last_time=trace.clock(39.9))
    queue = trace.state.queues[MessageQueue(TOPIC, "broker-a", 0)].hook_view
    assert (queue.former.client_id, queue.lost_by, queue.lost_by_sign) == ("a", "b", trace.clock(40.3))


def test_a_lock_granted_after_the_client_has_left_is_not_its_next_process():
    """It shuts down while it rebalances; of the queues that it asked for last, its next process requests only one."""
    trace = ordered().unlocks(40, "a", 0, 1).leaves(40.001, "a").locks(40.002, "a", 0, 1)
    assert trace.lock_table()[0] == ("a", 40.002)
    trace.heart_beat(70, "a", number=1).locks(71, "a", 1)
    assert trace.owners() == {0: None, 1: "a", 2: "b", 3: "b"}
    trace.locks(72, "a", 0)
    assert trace.owners()[0] == "a"
