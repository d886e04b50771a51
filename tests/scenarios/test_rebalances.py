"""The scenario table of rebalances: why, by whom, how many moves it took and needed, and what was consumed twice."""

import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import RebalanceSettled
from rebalance_model.observe.events import TopicRoute
from tests.scenarios.hook_trace import A, B, HookTrace
from tests.scenarios.trace import START, TOPIC, Held, Member, Trace, holding

TWO = {"a": holding(0, 1), "b": holding(2, 3)}


def ordered() -> HookTrace:
    """a has 0 and 1, b has 2 and 3; the rebalance of their start is over, and each queue's commit is 100."""
    trace = HookTrace().boots(0).heart_beat(1, "a", "b").locks(2, "a", 0, 1).locks(2, "b", 2, 3)
    for q, client in enumerate("aabb"):
        trace.pulls(3, client, q, offset=100, commit=100)
    return still(trace, 5, 41)


def still(trace: HookTrace, start: int, stop: int) -> HookTrace:
    """Every 10 s members heartbeat; nothing else happens."""
    for at in range(start, stop, 10):
        trace.passes(at).heart_beat(at, *trace.state.members)
    return trace


def last(trace: Trace) -> RebalanceSettled:
    return trace.rebalances()[-1]


def why(trace: Trace) -> tuple[str, str | None]:
    return last(trace).trigger, last(trace).trigger_client


def again(rebalance: RebalanceSettled) -> tuple[int | None, int | None, int | None]:
    """Consumed twice: at least, likely, at most."""
    return rebalance.reconsumed_min, rebalance.reconsumed, rebalance.reconsumed_max


# Why


def test_a_client_that_leaves_unlocks_first():
    trace = ordered().unlocks(50, "b", 2, 3).leaves(50.1, "b").locks(51, "a", 2, 3)
    still(trace, 55, 96)
    assert why(trace) == ("CLIENT_LEFT", "b")


def test_a_client_that_vanishes_has_died():
    trace = ordered().lists(50, "a")
    still(trace.locks(101, "a", 2, 3), 105, 146)
    assert why(trace) == ("CLIENT_DIED", "b")


def test_a_client_that_gives_up_and_retakes_its_queue_repairs_a_pull_that_expired():
    """It pulled at 3 last: at 124 it calls the queue expired, unlocks it, and asks for the lock anew."""
    trace = still(ordered(), 45, 124).locks(123, "a", 0, 1).unlocks(124, "a", 0).locks(124.1, "a", 0)
    still(trace, 125, 166)
    assert why(trace) == ("PULL_EXPIRED_REPAIR", "a")
    assert (last(trace).queues_moved, last(trace).queues_moved_min) == (0, 0)


@pytest.mark.parametrize(("again", "told"), [(124, ["CLIENT_JOINED", "PULL_EXPIRED_REPAIR"]), (123, ["CLIENT_JOINED"])])
def test_a_concurrent_queue_is_retaken_by_asking_where_to_begin(again: float, told: list[str]):
    """Pulled at 3 last: more than 120 s later it is a repair, else the client has only asked."""
    trace = HookTrace().boots(0).heart_beat(1, "a").asks(2, "a", 0).pulls(3, "a", 0, offset=5, commit=5)
    still(trace, 5, 120).asks(again, "a", 0)
    still(trace, 125, 166)
    assert [rebalance.trigger for rebalance in trace.rebalances()] == told


def test_a_queue_given_up_within_pull_max_idle_time_is_a_near_miss():
    trace = still(ordered(), 45, 122).unlocks(123, "a", 0).locks(123.1, "a", 0)
    still(trace, 125, 166)
    assert why(trace) == ("UNEXPLAINED", None)


def test_a_lock_that_was_refused_before_is_taken():
    """b's hand-over is long over when a, refused all along, is granted the lock that nobody gave back."""
    trace = ordered().locks(50, "a", 2, granted=())
    trace.state.episode = None
    trace.locks(51, "a", 2)
    still(trace, 55, 96)
    assert why(trace) == ("LOCK_RETRY", "a")
    assert last(trace).causes == (f"LOCK_RETRY {TOPIC}@{A}:2",)


def test_topics_that_come_and_go_though_the_members_stay():
    trace = ordered().heart_beat(50, "a", topics=(TOPIC, "Refunds")).heart_beat(52, "a")
    still(trace, 55, 96)
    assert why(trace) == ("SUBSCRIPTION_CHANGED", "a")
    assert last(trace).causes == ("SUBSCRIPTION_CHANGED +Refunds", "SUBSCRIPTION_CHANGED -Refunds")


def test_what_a_joining_client_subscribes_is_no_cause_of_its_own():
    trace = ordered().heart_beat(50, "c", topics=(TOPIC, "Refunds"))
    assert trace.state.episode is not None
    assert trace.state.episode.causes == ["CLIENT_JOINED c"]


def test_two_brokers_tell_one_flip_once():
    trace = HookTrace().boots(0).heart_beat(1, "a").of(B).boots(0).heart_beat(1, "a")
    for broker in (A, B):
        trace.of(broker).heart_beat(40, "a", topics=(TOPIC, "Refunds"))
    assert trace.state.episode is not None
    assert trace.state.episode.causes.count("SUBSCRIPTION_CHANGED +Refunds") == 1
    assert [cause.code for cause in trace.state.causes] == ["CLIENT_JOINED", "SUBSCRIPTION_CHANGED"]


def test_a_client_that_declares_another_strategy():
    trace = Trace().poll(0, TWO)
    circle = "AllocateMessageQueueAveragelyByCircle"
    trace.poll(10, {"a": Member((Held(0), Held(2)), strategy=circle), "b": Member((Held(1), Held(3)), strategy=circle)})
    trace.poll(20, {"a": Member((Held(0), Held(2)), strategy=circle), "b": Member((Held(1), Held(3)), strategy=circle)})
    assert why(trace) == ("STRATEGY_CHANGED", "a")
    assert last(trace).converged


def routed(trace: Trace, at: float, brokers: tuple[str, ...], queues: int = 2) -> None:
    """The topic has ``queues`` queues on each of these brokers."""
    rows = tuple(MessageQueue(TOPIC, broker, q) for broker in brokers for q in range(queues))
    trace._fold(TopicRoute(topic=TOPIC, queues=rows, **trace._poll(START + round(at * 1000))))


def causes_of_routes(*routes: tuple[tuple[str, ...], int]) -> list[str]:
    trace = Trace().poll(0, {"a": holding(0, 1)}, route=2)
    for n, (brokers, queues) in enumerate(routes):
        routed(trace, 1 + 10 * n, brokers, queues)
    return [f"{cause.code} {cause.subject}" for cause in trace.state.causes]


@pytest.mark.parametrize(
    ("routes", "causes"),
    [
        ([((A, B), 2)], ["ROUTE_CHANGED Orders"]),  # broker-b never had it: somebody has created it there
        ([((A, B), 2), ((A,), 2)], ["ROUTE_CHANGED Orders", "BROKER_LOST broker-b"]),
        (
            [((A, B), 2), ((A,), 2), ((A, B), 2)],
            ["ROUTE_CHANGED Orders", "BROKER_LOST broker-b", "BROKER_BACK broker-b"],
        ),
        ([((A, B), 2), ((A,), 3)], ["ROUTE_CHANGED Orders", "ROUTE_CHANGED Orders"]),  # not only that
    ],
)
def test_a_broker_that_is_lost_or_back_is_told_from_a_topic_that_is_changed(routes, causes):
    assert causes_of_routes(*routes) == causes


def test_a_broker_that_restarts_explains_what_moved_while_it_was_gone():
    trace = ordered().of(B).boots(0).heart_beat(2, "a", "b").of(A)
    still(trace, 45, 66).unlocks(70, "a", 1).locks(71, "b", 1)
    trace.of(B).boots(90).heart_beat(91, "a", "b").of(A)
    still(trace, 95, 146)
    assert why(trace) == ("BROKER_RESTARTED", None)


def test_hooks_alone_see_a_route_change_by_a_queue_that_nobody_had():
    trace = ordered().unlocks(50, "a", 1).locks(50.1, "b", 1).locks(50.2, "a", 4)
    still(trace, 55, 96)
    assert why(trace) == ("ROUTE_CHANGED", None)


def test_a_member_that_one_broker_lists_no_more_explains_a_move():
    trace = HookTrace().boots(0).heart_beat(1, "a", "b").locks(2, "b", 0).of(B).boots(0).heart_beat(1, "a", "b")
    for at in range(31, 152, 30):
        trace.passes(at).heart_beat(at, "a").of(A).passes(at).heart_beat(at, "a", "b").of(B)
    trace.of(A).unlocks(152, "b", 0).locks(153, "a", 0)
    for at in range(154, 200, 10):
        trace.passes(at)
    assert why(trace) == ("CONNECTIONS_CHANGED", "b")


# How many moves, and how long


def test_fewest_moves_are_what_the_new_balance_needs():
    """AVG hands out blocks: each client passes queues on to the next, and 5 move, where 2 are enough for the fourth."""
    before = {"a": holding(0, 1, 2), "b": holding(3, 4, 5), "c": holding(6, 7)}
    after = {"a": holding(0, 1), "b": holding(2, 3), "c": holding(4, 5), "d": holding(6, 7)}
    trace = Trace(route=8).poll(0, before).poll(10, {**before, "d": holding()}).poll(20, after)
    assert (last(trace).queues_moved, last(trace).queues_moved_min) == (5, 2)


def test_queues_of_a_client_that_leaves_must_all_move():
    trace = Trace().poll(0, TWO).poll(10, {"a": holding(0, 1, 2, 3)})
    assert (last(trace).queues_moved, last(trace).queues_moved_min) == (2, 2)


def test_the_middle_of_the_pauses_is_told_beside_the_longest():
    trace = ordered().unlocks(50, "b", 2, 3).leaves(50.1, "b").locks(51, "a", 2).locks(59, "a", 3)
    still(trace, 65, 106)
    assert (last(trace).pause_ms_p50, last(trace).pause_ms_max) == (1_000, 9_000)


# What was consumed twice


def test_a_client_that_unlocks_has_committed_what_it_consumed():
    """b has pulled up to 500 and committed 300 when it unlocks: its heir begins there: nothing is consumed twice."""
    trace = ordered().pulls(48, "b", 2, 3, offset=500).commits(49, "b", 2, 300).commits(49, "b", 3, 300)
    trace.unlocks(50, "b", 2, 3).leaves(50.1, "b").locks(51, "a", 2, 3).pulls(52, "a", 2, 3, offset=300)
    still(trace, 55, 96)
    assert again(last(trace)) == (0, 0, 0)


def test_a_client_that_dies_may_have_consumed_what_it_had_pulled():
    """b began with 100 at 2; committed 298 at 46: 4.5 a second; it dies 4 s later with 18 more, or all it pulled."""
    trace = ordered().commits(46, "b", 2, 298).pulls(49, "b", 2, offset=320).lists(50, "a")
    trace.locks(101, "a", 2, 3).pulls(102, "a", 2, offset=298).pulls(102, "a", 3, offset=100)
    still(trace, 105, 146)
    two, three = (move for move in last(trace).moves if move.queue.queue_id in (2, 3))
    assert (two.reconsumed_min, two.reconsumed, two.reconsumed_max) == (0, 18, 320 + 32 - 298)
    assert (three.reconsumed_min, three.reconsumed, three.reconsumed_max) == (0, 0, 32)
    assert again(last(trace)) == (0, 18, 54 + 32)


def test_a_client_that_never_committed_gives_no_estimate():
    """Nobody knows where it began: it has not said what it pulled, and what is committed is its heir's beginning."""
    trace = HookTrace().boots(0).heart_beat(1, "a", "b").locks(2, "b", 0).commits(3, "a", 0, 100)
    still(trace, 5, 41).lists(50, "a")
    trace.locks(101, "a", 0).pulls(102, "a", 0, offset=100)
    still(trace, 105, 146)
    assert again(last(trace)) == (0, None, None)


def test_an_estimate_is_not_above_what_was_pulled():
    trace = ordered().pulls(45, "b", 2, offset=8_000).commits(46, "b", 2, 8_000).lists(50, "a")
    trace.locks(101, "a", 2, 3).pulls(102, "a", 2, 3, offset=8_000)
    still(trace, 105, 146)
    assert [move.reconsumed for move in last(trace).moves if move.queue.queue_id == 2] == [32]


def test_a_sum_of_pulls_and_a_commit_that_come_after_the_release_count():
    """Concurrent: the sum of b's last second, and its last commit, are told after a has asked where to begin."""
    trace = HookTrace().boots(0).heart_beat(1, "a", "b").asks(2, "b", 0).pulls(3, "b", 0, offset=100, commit=100)
    still(trace, 5, 41).asks(50, "a", 0).pulls(50.1, "b", 0, offset=180).pulls(50.5, "a", 0, offset=100)
    trace.commits(51, "b", 0, 150)
    still(trace, 55, 96)
    assert again(last(trace)) == (50, 50, 112)


def test_a_queue_that_went_through_several_hands_is_not_known():
    trace = ordered().heart_beat(45, "c").unlocks(50, "b", 2).locks(50.1, "c", 2).pulls(50.2, "c", 2, offset=100)
    trace.unlocks(51, "c", 2).locks(51.1, "a", 2).pulls(51.2, "a", 2, offset=100)
    still(trace, 55, 106)
    assert again(last(trace)) == (None, None, None)


def test_polls_know_wide_bounds_and_no_estimate():
    """b's commit was 100 when seen last; 150 messages were there when its queues had gone: between 0 and 50, each."""
    offsets = dict.fromkeys(range(4), (120, 100))
    trace = Trace().poll(0, TWO, offsets).poll(10, {"a": holding(0, 1)}, dict.fromkeys(range(4), (150, 110)))
    trace.poll(20, {"a": holding(0, 1, 2, 3)})
    assert again(last(trace)) == (0, None, 100)


def test_without_offsets_nothing_is_known():
    trace = Trace().poll(0, TWO).poll(10, {"a": holding(0, 1, 2, 3)})
    assert again(last(trace)) == (None, None, None)


def test_a_rebalance_is_told_when_its_heirs_have_begun():
    """Polls show every owner in place at 60; what is consumed again is known at its first pull, or not in 5 s."""

    def handed_over() -> HookTrace:
        trace = HookTrace().boots(0).poll(0, TWO)
        trace.heart_beat(1, "a", "b").locks(2, "a", 0, 1).locks(2, "b", 2, 3).poll(40, TWO)
        trace.heart_beat(41, "a", "b").unlocks(50, "b", 2, 3).leaves(50.1, "b").locks(51, "a", 2, 3)
        return trace.poll(53, {"a": holding(0, 1, 2, 3)})

    told = len(handed_over().rebalances())
    assert len(handed_over().pulls(54, "a", 2, 3, offset=7).rebalances()) == told + 1
    assert len(handed_over().poll(63, {"a": holding(0, 1, 2, 3)}).rebalances()) == told + 1
