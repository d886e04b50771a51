"""The lab's faults are real: each is seen in the cluster's own answers, and so is its cure. With two brokers.

`test_lab` has the short form. Of the other faults the short forms judge recordings: `test_faults` and `lab/demo`.
"""

import time
from collections import Counter

import msgspec
import pytest

from rebalance_model.observe.events import BrokerStatus, HeartBeat, LockBatchMq, Tick, UnlockBatchMq
from rebalance_model.observe.events.decoding import decode
from streaming.lab.lab import Lab
from streaming.lab.state import FaultRecord
from tests.support import hooked

pytestmark = [pytest.mark.live, pytest.mark.prove]
GROUP, TOPIC = "orders-group", "Orders"
QUEUES = [(broker, number) for broker in ("broker-a", "broker-b") for number in range(4)]
LOCK_SECONDS_MAX = 150
"""A client that leaves during a rebalance may be granted a lock after releasing all; no other gets it for 60 s, and
then at its next rebalance."""


@pytest.fixture(scope="module")
def lab_settings(settings_with):
    return settings_with(brokers=2, kafka=False, groups={"orders": {"queues": 4}})


@pytest.fixture(scope="module")
def lab(lab_settings, running):
    """A lab with two brokers, four queues of each topic on either."""
    with running(lab_settings) as lab:
        yield lab


def _id(name):
    return f"127.0.0.1@{name}"


def test_a_consumer_joins_and_leaves(lab, watch, eventually):
    joined = lab.fault("join")
    try:
        eventually(lambda: joined.client_id in watch.members(GROUP))
        eventually(lambda: set(Counter(watch.owners(GROUP, TOPIC).values()).values()) == {2})
    finally:
        lab.cure("join")
    eventually(lambda: joined.client_id not in watch.members(GROUP))
    eventually(lambda: len(watch.owners(GROUP, TOPIC)) == len(QUEUES), LOCK_SECONDS_MAX)
    assert joined.client not in {member.name for member in lab.status()}


def _given_back(lab, gone):
    """Return the queues that a client has unlocked since it was asked to leave, by the brokers' hooks."""
    unlocks = [event for event in hooked.spooled(lab.spool) if isinstance(event, UnlockBatchMq)]
    mine = [event for event in unlocks if event.client_id == gone.client_id and event.time >= gone.time]
    return {(mq.broker, mq.queue_id) for event in mine for mq in event.queues if mq.topic == TOPIC}


@pytest.mark.parametrize("kind", ["leave", "kill"])
def test_a_removed_consumer_is_down_until_the_cure_even_after_lab_up(lab, lab_settings, watch, eventually, kind):
    gone = lab.fault(kind, client="orders-3")
    try:
        eventually(lambda: gone.client_id not in watch.members(GROUP))
        if kind == "leave":  # its locks went with it; those of a killed one stay up to 60 s
            eventually(lambda: QUEUES[-1] in _given_back(lab, gone))
            eventually(lambda: len(watch.owners(GROUP, TOPIC)) == len(QUEUES), LOCK_SECONDS_MAX)
        Lab.up(lab_settings)
        assert {one.name: one.fault for one in lab.status() if one.state == "down"} == {"orders-3": kind}
    finally:
        lab.cure(kind)
    eventually(lambda: watch.owners(GROUP, TOPIC).get(QUEUES[-1]) == gone.client_id, LOCK_SECONDS_MAX)


def test_hung_and_poisoned_queues_stand_still_alone(lab, watch, eventually):
    hung = lab.fault("hang", client="orders-2", broker="broker-b", queue_id=1)
    poisoned = lab.fault("poison", client="orders-1")
    stuck = {(one.queue.broker, one.queue.queue_id): one for one in (hung, poisoned)}
    try:
        assert ("broker-b", 1) in stuck
        eventually(lambda: all(_waits(watch, queue) for queue in stuck))
        before = watch.offsets(GROUP, TOPIC)
        consumed = {queue: watch.running(GROUP, one.client_id)[queue] for queue, one in stuck.items()}

        def others_moved():
            now = watch.offsets(GROUP, TOPIC)
            assert all(now[queue][1] == before[queue][1] for queue in stuck)
            return all(now[queue][1] > before[queue][1] for queue in now.keys() - stuck.keys())

        eventually(others_moved)

        def retried():
            now = {queue: watch.running(GROUP, one.client_id)[queue] for queue, one in stuck.items()}
            assert now["broker-b", 1].transaction_count == 1
            return [stuck[queue] for queue in stuck if now[queue].consume_time > consumed[queue].consume_time]

        assert eventually(retried) == [poisoned]
    finally:
        lab.cure("hang")
        lab.cure("poison")
    eventually(lambda: all(watch.offsets(GROUP, TOPIC)[queue][1] > before[queue][1] for queue in stuck))


def _waits(watch, queue):
    broker, committed = watch.offsets(GROUP, TOPIC)[queue]
    return broker - committed >= 3


def test_a_slow_puller_leaves_its_queues_unpulled_while_messages_arrive(lab, watch, eventually):
    slow = lab.fault("slow-pull")
    try:
        owned = eventually(lambda: watch.running(GROUP, slow.client_id))
        queue = min(owned)

        def pulled_once():
            # A pull that finds the queue not yet locked is tried again after 3 s, whatever the interval between
            # pulls is: only one whose messages were consumed has begun the wait.
            own = watch.running(GROUP, slow.client_id)[queue]
            return own.consume_time > own.pull_time

        eventually(pulled_once)
        before = watch.running(GROUP, slow.client_id)[queue].pull_time
        arrived = watch.offsets(GROUP, TOPIC)[queue][0]
        eventually(lambda: watch.offsets(GROUP, TOPIC)[queue][0] > arrived + 1)
        assert watch.running(GROUP, slow.client_id)[queue].pull_time == before
    finally:
        lab.cure("slow-pull")
    eventually(lambda: slow.client_id not in watch.members(GROUP))


def test_members_at_odds_with_their_group_declare_it_and_leave_no_trace(lab, lab_settings, watch, eventually):
    orders = lab_settings.lab.groups["orders"]
    kinds = ("strategy", "mixed", "subscription")
    odd = {kind: lab.fault(kind) for kind in kinds}
    lab.fault("same-id", client="audit-1")
    try:
        said = {kind: eventually(lambda kind=kind: watch.running_info(GROUP, odd[kind].client_id)) for kind in kinds}
        strategies = [said[kind]["strategy"].rpartition("Averagely")[2] for kind in kinds]
        assert strategies == ["ByCircle", "", ""]
        assert [said[kind]["orderly"] for kind in kinds] == [True, False, True]
        wanted = [{one.topic: one.sub_string for one in said[kind]["subscriptions"]}[TOPIC] for kind in kinds]
        assert wanted == ["*", "*", "paid"]
        twice = [_id("audit-1"), _id("audit-1"), _id("audit-2")]
        eventually(lambda: watch.connections("audit-group") == twice)
    finally:
        for kind in (*kinds, "same-id"):
            lab.cure(kind)
    eventually(lambda: watch.connections("audit-group") == [_id("audit-1"), _id("audit-2")])
    eventually(lambda: watch.is_shared_out(orders, brokers=2))
    assert {member.name for member in lab.status() if member.group == GROUP} == {"orders-1", "orders-2", "orders-3"}


def test_the_queues_of_a_broker_go_and_come_with_it(lab, lab_settings, watch, eventually):
    orders = lab_settings.lab.groups["orders"]
    killed = lab.fault("broker-kill")
    try:
        assert killed.broker == "broker-b"
        eventually(lambda: watch.brokers() == {"broker-a"})
        eventually(lambda: watch.owners(GROUP, TOPIC).keys() == set(QUEUES[:4]), LOCK_SECONDS_MAX)
        before = watch.offsets(GROUP, TOPIC)
        eventually(lambda: all(now[1] > before[queue][1] for queue, now in watch.offsets(GROUP, TOPIC).items()))
    finally:
        lab.cure("broker-kill")
    eventually(lambda: watch.is_shared_out(orders, brokers=2), LOCK_SECONDS_MAX)
    lab.fault("broker-restart", client="broker-a")
    assert lab.cure("broker-restart").broker == "broker-a"
    eventually(lambda: watch.is_shared_out(orders, brokers=2), LOCK_SECONDS_MAX)


def test_every_broker_writes_down_what_it_is_asked_in_a_spool_of_its_own(lab, eventually):
    def spools():
        return {
            folder.name: [
                decode(line, key=None, stamp=time.time_ns() // 1_000_000, keyed=False)
                for file in sorted(folder.glob("*.jsonl"))
                for line in file.read_bytes().splitlines(keepends=True)
                if line.endswith(b"\n")  # the newest is being written
            ]
            for folder in lab.spool.iterdir()
        }

    def all_written():
        kinds = {BrokerStatus, Tick, HeartBeat, LockBatchMq}
        return all(kinds <= set(map(type, events)) for events in spools().values())

    eventually(all_written)
    for source_id, events in spools().items():
        assert {(event.broker, event.source_id) for event in events} == {(source_id[len("hook-") :][:8], source_id)}
    assert {name.partition("@")[0] for name in spools()} == {"hook-broker-a", "hook-broker-b"}


def test_a_topic_grows_and_shrinks_and_the_log_has_each_fault_and_cure(lab, watch):
    grown = lab.fault("add-queues")
    assert watch.queues(TOPIC) == 16
    cured = lab.cure("add-queues")
    assert watch.queues(TOPIC) == 8
    records = [msgspec.json.decode(line, type=FaultRecord) for line in lab.fault_log.read_bytes().splitlines()]
    assert records[-2:] == [grown, cured]
    assert [(one.kind, one.cure, one.time <= one.done) for one in records[-2:]] == [
        ("add-queues", False, True),
        ("add-queues", True, True),
    ]
