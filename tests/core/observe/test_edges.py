"""Rare events: late and broken answers, retries, long episodes, wrong thresholds."""

import msgspec
import pytest

from rebalance_model.observe.effects import GroupSnapshot, QueueSnapshot
from rebalance_model.observe.events import BrokerStatus, ConsumeStats, OffsetInfo, RpcError, Tick, TopicRoute
from rebalance_model.observe.group.rebalances import CAUSES_MAX
from rebalance_model.observe.policy import Policy
from tests.rules.test_incidents import healthy, stuck_rounds
from tests.support.folding import Fold
from tests.support.trace import GONE, SILENT, START, Held, Member, Trace, holding, mq

TWO = {"a": holding(0, 1), "b": holding(2, 3)}


def test_an_owner_that_died_while_it_was_stuck_leaves_its_lock_behind():
    """Hung since 20, killed after 60; its lock, seen renewed at 55, may have been again until 70."""
    trace = Trace()
    healthy(trace, 0, 20)
    stuck_rounds(trace, Member((Held(0, consume_age=50, in_listener=1), Held(1))), rounds=5)
    for at in range(70, 150, 10):
        trace.poll(at, {"b": holding(2, 3)}, {0: (160, 100)})
    assert [found for found in trace.incidents() if "STUCK" in found[2]] == [
        (90, "OPENED", "ORDERED_QUEUE_STUCK OWNER_GONE_LOCK_HELD"),
        (100, "RECLASSIFIED", "ORDERED_QUEUE_STUCK OWNER_GONE_LOCK_HELD"),  # shown under LOCK_ORPHANED, which opens
        (130, "RECLASSIFIED", "ORDERED_QUEUE_STUCK UNASSIGNED"),  # its parent is resolved
    ]


def test_an_unsubscribed_topic_has_no_expected_owner():
    trace = Trace().poll(0, TWO)
    other = tuple(mq(q, "Other") for q in range(2))
    trace._fold(TopicRoute(topic="Other", queues=other, **trace._poll(START + 5_000)))
    assert [trace.state.queues[one].expected_owner for one in other] == [None, None]


def test_a_late_failed_or_reordered_route_changes_nothing():
    trace = Trace().poll(0, TWO).poll(20, TWO)
    turned = tuple(mq(q) for q in reversed(range(4)))
    trace._fold(TopicRoute(topic="Orders", queues=turned, **trace._poll(START + 25_000)))
    assert trace.rebalances() == []
    assert trace.state.episode is None
    before = trace.state.routes
    trace._fold(TopicRoute(topic="Orders", queues=(), **trace._poll(START + 10_000)))
    trace._fold(TopicRoute(topic="Orders", error=RpcError(code=-1), **trace._poll(START + 30_000)))
    assert trace.state.routes == before


def test_a_member_list_that_is_late_or_failed_changes_nothing():
    trace = Trace().poll(0, None).poll(20, TWO)
    trace._fold(trace._connections({}, START + 10_000))
    assert trace.state.members == ("a", "b")


def test_offsets_that_are_late_change_nothing():
    trace = Trace().poll(20, TWO, {0: (100, 90)})
    row = OffsetInfo(mq=mq(0), broker_offset=50, consumer_offset=50)
    trace._fold(ConsumeStats(queues=(row,), **trace._poll(START + 10_000)))
    assert trace.state.queues[mq(0)].commit_offset == 90


def test_a_silent_concurrent_member_has_pulls_and_no_locks_to_expire():
    """Not before an answer after the broker's scan, which drops who has sent no heartbeat for 120 s."""
    member = Member((Held(0), Held(1)), orderly=False)
    trace = Trace().poll(10, {"a": member})
    for n in range(16):
        trace.poll(20 + 10 * n, {"a": SILENT})
    assert trace.incidents("LOCK_EXPIRED", "PULL_EXPIRED") == [(160.001, "OPENED", "PULL_EXPIRED")] * 2


def test_a_silent_consumer_that_pulls_itself_does_not_pull_expire():
    trace = Trace()
    listed = Trace._connections
    trace._connections = lambda members, now: msgspec.structs.replace(
        listed(trace, members, now), consume_type="CONSUME_ACTIVELY"
    )
    trace.poll(10, {"a": Member((Held(0),), orderly=False)})
    for n in range(15):
        trace.poll(20 + 10 * n, {"a": SILENT})
    assert trace.incidents("PULL_EXPIRED") == []


def test_the_claim_of_a_former_member_yields_to_that_of_a_present_one():
    trace = Trace().poll(0, {"a": holding(0), "b": holding(0)})
    assert trace.owners()[0] == "a"
    trace.poll(10, {"b": holding(0)})
    assert trace.owners()[0] == "b"
    trace._fold(trace._answer("b", GONE, START + 15_000))
    trace._fold(trace._answer("b", GONE, START + 16_000))
    assert trace.owners()[0] is None


def test_a_client_without_membership_may_vanish_from_a_foreign_queue():
    trace = Trace().poll(0, {"a": holding(0), "b": holding(0)})
    trace.poll(10, {"a": holding(0)})
    assert [m for m in trace.moves() if m[0] == 10] == []


def test_an_answer_may_come_before_the_list_that_names_its_client():
    trace = Trace().poll(0, {"b": holding(2, 3)})
    trace._fold(trace._answer("a", holding(0, 1), START + 5_000))
    trace._fold(trace._connections(TWO, START + 5_000))
    assert trace.owners() == {0: "a", 1: "a", 2: "b", 3: "b"}


def test_an_episode_lists_its_first_causes_only():
    trace = Trace().poll(0, TWO)
    for n in range(CAUSES_MAX):
        crowd = {f"c{n}": holding()} | TWO
        trace.poll(10 + n, crowd)
    assert trace.state.episode is not None
    assert len(trace.state.episode.causes) == CAUSES_MAX


def snapshot_times(group: str) -> list[int]:
    """The times, in two intervals, at which the whole state of a group was written although nothing changed."""
    trace = Trace(policy=Policy(snapshot_interval=60_000), name=group).poll(0, TWO)
    before = len(trace.effects)
    for second in range(1, 121):
        trace.tick(second)
    times = [e.time for e in trace.effects[before:] if isinstance(e, GroupSnapshot)]
    queues = [(e.time, e.queue_id) for e in trace.effects[before:] if isinstance(e, QueueSnapshot)]
    assert queues == [(time, queue_id) for time in times for queue_id in range(4)]
    return times


def test_snapshots_come_once_an_interval_at_each_groups_own_moment():
    moments = [snapshot_times(group) for group in ("g", "h", "i", "j")]
    assert all(second - first == 60_000 for first, second in moments)
    assert len({first for first, _ in moments}) == 4
    assert moments[0] == snapshot_times("g")


def test_a_broadcast_that_is_no_tick_lets_no_time_pass():
    fold, trace = Fold(), Trace().poll(0, TWO)
    for event in trace.events:
        fold.push(event)
    for second in range(1, 21):
        fold.push(Tick(time=START + 1000 * second, cluster="c", source="poll", source_id=trace.source_id, seq=second))
    status = BrokerStatus(
        time=START + 10**9,
        cluster="c",
        broker="broker-a",
        source="poll",
        source_id=f"poll-1@{START}",
        seq=1,
        boot_time=1,
    )
    assert fold.push(status) == []
    assert fold.shard.timeline.state.now == START + 20_000


def test_a_group_that_another_collector_takes_over_waits_for_that_one():
    fold = Fold()
    trace = Trace().poll(0, TWO)
    trace.source_id, trace.seq = "poll-2@5", 0
    trace.poll(1, TWO).poll(40, TWO).poll(50, TWO)
    fold.all(trace.events)
    assert set(fold.shard.timeline.followed) == {"c/poll-2"}


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"client_lock_max_live_time": 60_001}, "broker_lock_max_live_time must not be below"),
        ({"stuck_after": 0}, "stuck_after must be above 0"),
    ],
)
def test_thresholds_that_contradict_each_other_are_refused(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        Policy(**wrong)


def test_a_client_unreachable_on_its_chosen_channel_is_silent_and_not_gone():
    """Seen after a broker's restart: it keeps a channel that was closed while it registered, and asks on that one."""
    unreachable = Member(error=1, remark="invoke consumer <g> <a> Exception: send request to </127.0.0.1:38924> failed")
    trace = Trace().poll(0, TWO).poll(10, TWO | {"a": unreachable}).poll(20, TWO | {"a": unreachable})
    assert trace.owners() == {0: "a", 1: "a", 2: "b", 3: "b"}
    assert trace.state.clients["a"].silent


def test_an_owner_that_was_not_asked_for_long_is_not_called_unresponsive():
    """The broker still reports offsets, but the owner was not queried since 0: the collector caused its silence."""
    trace = Trace().poll(0, TWO, {0: (100, 90)})
    for n in range(1, 9):
        now = START + 10_000 * n
        row = OffsetInfo(mq=mq(0), broker_offset=100 + n, consumer_offset=90)
        trace.tick(10 * n)._fold(ConsumeStats(queues=(row,), **trace._poll(now)))
    assert trace.incidents("ORDERED_QUEUE_STUCK") == [(70, "OPENED", "ORDERED_QUEUE_STUCK UNDETERMINED")]


def test_every_member_reads_every_queue_of_a_broadcasting_group():
    trace = Trace()
    listed = Trace._connections
    trace._connections = lambda members, now: msgspec.structs.replace(
        listed(trace, members, now), message_model="BROADCASTING"
    )
    both = Member((Held(0), Held(1, dropped=True), Held(7)), orderly=False)  # the last one is new to the route
    trace.poll(0, {"a": both, "b": both}).poll(10, {"a": both, "b": both})
    assert set(trace.owners().values()) <= {None}
    for at in (20, 30, 40):
        trace.poll(at, {"a": SILENT, "b": both})
    assert trace.incidents("LOCK_EXPIRED", "PULL_EXPIRED", "QUEUE_DOUBLE_OWNED") == []
