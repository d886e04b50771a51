"""The lab's faults are real: each is seen in the cluster's own answers, and so is its cure."""

import json
import os
import subprocess
import sys
from collections import Counter

import msgspec
import pytest

from streaming.collector.client import RpcFailedError
from streaming.lab.lab import Lab
from streaming.lab.state import FaultRecord

pytestmark = pytest.mark.live
GROUP, TOPIC = "orders-group", "Orders"


def _id(name):
    return f"127.0.0.1@{name}"


def _status(lab_settings):
    environment = {**os.environ, "REBALANCE_WATCH_RUNTIME__ROOT": str(lab_settings.runtime.root)}
    command = [sys.executable, "-m", "streaming.cli.main", "lab", "status", "--format", "json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout), done.stderr


def test_three_consumers_share_the_eight_queues_and_a_second_up_starts_nothing(lab, lab_settings, watch):
    owners = watch.owners(GROUP, TOPIC)
    assert owners == {queue: _id(f"orders-{1 + (queue >= 3) + (queue >= 6)}") for queue in range(8)}
    before = {member.name: member.pid for member in lab.status()}
    again = Lab.up(lab_settings)
    assert {member.name: member.pid for member in again.status()} == before
    code, shown, _ = _status(lab_settings)
    assert code == 0
    assert {one["state"] for one in shown["members"]} == {"running"}
    assert {one["name"]: len(one["owns"]) for one in shown["members"] if one["group"] == GROUP} == {
        "orders-1": 3,
        "orders-2": 3,
        "orders-3": 2,
    }


def test_a_consumer_joins_and_leaves(lab, watch, eventually):
    joined = lab.fault("join")
    try:
        eventually(lambda: joined.client_id in watch.members(GROUP), seconds=10)
        eventually(lambda: set(Counter(watch.owners(GROUP, TOPIC).values()).values()) == {2})
    finally:
        lab.cure("join")
    eventually(lambda: joined.client_id not in watch.members(GROUP))
    assert joined.client not in {member.name for member in lab.status()}


@pytest.mark.parametrize("kind", ["leave", "kill"])
def test_a_consumer_that_is_taken_away_is_down_until_the_cure_even_if_the_lab_is_upped(
    lab, lab_settings, watch, eventually, kind
):
    gone = lab.fault(kind, client="orders-3")
    try:
        eventually(lambda: gone.client_id not in watch.members(GROUP), seconds=10)
        if kind == "leave":  # its locks went with it; those of a killed one stay up to 60 s
            eventually(lambda: len(watch.owners(GROUP, TOPIC)) == 8, seconds=10)
        Lab.up(lab_settings)
        code, shown, error = _status(lab_settings)
        assert code == 3
        assert "orders-3" in error
        assert {one["name"]: one["fault"] for one in shown["members"] if one["state"] == "down"} == {"orders-3": kind}
    finally:
        lab.cure(kind)
    eventually(lambda: watch.owners(GROUP, TOPIC).get(7) == gone.client_id)


def test_a_frozen_consumer_stays_a_member_and_does_not_answer(lab, watch, eventually):
    frozen = lab.fault("freeze", client="orders-2")
    try:
        assert frozen.client_id in watch.members(GROUP)
        with pytest.raises(RpcFailedError):
            watch.running(GROUP, frozen.client_id, seconds=1)
        assert {one.name for one in lab.status() if one.state == "frozen"} == {"orders-2"}
    finally:
        lab.cure("freeze")
    eventually(lambda: watch.running(GROUP, frozen.client_id))


def test_hung_and_poisoned_queues_stand_alone_and_only_the_poisoned_listener_is_at_work(lab, watch, eventually):
    hung = lab.fault("hang", client="orders-1", queue_id=1)
    poisoned = lab.fault("poison", client="orders-2")
    stuck = {hung.queue.queue_id: hung, poisoned.queue.queue_id: poisoned}
    try:
        assert hung.queue.queue_id == 1
        eventually(lambda: all(_waits(watch, queue_id) for queue_id in stuck))
        before = watch.offsets(GROUP, TOPIC)
        consumed = {queue_id: watch.running(GROUP, one.client_id)[queue_id] for queue_id, one in stuck.items()}

        def others_moved():
            now = watch.offsets(GROUP, TOPIC)
            assert all(now[queue_id][1] == before[queue_id][1] for queue_id in stuck)
            return all(now[queue_id][1] > before[queue_id][1] for queue_id in now.keys() - stuck.keys())

        eventually(others_moved)
        now = {queue_id: watch.running(GROUP, one.client_id)[queue_id] for queue_id, one in stuck.items()}
        moved = {queue_id for queue_id in stuck if now[queue_id].consume_time > consumed[queue_id].consume_time}
        assert moved == {poisoned.queue.queue_id}
        assert now[1].transaction_count == 1
    finally:
        lab.cure("hang")
        lab.cure("poison")
    eventually(lambda: all(watch.offsets(GROUP, TOPIC)[queue][1] > before[queue][1] for queue in stuck))


def _waits(watch, queue_id):
    broker, committed = watch.offsets(GROUP, TOPIC)[queue_id]
    return broker - committed >= 3


def test_a_slow_puller_leaves_its_queues_unpulled_while_messages_arrive(lab, watch, eventually):
    slow = lab.fault("slow-pull")
    try:
        owned = eventually(lambda: watch.running(GROUP, slow.client_id))
        queue_id = min(owned)

        def pulled_once():
            return watch.running(GROUP, slow.client_id)[queue_id].cached_count or _waits(watch, queue_id)

        eventually(pulled_once)
        before = watch.running(GROUP, slow.client_id)[queue_id].pull_time
        arrived = watch.offsets(GROUP, TOPIC)[queue_id][0]
        eventually(lambda: watch.offsets(GROUP, TOPIC)[queue_id][0] > arrived + 1)
        assert watch.running(GROUP, slow.client_id)[queue_id].pull_time == before
    finally:
        lab.cure("slow-pull")
    eventually(lambda: slow.client_id not in watch.members(GROUP))


def test_a_topic_grows_and_shrinks_and_every_fault_is_in_the_log_with_its_cure(lab, watch):
    grown = lab.fault("add-queues")
    assert watch.queues(TOPIC) == 12
    cured = lab.cure("add-queues")
    assert watch.queues(TOPIC) == 8
    records = [msgspec.json.decode(line, type=FaultRecord) for line in lab.fault_log.read_bytes().splitlines()]
    assert records[-2:] == [grown, cured]
    assert [(one.kind, one.cure, one.time <= one.done) for one in records[-2:]] == [
        ("add-queues", False, True),
        ("add-queues", True, True),
    ]
