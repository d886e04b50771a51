"""Rare events of consumers that pop: failing brokers, deleted topics, changing shares, calls without effect."""

import itertools
from types import SimpleNamespace

import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import AckMessage, PopMessage, ProxyHeartBeat
from simulation.pop.receipts import RENEW_MAX, Receipts
from simulation.popped import Handle, OrderInfo, Origin, PoppedMessage
from simulation.rocketmq.client.pull_request import PopProcessQueue, PopRequest
from simulation.scenario import ScenarioError
from tests.core.simulation.pop_scenario import BROKER, GROUP, TOPIC, popped, second

MQ = MessageQueue(TOPIC, BROKER, 0)
CHANNEL = SimpleNamespace(name="127.0.0.1:1", client=SimpleNamespace(name="stranger"))


def refused(run):
    return {one.code for one in run.of(PopMessage) if one.code is not None}


@pytest.mark.parametrize("pops", ["REMOTING", "PUSH", "FIFO", "SIMPLE"])
def test_consumers_go_on_after_a_restart_of_the_broker(pops):
    run = popped(pops, {"at": 30, "do": "stop-broker", "broker": BROKER, "lasts": 15}, seconds=150)
    assert max(second(one.time) for one in run.of(AckMessage)) > 148
    handed_out = {(one.queue, one.offset) for one in run.deliveries(MQ)}
    assert {offset for _, offset in handed_out} == set(range(len(handed_out)))


def test_a_renewal_that_fails_is_not_repeated_before_its_time():
    """The message comes back, and another client gets it."""
    run = popped(
        "PUSH",
        {"at": 30, "do": "hang", "who": "c-1", "lasts": 170},
        {"at": 70, "do": "stop-broker", "broker": BROKER, "lasts": 30},
        consumers=1,
        threads=1,
        seconds=200,
    )
    assert [one for one in run.deliveries() if one.ended == "RETURNED"]


@pytest.mark.parametrize(("step", "code"), [("delete-topic", 17), ("delete-group", 26), ("disable-consume", 16)])
def test_a_pop_that_the_broker_can_not_serve_is_refused(step, code):
    fields = {"delete-topic": {"topic": TOPIC}, "delete-group": {"group": GROUP, "broker": BROKER}}
    run = popped("REMOTING", {"at": 30, "do": step, "lasts": 30, **fields.get(step, {"group": GROUP})}, seconds=90)
    assert refused(run) == {code}


def test_a_topic_without_messages_is_popped_every_15_s():
    run = popped("REMOTING", rate=0, consumers=1, seconds=120)
    times = [one.last_time for one in run.of(PopMessage)]
    assert all(15_000 <= after - before <= 15_010 for before, after in itertools.pairwise(times))
    assert len(times) >= 7


def test_messages_of_a_share_given_up_are_not_consumed_nor_acknowledged():
    """A client's backlog comes back by itself (RocketMQ's issue 8686)."""
    run = popped(
        "REMOTING",
        {"at": 20, "do": "hang", "who": "c-1", "lasts": 50},
        {"at": 40, "do": "leave", "who": "c-3", "lasts": 10},
        consumers=3,
        queues=4,
        pop_share_queues=1,
        threads=1,
        rate=4.0,
    )
    back = [one for one in run.deliveries() if one.ended == "RETURNED"]
    assert len(back) > 10


def test_a_frozen_client_of_a_proxy_sends_no_heartbeats_and_goes_on():
    run = popped("PUSH", {"at": 30, "do": "freeze", "who": "c-1", "lasts": 40}, seconds=100)
    times = [second(one.time) for one in run.of(ProxyHeartBeat) if one.client_id.startswith("c-1") and one.registers]
    assert not [at for at in times if 31 < at < 69]
    assert [at for at in times if at > 70]
    assert {one.ended for one in run.deliveries() if second(one.begin) < 90} == {"ACKED"}


def test_clients_of_a_proxy_are_restarted_one_after_the_other():
    run = popped("SIMPLE", {"at": 20, "do": "rollout", "group": GROUP, "every": 20, "down": 5}, seconds=80)
    ends = [(one.client_id, round(second(one.time))) for one in run.of(ProxyHeartBeat) if not one.registers]
    assert ends == [("c-1@1@proxied", 20), ("c-2@1@proxied", 40)]


def test_a_push_consumer_receives_no_more_than_its_cache_holds():
    run = popped("PUSH", {"at": 10, "do": "hang", "who": "c-1"}, consumers=1, rate=40.0, seconds=60)
    deliveries = run.cluster.world.deliveries
    in_flight = sum(deliveries.in_flight(GROUP, MessageQueue(TOPIC, BROKER, number)) for number in (0, 1))
    assert 1_024 <= in_flight < 1_024 + 32


def test_a_proxy_lists_a_killed_client_for_two_minutes():
    for seconds, is_listed in ((140, True), (165, False)):
        run = popped("PUSH", {"at": 30, "do": "kill", "who": "c-1"}, seconds=seconds)
        assert run.cluster.proxy.is_alive("c-1@1@proxied") == is_listed
    run.cluster.proxy.terminate(run.cluster.proxied["c-1"])  # too late: it is dropped
    assert len([one for one in run.of(ProxyHeartBeat) if not one.registers]) == 1


def test_a_proxy_keeps_a_message_for_three_hours_at_most():
    receipts, changed = Receipts(), []
    handle = Handle(MQ, 7, 0, 60_000, order=False)
    receipts.add(0, GROUP, "c-1", PoppedMessage(handle, Origin(MQ, 7), 0))
    receipts.renew(52_000, lambda receipt, _: changed.append(receipt.client_id))
    receipts.renew(RENEW_MAX + 1, lambda receipt, _: changed.append(receipt.client_id))
    assert changed == ["c-1"]


def test_a_call_about_another_delivery_has_no_effect_in_order():
    info = OrderInfo(1_000, {5: 61_000, 6: 61_000}, end=7)
    assert info.acknowledge(5, 999) is None
    assert not info.change(5, 999, 70_000)
    assert info.acknowledge(6, 1_000) == 5  # the commit stays at the first that is not acknowledged
    assert info.acknowledge(5, 1_000) == 7
    assert info.blocked_until() == 0


def test_late_calls_change_nothing_at_the_broker():
    run = popped("SIMPLE", seconds=60)
    pops, before = run.cluster.brokers[BROKER].pops, dict(run.cluster.world.deliveries.live)
    old = Handle(MQ, 3, 1, 60_000, order=False)
    pops.ack(CHANNEL, GROUP, old)
    assert pops.change_invisible_time(CHANNEL, GROUP, old, 10_000).invisible_ms == 10_000
    assert run.cluster.world.deliveries.live == before


def test_late_calls_change_nothing_at_the_broker_in_order():
    run = popped("FIFO", {"at": 30, "do": "poison", "who": "c-1", "queue": 0}, seconds=60)
    pops, committed = run.cluster.brokers[BROKER].pops, run.committed(0)
    for mq in (MQ, MessageQueue("Unknown", BROKER, 0)):
        pops.ack(CHANNEL, GROUP, Handle(mq, committed, 1, 60_000, order=True))
        pops.change_invisible_time(CHANNEL, GROUP, Handle(mq, committed, 1, 60_000, order=True), 1_000)
    assert run.committed(0) == committed


def test_in_order_the_commit_stays_at_the_first_unacknowledged_message():
    run = popped("FIFO", {"at": 30, "do": "hang", "who": "c-1"}, consumers=1, rate=8.0, listener_ms=2_000, seconds=60)
    broker, committed = run.cluster.brokers[BROKER], run.committed(0)
    info = broker.pop_store.orders[GROUP, MQ]
    last = info.end - 1
    assert last > committed
    broker.pops.ack(CHANNEL, GROUP, Handle(MQ, last, info.pop_time, 60_000, order=True))
    assert run.committed(0) == committed
    assert last not in info.visible_at


def test_a_step_for_consumers_that_pop_is_refused_for_others():
    with pytest.raises(ScenarioError, match="c-1 does not pop"):
        popped("", {"at": 10, "do": "slow", "who": "c-1", "listener_ms": 100}, seconds=20)


def test_a_share_is_not_computed_for_a_stranger():
    run = popped("REMOTING", seconds=20)
    broker = run.cluster.brokers[BROKER]
    assert broker.query_assignment(CHANNEL, "unknown", "c-1", TOPIC, "AVG") is None


def test_a_client_that_pulls_does_not_pop():
    client = popped("", seconds=20).cluster.clients["c-1"]
    client.pop_later(PopRequest(MQ, PopProcessQueue(0), "MAX"), 0)
    assert client.consumer.pop_process_queue_table == {}
