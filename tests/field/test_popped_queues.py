"""A recording of POP and gRPC consumers with faults: what is in flight, beside what the clients themselves say.

`lab/pop.tar.xz` is of 2026-11-22: RocketMQ 5.4.0, one broker with file-based POP, a proxy in cluster mode, and the
consumers' own log. `tests/support/pop_recording.py` makes today's events of it.
"""

from collections import Counter, defaultdict

import msgspec
import pytest

from rebalance_model.observe import popped
from rebalance_model.observe.effects import GroupSnapshot, IncidentTransition
from rebalance_model.observe.events import (
    AckMessage,
    ChangeMessageInvisibletime,
    ConsumerRunningInfo,
    ConsumeStats,
    GroupEvent,
    HeartBeat,
    PopMessage,
    key_of,
)
from rebalance_model.observe.hooks.hook import UNUSED
from rebalance_model.observe.popped import PoppedQueue
from tests.support import pop_recording
from tests.support.folding import folded
from tests.support.recordings import unpacked

pytestmark = pytest.mark.xdist_group("pop recording")  # one process unpacks it for all
POP_GROUP = "pop-group"
FIRST_FAULT = 1_795_337_001_000
HANG = (1_795_337_138_000, 1_795_337_190_000)
"""From the first answer after all threads of both clients hang until one of them is killed."""
RANGES_MAX = 64
"""Acks of six channels of a proxy leave ranges open for the same instant."""
AT_REST_BYTES = 2_048


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    return unpacked(pop_recording.FOLDER / "pop.tar.xz", tmp_path_factory.mktemp("pop"))


@pytest.fixture(scope="module")
def events(recording):
    return pop_recording.events_of(recording)


class Folded:
    """The popped queues of all groups, and what was given back since the last ack of each group."""

    def __init__(self):
        self.queues = defaultdict(PoppedQueue)
        self.returned = Counter()
        self.changes = []
        self._remoting = set()

    def of(self, group):
        return [queue for (name, _, _), queue in self.queues.items() if name == group]

    def in_flight(self, group):
        return sum(popped.in_flight(queue) or 0 for queue in self.of(group))

    def push(self, event):
        if isinstance(event, GroupEvent):
            self.returned[event.group] += sum(popped.give_back(queue, event.time) for queue in self.of(event.group))
        match event:
            case HeartBeat():
                self._remoting.add(event.channel)
            case PopMessage():
                self._popped(event)
            case AckMessage():
                popped.on_ack(self.queues[event.group, event.topic, event.queue_id], event)
                self.returned[event.group] = 0
            case ChangeMessageInvisibletime():
                queue = self.queues[event.group, event.topic, event.queue_id]
                kind = popped.on_change(queue, event, by_proxy=event.channel not in self._remoting)
                self.changes.append((kind, event))
            case ConsumeStats():
                self._answered(event)

    def _popped(self, event):
        for (group, topic, _), queue in self.queues.items():
            if group == event.group and topic.removeprefix(f"%RETRY%{group}_") == event.topic:
                popped.on_pop(queue, event)

    def _answered(self, event):
        for row in event.queues or ():
            place = (event.group, row.mq.topic, row.mq.queue_id)
            if place in self.queues:
                offsets = {"commit_offset": row.consumer_offset, "pull_offset": row.pull_offset}
                popped.on_offsets(self.queues[place], event.time, **offsets)


def test_in_the_hang_as_much_is_in_flight_as_the_clients_say(events):
    """The broker's own metrics said 0, as the commit advances when a message is handed out."""
    fold, waiting, found = Folded(), {}, []
    for event in events:
        fold.push(event)
        if isinstance(event, ConsumeStats) and event.group == POP_GROUP:
            found.append((event.time, fold.in_flight(POP_GROUP) + fold.returned[POP_GROUP], waiting := {}))
        if isinstance(event, ConsumerRunningInfo) and event.queues is not None:
            waiting[event.client_id] = sum(queue.wait_ack_count for queue in event.pop_queues)
    of_clients = {at: (mine, sum(theirs.values())) for at, mine, theirs in found if HANG[0] < at < HANG[1]}
    assert [theirs for _, theirs in of_clients.values()] == [22, 41, 76, 118, 165, 195]
    assert all(abs(mine - theirs) <= 1 for mine, theirs in of_clients.values()), of_clients


def test_before_the_first_fault_nothing_is_given_back(events):
    fold = Folded()
    for event in events:
        if event.time < FIRST_FAULT:
            fold.push(event)
    assert fold.returned.total() == 0
    assert all((popped.in_flight(queue) or 0) <= 4 for queue in fold.queues.values())
    assert fold.queues


def test_each_renewal_of_the_proxy_is_one_and_no_refusal(events):
    """It pops with 60 s, and renews for 60, 180 and 300 s; a listener that fails refuses for 10 s and longer."""
    fold = Folded()
    for event in events:
        fold.push(event)
    renewed = [
        (change.group, change.offset, change.changed_ms // 1_000) for kind, change in fold.changes if kind == "RENEWED"
    ]
    assert renewed == [
        ("grpc-fifo", 67, 60), ("grpc-fifo", 67, 180), ("grpc-fifo", 101, 60), ("grpc-fifo", 101, 180),
        ("grpc-fifo", 101, 300), ("grpc-push", 278, 60), ("grpc-push", 278, 180), ("grpc-push", 278, 300),
    ]  # fmt: skip
    assert {kind for kind, change in fold.changes if change.group in {POP_GROUP, "pop-max"}} == {"REFUSED"}


def test_a_blocked_queue_has_a_message_that_is_held_since_its_first_pop(events):
    fold, since = Folded(), {}
    for event in events:
        fold.push(event)
        queue = fold.queues.get(("grpc-fifo", "FifoOrders", 1))
        if queue is not None and queue.held:
            since.setdefault(min(queue.held), []).append((event.time, popped.in_flight_since(queue)))
    began, ended = since[67][0], since[67][-1]
    assert began[1] == ended[1]
    assert 0 <= began[1] - FIRST_FAULT <= 1_000
    assert ended[0] - began[1] > 220_000  # the poison message blocked it until it went to the dead letters


def test_the_state_stays_small(events):
    fold, ranges, most = Folded(), 0, 0
    for event in events:
        fold.push(event)
        ranges = max([ranges, *(len(queue.unacked) for queue in fold.queues.values())])
        if isinstance(event, ConsumeStats):
            most = max([most, *(len(msgspec.msgpack.encode(queue)) for queue in fold.queues.values())])
    assert 0 < ranges <= RANGES_MAX
    assert 0 < most <= AT_REST_BYTES


def test_polls_alone_tell_of_fifo_of_full_clients_and_of_groups_without_clients(events):
    """Each within its time after the fault, never before it, and nothing that no fault explains."""
    found = folded(numbered([event for event in events if event.source == "poll"]))
    opened = [e for e in found if isinstance(e, IncidentTransition) and e.transition == "OPENED" and not e.absorbed]
    assert [(e.code, e.sub_cause, e.group, e.subject) for e in opened] == [
        ("ORDERED_QUEUE_STUCK", "POP_BLOCKED", "grpc-fifo", "FifoOrders@broker-a:1"),
        ("ORDERED_QUEUE_STUCK", "POP_BLOCKED", "grpc-fifo", "FifoOrders@broker-a:2"),
        ("POP_STOPPED", "FULL", POP_GROUP, "127.0.0.1@pop-2"),
        ("CLIENT_UNRESPONSIVE", "", POP_GROUP, "127.0.0.1@pop-2"),
        ("NO_ACTIVE_CLIENTS_WITH_LAG", "NOT_POPPED", "grpc-simple", ""),
        *(("ORDERED_QUEUE_STUCK", "POP_BLOCKED", "grpc-fifo", f"FifoOrders@broker-a:{queue}") for queue in range(4)),
    ]
    faults = {"08:43:21": 67, "08:44:31": 67, "08:45:31": 67, "08:48:16": 22, "08:50:16": 85, "08:54:03": 85}
    delays = [e.time // 1_000 - _seconds(at) for e, at in zip(opened, faults, strict=False)]
    assert all(0 < delay <= within for delay, within in zip(delays, faults.values(), strict=False)), delays


def test_a_group_that_pops_is_not_well_by_its_hook_alone(events):
    """What its clients have not acknowledged is in no call: unknown is never green."""
    found = folded([event for event in events if event.source == "hook"])
    of_group = [e for e in found if isinstance(e, GroupSnapshot) and e.group == POP_GROUP and e.time > FIRST_FAULT]
    reason = "its clients pop, and only polls show what they have not acknowledged"
    assert {e.health_reason for e in of_group if e.health == "UNKNOWN"} == {reason}
    assert "OK" not in {e.health for e in of_group}


def _seconds(clock):
    """Return epoch seconds of a time of day of the recording."""
    hour, minute, second = map(int, clock.split(":"))
    return FIRST_FAULT // 1_000 - (8 * 3_600 + 43 * 60 + 21) + hour * 3_600 + minute * 60 + second


def test_calls_about_popped_messages_open_and_change_no_incident_yet(events):
    without = folded(numbered([event for event in events if type(event) not in UNUSED]))
    opened = incidents(without)
    assert opened
    assert incidents(folded(events)) == opened


def incidents(effects):
    return [(e.time, e.code, e.sub_cause, e.transition) for e in effects if isinstance(e, IncidentTransition)]


def numbered(events):
    """Return the events as sources report them that report no others: no number is missing."""
    numbers = Counter()
    for event in events:
        numbers[event.source_id, key_of(event)] += 1
        yield msgspec.structs.replace(event, seq=numbers[event.source_id, key_of(event)])
