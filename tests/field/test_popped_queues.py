"""A recording of POP and gRPC consumers with faults: what is in flight, beside what the clients themselves say.

`lab/pop.tar.xz` is of 2026-11-22: RocketMQ 5.4.0, one broker with file-based POP, a proxy in cluster mode, and the
consumers' own log. `tests/support/pop_recording.py` makes today's events of it.
"""

from collections import Counter, defaultdict

import msgspec
import pytest

from rebalance_model.observe.effects import GroupSnapshot, IncidentTransition
from rebalance_model.observe.events import (
    AckMessage,
    ChangeMessageInvisibletime,
    ConsumerRunningInfo,
    ConsumeStats,
    GroupEvent,
    HeartBeat,
    PopMessage,
    ProxyConnection,
    key_of,
)
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.progress import ProgressState, observe
from rebalance_model.observe.state import popped
from rebalance_model.observe.state.popped import PoppedQueue
from tests.support import pop_recording
from tests.support.folding import Fold, folded
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


@pytest.fixture(scope="module")
def whole(events):
    """The conclusions from all of it, which several tests judge; never changed."""
    return folded(events)


@pytest.fixture(scope="module")
def by_hook(events):
    return folded(numbered([event for event in events if event.source == "hook"]))


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
    fold, waiting, counts = Folded(), {}, []
    for event in events:
        fold.push(event)
        if isinstance(event, ConsumeStats) and event.group == POP_GROUP:
            counts.append((event.time, fold.in_flight(POP_GROUP) + fold.returned[POP_GROUP], waiting := {}))
        if isinstance(event, ConsumerRunningInfo) and event.queues is not None:
            waiting[event.client_id] = sum(queue.wait_ack_count for queue in event.pop_queues)
    of_clients = {at: (mine, sum(theirs.values())) for at, mine, theirs in counts if HANG[0] < at < HANG[1]}
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
        if queue is not None and queue.held_messages:
            since.setdefault(min(queue.held_messages), []).append((event.time, popped.in_flight_since(queue)))
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


def test_polls_alone_show_fifo_full_clients_returns_and_empty_groups(events):
    """Each within its time after the fault, never before it, and nothing that no fault explains."""
    found = folded(numbered([event for event in events if event.source == "poll"]))
    opened = [e for e in found if isinstance(e, IncidentTransition) and e.transition == "OPENED" and not e.absorbed]
    assert [(e.code, e.sub_cause, e.group, e.subject) for e in opened] == [
        ("ORDERED_QUEUE_STUCK", "POP_BLOCKED", "grpc-fifo", "FifoOrders@broker-a:1"),
        ("ORDERED_QUEUE_STUCK", "POP_BLOCKED", "grpc-fifo", "FifoOrders@broker-a:2"),
        ("POP_RETURNED", "UNDETERMINED", POP_GROUP, ""),
        ("POP_RETURNED", "UNDETERMINED", "grpc-simple", ""),
        ("POP_STOPPED", "FULL", POP_GROUP, "127.0.0.1@pop-2"),
        ("CLIENT_UNRESPONSIVE", "", POP_GROUP, "127.0.0.1@pop-2"),
        ("NO_ACTIVE_CLIENTS_WITH_LAG", "NOT_POPPED", "grpc-simple", ""),
        *(("ORDERED_QUEUE_STUCK", "POP_BLOCKED", "grpc-fifo", f"FifoOrders@broker-a:{queue}") for queue in range(4)),
    ]
    faults = [("08:43:21", 67), ("08:44:31", 67), ("08:43:21", 180), ("08:43:21", 180), ("08:45:31", 67)]
    faults += [("08:48:16", 22), ("08:50:16", 85), ("08:54:03", 85)]
    delays = [e.time // 1_000 - _seconds(at) for e, (at, _) in zip(opened, faults, strict=False)]
    assert all(0 < delay <= within for delay, (_, within) in zip(delays, faults, strict=False)), delays


def test_polls_of_the_proxy_show_who_consumes_and_when_the_last_left(recording):
    """A client that is killed stays in the proxy's list for two minutes: until then nothing is taken from the queues.

    Of polls alone: what the broker's answers tell without the proxy is the same.
    """
    polled = sorted(pop_recording.poll_events(recording, proxies=True), key=lambda event: event.time)
    conclusions = folded(numbered(polled))
    named = [
        e for e in conclusions if isinstance(e, IncidentTransition) and not e.absorbed and e.transition != "RESOLVED"
    ]
    assert [(_clock(e.time), e.transition, e.sub_cause, e.group) for e in named if e.code == NOBODY] == [
        ("08:51:28", "OPENED", "NOT_POPPED", "grpc-simple"),
        ("08:52:38", "RECLASSIFIED", "", "grpc-simple"),  # the proxy has dropped the killed client
        ("08:55:08", "OPENED", "", "grpc-fifo"),  # 65 s after its last client left
    ]
    alone = folded(numbered([event for event in polled if not isinstance(event, ProxyConnection)]))
    assert _opened(conclusions) - _opened(alone) == {(NOBODY, "", "grpc-fifo", "")}
    assert _opened(alone) - _opened(conclusions) == set()
    rows = [e for e in conclusions if isinstance(e, GroupSnapshot) and e.proxied_clients]
    assert {(e.group, e.health) for e in rows if e.time < FIRST_FAULT} == {("grpc-fifo", "OK"), ("grpc-simple", "OK")}
    assert {one for e in rows for one in e.proxied_clients} == {
        "vm@2775@0@1wmp84h52", "vm@2987@0@1wp29uz7r", "vm@2988@0@1woztfvyp",
    }  # fmt: skip


def test_with_hook_and_proxy_each_fault_is_what_it_is_without_the_proxy(events, recording, whole):
    hooked = [event for event in events if event.source == "hook"]
    polled = pop_recording.poll_events(recording, proxies=True)
    both = folded(numbered(sorted([*hooked, *polled], key=lambda event: event.time)))
    assert _opened(both) == _opened(whole)


def _opened(conclusions):
    transitions = [e for e in conclusions if isinstance(e, IncidentTransition) and e.transition == "OPENED"]
    return {(e.code, e.sub_cause, e.group, e.subject) for e in transitions}


def _clock(ms):
    """Return the time of day of an instant of the recording."""
    seconds = ms // 1_000 % 86_400
    return f"{seconds // 3_600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


NOBODY = "NO_ACTIVE_CLIENTS_WITH_LAG"
FAULTS = [
    ("08:43:21", 26, "POP_RETURNED", "EXPIRED", "grpc-simple", ""),
    ("08:43:21", 60, "ORDERED_QUEUE_STUCK", "POP_BLOCKED", "grpc-fifo", "FifoOrders@broker-a:1"),
    ("08:43:21", 45, "POP_RETURNED", "REJECTED", POP_GROUP, ""),
    ("08:44:31", 60, "ORDERED_QUEUE_STUCK", "POP_BLOCKED", "grpc-fifo", "FifoOrders@broker-a:2"),
    ("08:44:31", 26, "POP_RETURNED", "EXPIRED", POP_GROUP, ""),  # the same incident
    ("08:45:31", 61, "POP_NOT_ACKING", "", POP_GROUP, "127.0.0.1@pop-1"),
    ("08:45:31", 61, "POP_NOT_ACKING", "", POP_GROUP, "127.0.0.1@pop-2"),
    ("08:45:31", 71, "POP_STOPPED", None, POP_GROUP, "127.0.0.1@pop-2"),  # FULL by polls, after 67 s
    ("08:47:16", 29, "PROXY_CLIENT_GONE", "", "grpc-fifo", "vm@2775@0@1wmp84h52"),
    ("08:50:16", 25, "PROXY_CLIENT_GONE", "", "grpc-simple", "vm@2988@0@1woztfvyp"),
    ("08:50:32", 57, "POP_RETURNED", "REJECTED", "grpc-push", ""),
    ("08:50:32", 60, "POP_HELD_LONG", "", "grpc-push", "GrpcOrders@broker-a:2"),
    ("08:53:20", 21, "POP_STOPPED", "", "pop-max", "127.0.0.1@max-1"),  # it starts with listeners that hang
    ("08:53:20", 30, "POP_RETURNED", "EXPIRED", "pop-max", ""),
    ("08:55:50", 20, "POP_STOPPED", "", POP_GROUP, "127.0.0.1@pop-3"),
    ("08:57:51", 42, "MIXED_REQUEST_MODE", "", "pop-max", ""),
]
"""By a hook: when the fault began, after how many seconds at most it is reported, and as what."""
WITH_POLLS = [
    ("08:48:16", 22, "CLIENT_UNRESPONSIVE", "", POP_GROUP, "127.0.0.1@pop-2"),
    ("08:50:16", 85, "NO_ACTIVE_CLIENTS_WITH_LAG", "NOT_POPPED", "grpc-simple", ""),
    ("08:54:03", 85, "NO_ACTIVE_CLIENTS_WITH_LAG", "", "grpc-fifo", ""),
]
EXPLAINED = {
    ("ORDERED_QUEUE_STUCK", "grpc-fifo"),  # what a client had that was killed or stuck, and what nobody consumes
    ("STALE_HEARTBEAT", POP_GROUP),  # pop-1 was killed, and pop-2 frozen
    ("POP_RETURNED", POP_GROUP),  # what these had
    ("POP_RETURNED", "grpc-push"),  # the same message, a minute later
    ("POP_RETURNED", "pop-max"),
    ("PROXY_CLIENT_GONE", "grpc-push"),  # the recording of heartbeats ends
    ("POP_STOPPED", POP_GROUP),  # pop-1 hangs, too
}
"""Further incidents that the faults cause."""


@pytest.mark.parametrize(("sources", "due"), [("by_hook", FAULTS), ("whole", FAULTS + WITH_POLLS)])
def test_each_fault_is_reported_in_time_and_nothing_before_it(request, sources, due):
    conclusions = request.getfixturevalue(sources)
    named = [e for e in conclusions if isinstance(e, IncidentTransition) and e.transition != "RESOLVED"]
    for at, within, code, sub_cause, group, subject in due:
        times = [
            e.time / 1_000 - _seconds(at)
            for e in named
            if (e.code, e.group, e.subject) == (code, group, subject) and sub_cause in (None, e.sub_cause)
        ]
        assert any(0 < delay <= within + 1 for delay in times), (at, code, group, times)
    assert min(e.time for e in named) > FIRST_FAULT
    expected = {(code, group) for _, _, code, _, group, _ in due} | EXPLAINED
    opened = [e for e in named if e.transition == "OPENED" and not e.absorbed]
    assert {(e.code, e.group) for e in opened} <= expected
    [simple] = [
        e.time / 1_000 - _seconds("08:43:47")
        for e in conclusions
        if isinstance(e, IncidentTransition) and e.code == "POP_RETURNED" and e.group == "grpc-simple"
        if e.transition == "RESOLVED"
    ][:1]
    if sources == "whole":
        assert simple > 400  # the retry topic, of which only answers show the last message, grows every 22 s
    else:
        assert 60 <= simple <= 62


def test_the_lag_of_popped_queues_is_what_clients_have_and_what_is_ready(events):
    """In the hang the broker's own lag is 0: the commit advances when a message is handed out."""
    states, waiting, lags = defaultdict(ProgressState), {}, []
    for event in events:
        rows = observe(states[event.group], event, Policy()) if isinstance(event, GroupEvent) else ()
        for row in rows:
            if row.kind == "CONSUME_STATS" and row.group == POP_GROUP and HANG[0] < row.time < HANG[1]:
                lags.append((row, sum(waiting.values())))
                waiting.clear()
        if isinstance(event, ConsumerRunningInfo) and event.queues is not None and event.group == POP_GROUP:
            waiting[event.client_id] = sum(queue.wait_ack_count for queue in event.pop_queues)
    row, _ = lags[2]
    assert sum(row.in_flight) == sum(row.lag) == 76
    assert set(row.ready) == {0}
    assert not any(row.lag_is_at_least)
    assert all(since is not None and row.time - since <= 20_100 for since in row.in_flight_since[1:])
    late = lags[-1][0]
    assert [lag - ready for lag, ready in zip(late.lag, late.ready, strict=True)] == list(late.in_flight)
    assert sum(late.ready) > 0


def test_by_its_hook_alone_a_group_behind_a_proxy_is_not_well(by_hook):
    """Messages that nobody has popped are in no call: unknown is never green."""
    of_group = [e for e in by_hook if isinstance(e, GroupSnapshot) and e.group == "grpc-push" and e.time > FIRST_FAULT]
    assert of_group
    assert "OK" not in {e.health for e in of_group}


def _seconds(clock):
    """Return epoch seconds of a time of day of the recording."""
    hour, minute, second = map(int, clock.split(":"))
    return FIRST_FAULT // 1_000 - (8 * 3_600 + 43 * 60 + 21) + hour * 3_600 + minute * 60 + second


def numbered(events):
    """Return the events as sources report them that report no others: no number is missing."""
    numbers = Counter()
    for event in events:
        numbers[event.source_id, key_of(event)] += 1
        yield msgspec.structs.replace(event, seq=numbers[event.source_id, key_of(event)])


def test_batches_may_be_cut_anywhere(events, whole):
    cut, effects = Fold(), []
    for number, event in enumerate(events):
        effects += cut.push(event)
        if number % 97 == 0:
            cut.cut()
    assert effects + cut.shard.finish() == whole
