"""Popped messages in the simulation, and what hooks and polls show of them."""

from collections import Counter

import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import (
    AckMessage,
    ChangeMessageInvisibletime,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    HeartBeat,
    PopMessage,
    ProxyHeartBeat,
    PullMessage,
    Tick,
)
from rebalance_model.observe.state import popped as in_flight
from rebalance_model.observe.state import popped_queues
from rebalance_model.observe.state.popped_queues import PoppedQueues
from tests.core.simulation.pop_scenario import BROKER, GROUP, RETRY, TOPIC, popped, second

MQ = MessageQueue(TOPIC, BROKER, 0)
ALL = ("REMOTING", "PUSH", "FIFO", "SIMPLE")


@pytest.mark.parametrize("pops", ALL)
def test_a_healthy_group_acknowledges_each_message_once(pops):
    run = popped(pops)
    ends = Counter(one.ended for one in run.deliveries())
    places = Counter((one.queue, one.offset) for one in run.deliveries())
    assert ends["ACKED"] > 300
    assert ends["RETURNED"] == 0
    assert max(places.values()) == 1


@pytest.mark.parametrize("pops", ALL)
def test_the_same_seed_gives_the_same_events(pops):
    step = {"at": 30, "do": "hang", "who": "c-1", "lasts": 30}
    once, again, other = (popped(pops, step, seconds=90, seed=seed) for seed in (1, 1, 2))
    assert once.events == again.events
    assert once.events != other.events


@pytest.mark.parametrize("pops", ["REMOTING", "PUSH", "SIMPLE"])
def test_what_the_observer_knows_to_be_in_flight_is_true_but_for_a_second(pops):
    """The truth: the check points of the broker. A sum tells of its acks at the end of its second."""
    queues, counts = PoppedQueues(), []
    run = popped(pops, listener_ms=1_500, seconds=120)
    for event in run.events:
        if isinstance(event, PopMessage | AckMessage | ChangeMessageInvisibletime):
            popped_queues.fold(queues, event, by_proxy=pops != "REMOTING")
        elif isinstance(event, ConsumeStats) and second(event.time) > 90:
            for row in event.queues:
                queue = queues.queues.get(row.mq)
                if queue is not None:
                    offsets = {"commit_offset": row.consumer_offset, "pull_offset": row.pull_offset}
                    in_flight.on_offsets(queue, event.time, **offsets)
                    counts.append((event.time, row.mq, in_flight.in_flight(queue)))
    assert len(counts) >= 6
    for time, mq, queue in counts:
        handed_out = _in_flight(run, mq, time)
        acked = [one for one in run.deliveries(mq) if time - 1_100 <= (one.end or 0) <= time]
        assert len(handed_out) <= queue <= len(handed_out) + len(acked)


@pytest.mark.parametrize("pops", ["REMOTING", "PUSH", "SIMPLE"])
def test_by_its_hook_alone_no_more_is_known_than_is_in_flight(pops):
    queues, highest = PoppedQueues(), 0
    run = popped(pops, {"at": 30, "do": "hang", "who": "c-1", "lasts": 20}, seconds=90, queues=3)
    for event in run.events:
        if isinstance(event, PopMessage | AckMessage | ChangeMessageInvisibletime):
            popped_queues.fold(queues, event, by_proxy=pops != "REMOTING")
        elif isinstance(event, Tick) and event.source_id.startswith("hook"):
            for mq, known in queues.queues.items():
                count = in_flight.in_flight(known) or 0
                assert count <= len(_in_flight(run, mq, event.time))
                highest = max(highest, count)
    assert highest > 0


def test_clients_and_the_broker_agree_on_what_is_in_flight():
    run = popped("REMOTING", {"at": 30, "do": "hang", "who": "c-1", "lasts": 50}, invisible_ms=60_000, seconds=120)
    compared = 0
    for event in run.of(ConsumerRunningInfo):
        channel = next(one.channel for one in run.of(HeartBeat) if one.client_id == event.client_id)
        of_client = [one for one in _in_flight(run, None, event.time) if one.channel == channel]
        acked = [one for one in run.deliveries() if one.channel == channel and 0 <= event.time - (one.end or 0) < 100]
        count = sum(one.wait_ack_count for one in event.pop_queues)
        assert len(of_client) <= count + 1
        assert count <= len(of_client) + len(acked) + 1
        compared += count > 10
    assert compared >= 3


def _in_flight(run, mq, time):
    """Return what a broker had handed out, and not taken back, at a time."""
    return [one for one in run.deliveries(mq) if one.begin <= time and (one.end or time + 1) > time]


def test_clients_say_how_many_messages_wait_for_their_ack():
    run = popped("REMOTING", {"at": 30, "do": "hang", "who": "c-1"}, consumers=1, threads=4, invisible_ms=20_000)
    answers = [event for event in run.of(ConsumerRunningInfo) if second(event.time) > 32]
    counts = [event.pop_queues[0].wait_ack_count for event in answers]
    assert counts == sorted(counts)
    assert max(counts) > 96
    stopped = [second(event.last_time) for event in run.of(PopMessage)]
    assert max(stopped) < 100  # it is full: two messages a second


def test_a_member_that_hangs_is_full_and_all_that_it_has_comes_back():
    run = popped("REMOTING", {"at": 30, "do": "hang", "who": "c-1"}, consumers=1, invisible_ms=20_000)
    back = [one for one in run.deliveries() if one.ended == "RETURNED"]
    assert back
    assert all(22_000 <= one.end - one.begin <= 24_801 for one in back)
    log = run.cluster.brokers[BROKER].logs[RETRY]
    assert log.max_offset(run.cluster.world.scheduler.now) == len(back)


def test_a_message_that_a_remoting_listener_refuses_comes_back_ever_later():
    run = popped("REMOTING", {"at": 30, "do": "poison", "who": "c-1"}, consumers=1)
    changes = run.of(ChangeMessageInvisibletime)
    assert [one.changed_ms for one in changes] == [10_000, 30_000, 60_000, 120_000]
    assert [one.topic for one in changes] == [TOPIC, *[RETRY.topic] * 3]
    assert 40 <= (changes[2].time - changes[0].time) / 1_000 <= 52


def test_a_push_consumer_by_grpc_refuses_with_its_own_delays():
    run = popped("PUSH", {"at": 30, "do": "poison", "who": "c-1"}, consumers=1)
    seconds = [one.changed_ms // 1_000 for one in run.of(ChangeMessageInvisibletime)]
    assert seconds == [1, 5, 10, 30, 60, 120]


def test_a_simple_consumer_without_acks_gets_the_messages_again():
    run = popped("SIMPLE", {"at": 30, "do": "no-ack", "who": "c-1", "lasts": 10}, consumers=1, invisible_ms=20_000)
    back = [one for one in run.deliveries() if one.ended == "RETURNED"]
    assert 15 <= len(back) <= 25
    assert [one.ended for one in run.deliveries(RETRY)] == ["ACKED"] * len(back)


def test_a_slow_listener_acknowledges_nothing_of_what_others_have_already():
    slow = {"at": 30, "do": "slow", "who": "c-1", "listener_ms": 25_000, "lasts": 10}
    run = popped("REMOTING", slow, consumers=1, invisible_ms=20_000)
    back = [one for one in run.deliveries() if one.ended == "RETURNED"]
    assert back
    assert {one.ended for one in run.deliveries(RETRY)} == {"ACKED"}


def test_a_message_in_order_blocks_its_queue_alone():
    run = popped("FIFO", {"at": 30, "do": "poison", "who": "c-1", "queue": 0}, seconds=120)
    assert 28 <= run.committed(0) <= 32
    assert run.committed(1) > 110
    [held] = {one.offset for one in run.of(ChangeMessageInvisibletime)}
    assert held == run.committed(0)
    assert all(one.order for one in run.of(AckMessage, ChangeMessageInvisibletime))


def test_a_blocked_queue_goes_on_in_order_when_its_message_is_consumed():
    run = popped("FIFO", {"at": 30, "do": "poison", "who": "c-1", "queue": 0, "lasts": 60}, seconds=240)
    acked = [one.offset for one in sorted(run.deliveries(MQ), key=lambda one: one.end or 0) if one.ended == "ACKED"]
    assert acked == sorted(set(acked))
    assert run.committed(0) > 230


def test_a_proxy_renews_what_a_hung_listener_has():
    run = popped("PUSH", {"at": 30, "do": "hang", "who": "c-1"}, consumers=1, threads=1, seconds=400)
    first = run.of(ChangeMessageInvisibletime)[0].offset, run.of(ChangeMessageInvisibletime)[0].queue_id
    renewals = [one for one in run.of(ChangeMessageInvisibletime) if (one.offset, one.queue_id) == first]
    assert [one.changed_ms for one in renewals] == [60_000, 180_000, 300_000]
    assert all(0 < one.pop_time + one.invisible_ms - one.time <= 10_100 for one in renewals)
    assert not [one for one in run.deliveries() if one.ended == "RETURNED"]


def test_a_killed_client_of_a_proxy_is_renewed_until_the_proxy_drops_it():
    run = popped(
        "PUSH",
        {"at": 30, "do": "hang", "who": "c-1"},
        {"at": 40, "do": "kill", "who": "c-1"},
        seconds=200,
    )
    [end] = [second(one.time) for one in run.of(ProxyHeartBeat) if not one.registers]
    assert 150 <= end <= 171
    freed = [one for one in run.of(ChangeMessageInvisibletime) if one.changed_ms == 1_000 and second(one.time) > 100]
    assert freed
    assert min(second(one.time) for one in freed) >= end - 0.1


def test_a_client_that_ends_tells_its_proxy():
    run = popped("PUSH", {"at": 30, "do": "leave", "who": "c-1"}, seconds=60)
    assert [(one.client_id, round(second(one.time))) for one in run.of(ProxyHeartBeat) if not one.registers] == [
        ("c-1@1@proxied", 30)
    ]


def test_a_frozen_member_swallows_the_messages_of_the_pop_that_waits():
    run = popped("REMOTING", {"at": 30, "do": "freeze", "who": "c-1", "lasts": 60}, invisible_ms=20_000)
    back = [one for one in run.deliveries() if one.ended == "RETURNED"]
    assert [round(second(one.begin)) for one in back] in ([30], [31])


def test_members_pop_the_share_that_the_broker_computes():
    run = popped("REMOTING", consumers=3, queues=4, pop_share_queues=1, seconds=60)
    shares = {e.client_id: {one.queue_id for one in e.pop_queues} for e in run.of(ConsumerRunningInfo)}
    assert sorted(map(len, shares.values())) == [2, 3, 3]
    assert not [one for one in run.of(PullMessage) if one.topic == TOPIC]


def test_one_member_pulls_what_the_others_pop():
    join = {"at": 30, "do": "join", "who": "c-9", "group": GROUP, "pops": ""}
    run = popped("REMOTING", join, seconds=90, queues=4)
    late = [one for one in run.of(PullMessage, PopMessage) if second(one.time) > 60 and one.topic == TOPIC]
    assert {type(one) for one in late} == {PullMessage, PopMessage}


def test_a_member_whose_clock_is_behind_is_refused():
    join = {"at": 30, "do": "join", "who": "c-9", "group": GROUP, "clock_offset_ms": -20_000}
    run = popped("REMOTING", join, seconds=90)
    refused = [one for one in run.of(PopMessage) if one.code is not None]
    assert {one.code for one in refused} == {210}
    assert len({one.channel for one in refused}) == 1


def test_no_broker_lists_clients_of_a_proxy_but_its_group_is_in_order():
    run = popped("FIFO", seconds=60)
    answers = [one for one in run.of(ConsumerConnection) if second(one.time) > 20]
    assert {one.connections for one in answers} == {()}
    assert {one.consume_message_orderly for one in answers} == {True}


def test_what_was_handed_out_comes_back_after_a_restart_of_the_broker():
    run = popped(
        "REMOTING",
        {"at": 30, "do": "hang", "who": "c-1", "lasts": 20},
        {"at": 40, "do": "stop-broker", "broker": BROKER, "lasts": 10},
        consumers=1,
        invisible_ms=20_000,
    )
    handed_out = Counter((one.queue, one.offset) for one in run.deliveries())
    assert all(one.ended for one in run.deliveries() if second(one.begin) < 150)
    assert handed_out
