"""The scenario table of rebalances: cause, client, moves made and needed, and messages consumed twice."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import IncidentTransition, RebalanceSettled
from rebalance_model.observe.events import TopicRoute
from tests.support.hook_trace import A, B, HookTrace
from tests.support.trace import START, TOPIC, Held, Member, Trace, holding

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
    assert why(trace) == ("CLIENT_UNREGISTERED", "b")


def test_a_client_missing_from_the_list_had_its_connection_closed():
    """The list of 50 leaves b out, which had heartbeated at 35."""
    trace = ordered().lists(50, "a")
    still(trace.locks(101, "a", 2, 3), 105, 146)
    assert why(trace) == ("CONNECTION_CLOSED", "b")


@pytest.mark.parametrize("listed", [None, 156])
def test_a_client_without_heartbeats_is_dropped_by_the_broker(listed: int | None):
    """b heartbeated at 35 last: out after 120 to 130 s, and at the latest when a list leaves it out."""
    trace = ordered()
    for at in range(45, 155, 10):
        trace.heart_beat(at, "a")
    if listed is not None:
        trace.lists(listed, "a")
    trace.passes(166).locks(167, "a", 2, 3)
    still(trace, 170, 211)
    assert why(trace) == ("HEARTBEAT_EXPIRED", "b")


def test_a_client_that_drops_and_retakes_its_queue_repairs_an_expired_pull():
    """Its last pull was at 3: at 124 it treats the queue as expired, unlocks it, and requests the lock again."""
    trace = still(ordered(), 45, 124).locks(123, "a", 0, 1).unlocks(124, "a", 0).locks(124.1, "a", 0)
    still(trace, 125, 166)
    assert why(trace) == ("PULL_EXPIRED_REPAIR", "a")
    assert (last(trace).queues_moved, last(trace).queues_moved_min) == (0, 0)


@pytest.mark.parametrize(
    ("again", "expected"), [(124, ["CLIENT_JOINED", "PULL_EXPIRED_REPAIR"]), (123, ["CLIENT_JOINED"])]
)
def test_a_concurrent_queue_is_retaken_by_querying_its_offset(again: float, expected: list[str]):
    """Pulled at 3 last: more than 120 s later it is a repair, else the client has only asked."""
    trace = HookTrace().boots(0).heart_beat(1, "a").asks(2, "a", 0).pulls(3, "a", 0, offset=5, commit=5)
    still(trace, 5, 120).asks(again, "a", 0).pulls(again + 0.5, "a", 0, offset=5)
    still(trace, 125, 166)
    assert [rebalance.trigger for rebalance in trace.rebalances()] == expected


def test_a_queue_released_within_pull_max_idle_time_is_a_near_miss():
    trace = still(ordered(), 45, 122).unlocks(123, "a", 0).locks(123.1, "a", 0)
    still(trace, 125, 166)
    assert why(trace) == ("UNEXPLAINED", None)


def test_a_lock_that_was_refused_before_is_taken():
    """b's hand-over is long over when a, refused all along, is granted the lock that b never released."""
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


def test_a_flip_reported_by_two_brokers_counts_once():
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
def test_a_lost_or_returned_broker_differs_from_a_changed_topic(routes, causes):
    assert causes_of_routes(*routes) == causes


def test_a_broker_that_restarts_explains_what_moved_while_it_was_gone():
    trace = ordered().of(B).boots(0).heart_beat(2, "a", "b").of(A)
    still(trace, 45, 66).unlocks(70, "a", 1).locks(71, "b", 1)
    trace.of(B).boots(90).heart_beat(91, "a", "b").of(A)
    still(trace, 95, 146)
    assert why(trace) == ("BROKER_RESTARTED", None)


def test_hooks_alone_infer_a_route_change_from_a_new_queue():
    trace = ordered().unlocks(50, "a", 1).locks(50.1, "b", 1).locks(50.2, "a", 4)
    still(trace, 55, 96)
    assert why(trace) == ("ROUTE_CHANGED", None)


def test_a_member_that_one_broker_dropped_explains_a_move():
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


def test_the_median_pause_is_reported_beside_the_longest():
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
    """Its beginning is unknown: its pulls were not reported, and the commit is its next owner's beginning."""
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
    """Concurrent: the sum of b's last second, and its last commit, are reported after a has queried the offset."""
    trace = HookTrace().boots(0).heart_beat(1, "a", "b").asks(2, "b", 0).pulls(3, "b", 0, offset=100, commit=100)
    still(trace, 5, 41).asks(50, "a", 0).pulls(50.1, "b", 0, offset=180).pulls(50.5, "a", 0, offset=100)
    trace.commits(51, "b", 0, 150)
    still(trace, 55, 96)
    assert again(last(trace)) == (50, 50, 112)


def test_what_each_of_several_hands_reads_again_is_added_up():
    """c begins 10 below b's commit, a 5 below c's; the pause runs from b's unlock to a's lock."""
    trace = ordered().heart_beat(45, "c").unlocks(50, "b", 2).locks(50.1, "c", 2).pulls(50.2, "c", 2, offset=90)
    trace.commits(50.3, "c", 2, 105).unlocks(51, "c", 2).locks(51.1, "a", 2).pulls(51.2, "a", 2, offset=100)
    still(trace, 55, 106)
    [move] = last(trace).moves
    assert (move.from_client, move.to_client, move.pause_ms) == ("b", "a", 1_100)
    assert again(last(trace)) == (15, 15, 15)


def test_polls_know_wide_bounds_and_no_estimate():
    """b's commit was 100 when seen last; 150 messages were there when its queues had gone: between 0 and 50, each."""
    offsets = dict.fromkeys(range(4), (120, 100))
    trace = Trace().poll(0, TWO, offsets).poll(10, {"a": holding(0, 1)}, dict.fromkeys(range(4), (150, 110)))
    trace.poll(20, {"a": holding(0, 1, 2, 3)})
    assert again(last(trace)) == (0, None, 100)


def test_without_offsets_nothing_is_known():
    trace = Trace().poll(0, TWO).poll(10, {"a": holding(0, 1, 2, 3)})
    assert again(last(trace)) == (None, None, None)


def test_a_rebalance_settles_when_its_new_owners_have_begun():
    """Polls show every owner in place at 60; what is consumed again is known at its first pull, or not in 5 s."""

    def handed_over() -> HookTrace:
        trace = HookTrace().boots(0).poll(0, TWO)
        trace.heart_beat(1, "a", "b").locks(2, "a", 0, 1).locks(2, "b", 2, 3).poll(40, TWO)
        trace.heart_beat(41, "a", "b").unlocks(50, "b", 2, 3).leaves(50.1, "b").locks(51, "a", 2, 3)
        return trace.poll(53, {"a": holding(0, 1, 2, 3)})

    expected = len(handed_over().rebalances())
    assert len(handed_over().pulls(54, "a", 2, 3, offset=7).rebalances()) == expected + 1
    assert len(handed_over().poll(63, {"a": holding(0, 1, 2, 3)}).rebalances()) == expected + 1


def test_a_new_owner_whose_answer_has_no_pull_has_not_begun():
    """The answer lacks that stamp, or it can't be read: whether the client pulls the queue is unknown until it has."""

    def taken_over(pull_age: float | None) -> Trace:
        members = {c: replace(one, orderly=False) for c, one in TWO.items()}
        took = Member((Held(0), Held(1), Held(2, pull_age=pull_age), Held(3, pull_age=pull_age)), orderly=False)
        trace = Trace().poll(0, members).poll(10, members).poll(20, {"a": took})
        return trace.poll(30, {"a": took})

    before = len(taken_over(None).rebalances())
    assert len(taken_over(0).rebalances()) == before + 1


# What is counted, and how long it took


def counted(rebalance: RebalanceSettled) -> tuple[int, int, int]:
    """Moved, interrupted and unassigned: as many as the moves of each kind."""
    kinds = Counter(move.kind for move in rebalance.moves)
    numbers = rebalance.queues_moved, rebalance.queues_interrupted, rebalance.queues_unassigned
    assert numbers == (kinds["MOVED"], kinds["INTERRUPTED"], kinds["UNASSIGNED"])
    return numbers


def pauses(rebalance: RebalanceSettled) -> dict[int, int | None]:
    """By queue id, milliseconds."""
    return {move.queue.queue_id: move.pause_ms for move in rebalance.moves}


def test_the_pause_after_a_kill_begins_with_the_clients_last_activity():
    """b pulled 2 at 48 and committed 3 at 49.5; the sum of its last pull of 3 comes when it is gone."""
    trace = ordered().pulls(48, "b", 2, offset=100).commits(49.5, "b", 3, 100).lists(50, "a")
    late = trace.clock(49.8)
    trace.pulls(50.4, "b", 3, offset=120, first_time=late, last_time=late)
    trace.locks(101, "a", 2, 3).pulls(102, "a", 2, 3, offset=100)
    still(trace, 105, 146)
    assert pauses(last(trace)) == {2: 53_000, 3: 101_000 - 49_800}
    assert not last(trace).pause_is_at_most
    assert [move.reconsumed_max for move in last(trace).moves] == [32, 52]


def test_a_concurrent_queue_pauses_until_its_new_owner_pulls():
    trace = HookTrace().boots(0).heart_beat(1, "a", "b").asks(2, "b", 0).pulls(3, "b", 0, offset=100, commit=100)
    still(trace, 5, 41).commits(49, "b", 0, 100).leaves(49.1, "b").asks(50, "a", 0).pulls(57, "a", 0, offset=100)
    still(trace, 65, 96)
    assert pauses(last(trace)) == {0: 8_000}


def test_a_pull_that_the_broker_refuses_is_no_sign_of_its_owner():
    trace = ordered().pulls(48, "b", 2, 3, offset=100).pulls(49, "b", 2, offset=100, code=26).lists(50, "a")
    still(trace.locks(60, "a", 2, 3).pulls(61, "a", 2, 3, offset=100), 65, 106)
    assert pauses(last(trace)) == {2: 12_000, 3: 12_000}


def thawed() -> HookTrace:
    """b is frozen and dropped, thaws at 200, and holds its old process queue 2 without the lock until 219."""
    trace = HookTrace().boots(0).poll(0, TWO).heart_beat(1, "a", "b").locks(2, "a", 0, 1).locks(2, "b", 2, 3)
    trace.pulls(3, "a", 0, 1, offset=0).pulls(3, "b", 2, 3, offset=100, commit=100).poll(10, TWO).lists(20, "a")
    trace.locks(60, "a", 2, 3).pulls(61, "a", 2, 3, offset=100).poll(70, {"a": holding(0, 1, 2, 3)})
    for at in range(80, 200, 10):
        trace.heart_beat(at, "a").poll(at, {"a": holding(0, 1, 2, 3)})
    trace.pulls(195, "a", 2, 3, offset=250).heart_beat(200, "b").commits(200.1, "a", 2, 250)
    trace.unlocks(200.2, "a", 2, 3).commits(200.3, "b", 2, 100).locks(200.4, "b", 3).pulls(200.5, "b", 3, offset=100)
    back = {"a": holding(0, 1), "b": Member((Held(2, locked=False, lock_age=190), Held(3)))}
    return trace.poll(203, back).poll(213, back)


def test_a_new_owner_that_answers_without_the_lock_has_not_begun():
    trace = thawed()
    assert trace.state.episode is not None
    trace.locks(219, "b", 2).pulls(219.5, "b", 2, offset=100).poll(223, TWO)
    assert pauses(last(trace)) == {2: 18_800, 3: 200}
    assert (last(trace).converged, last(trace).end_time) == (True, trace.clock(219))


def test_duplicates_are_charged_to_the_rebalance_that_counts_them():
    trace = thawed().locks(219, "b", 2).pulls(219.5, "b", 2, offset=100).poll(223, TWO).tick(225)
    codes = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == "DUPLICATE_CONSUMPTION"]
    [expected] = [json.loads(e.evidence) for e in codes if e.transition == "OPENED"]
    assert expected["rebalance_id"] == last(trace).rebalance_id
    assert (expected["messages"], expected["queues"], expected["offsets"]) == (150, 1, "Orders@broker-a:2 100..250")
    assert {move.queue.queue_id: move.reconsumed_min for move in last(trace).moves}[2] == 150


def test_a_restarted_broker_interrupts_its_queues_until_they_are_locked():
    """b takes 2 again; a keeps 0, and gets 3 from b; 1 is locked by no client, but a pulls it and relies on it."""
    trace = ordered().pulls(44, "a", 0, 1, offset=100).pulls(44, "b", 2, 3, offset=100).boots(90)
    trace.heart_beat(91, "a", "b").pulls(91.5, "a", 1, offset=100).locks(92, "a", 0, 3).locks(95, "b", 2)
    trace.pulls(96, "a", 0, offset=100).pulls(96, "a", 3, offset=100).pulls(96, "b", 2, offset=100)
    assert trace.state.episode is not None
    trace.locks(98, "a", 1)
    still(trace, 105, 146)
    assert why(trace) == ("BROKER_RESTARTED", None)
    assert counted(last(trace)) == (1, 3, 0)
    assert pauses(last(trace)) == {0: 48_000, 1: 54_000, 2: 51_000, 3: 48_000}
    assert again(last(trace)) == (0, 0, 32)  # who goes on with its process queue reads nothing again


def test_a_rebalance_that_leaves_a_queue_unassigned_has_not_converged():
    """While a has two channels the strategy assigns 2 to no client: settled, but not converged."""
    trace = Trace().poll(0, TWO)
    trace.listed_twice = "a"
    trace.poll(10, TWO).poll(20, {"a": holding(0, 1), "b": holding(3)})
    assert (last(trace).converged, counted(last(trace))) == (False, (0, 0, 1))


def test_a_queue_that_its_topic_lost_is_not_left_unassigned():
    trace = Trace().poll(0, TWO)
    trace.poll(10, TWO, route=3).poll(20, {"a": holding(0, 1), "b": holding(2)})
    assert (last(trace).trigger, last(trace).converged, last(trace).moves) == ("ROUTE_CHANGED", True, ())


def test_retry_queues_move_with_their_group_and_are_not_counted():
    retry = Held(0, topic="%RETRY%g")
    trace = Trace().poll(0, {"a": holding(0, 1), "b": Member((Held(2), Held(3), retry))})
    trace.poll(10, {"a": Member((*holding(0, 1, 2, 3).holds, retry))})
    assert counted(last(trace)) == (2, 0, 0)


def test_an_ordinary_start_records_no_rebalance_without_moves():
    """Polls begin; then a's answer shows a retry queue that had no owner."""
    trace = Trace().poll(0, {"a": holding(0, 1, 2, 3)})
    trace.poll(10, {"a": Member((*holding(0, 1, 2, 3).holds, Held(0, topic="%RETRY%g")))}).tick(300)
    assert trace.rebalances() == []


def test_polls_bound_a_pause_by_stamps_whatever_the_clients_clock():
    """b pulled at 8 by its answer of 10; the heir locked at 17 by its answer of 20: 9 s at most."""
    before = {"a": holding(0, 1), "b": holding(2, 3, pull_age=2)}
    trace = Trace().poll(0, before).poll(10, before).poll(20, {"a": holding(0, 1, 2, 3, lock_age=3)})
    assert pauses(last(trace)) == {2: 9_000, 3: 9_000}
    assert all(move.pause_is_at_most for move in last(trace).moves)


def test_polls_and_hook_are_as_exact_as_the_hook_alone():
    def expected(*, polled: bool) -> RebalanceSettled:
        trace = HookTrace().boots(0)
        trace = trace.poll(0, TWO) if polled else trace
        trace.heart_beat(1, "a", "b").locks(2, "a", 0, 1).locks(2, "b", 2, 3)
        trace.pulls(3, "a", 0, 1, offset=9).pulls(3, "b", 2, 3, offset=9, commit=9)
        trace = still(trace.poll(40, TWO) if polled else trace, 45, 51)
        trace.pulls(47, "b", 2, 3, offset=12).lists(50, "a").locks(57, "a", 2, 3).pulls(57.5, "a", 2, 3, offset=9)
        trace = trace.poll(60, {"a": holding(0, 1, 2, 3)}) if polled else trace
        return last(still(trace, 65, 106))

    assert expected(polled=True).moves == expected(polled=False).moves
    assert pauses(expected(polled=True)) == {2: 10_000, 3: 10_000}


def test_with_a_hook_an_answer_does_not_show_when_the_new_owner_began():
    """The heir asks where to begin at 50, and answers at 53 with a stamp of 52; it pulls at 57."""

    def members(**queues: int) -> dict[str, Member]:
        return {c: Member((Held(q, pull_age=1),), orderly=False) for c, q in queues.items()}

    trace = HookTrace(route=1).boots(0).poll(0, members(b=0)).heart_beat(1, "a", "b").asks(2, "b", 0)
    trace.pulls(3, "b", 0, offset=100, commit=100).commits(49, "b", 0, 100).leaves(49.1, "b").asks(50, "a", 0)
    trace.poll(53, members(a=0)).pulls(57, "a", 0, offset=100).poll(63, members(a=0))
    assert pauses(last(trace)) == {0: 8_000}
    assert not last(trace).pause_is_at_most
