"""Record the calls of consumers that pop, and what came back. Times are true epoch milliseconds."""

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from rebalance_model.entities import MessageQueue
from simulation.broker import Broker
from simulation.cluster import SimulatedCluster
from simulation.network import SimulatedChannel
from simulation.pop.receipts import RENEW_AHEAD, RENEWALS
from simulation.popped import Delivered, End, Handle, Pop
from simulation.rocketmq.client.pull_flow_control import Pull

Member = tuple[str, str]
"""A group and the name of a process; of a proxy's calls the name of its connection."""
REJECTED_FROM = 60_000
"""A message that is refused for so long has been refused before."""
MINUTE = 60_000
AGAIN_WITHIN = 150_000
"""Messages come back again and again if one comes within this time of the one before; 20 s more than the rule's."""


@dataclass
class Calls:
    """The calls of one member."""

    since: int
    """When the first of them came."""
    pops: deque[int] = field(default_factory=lambda: deque(maxlen=1_000))
    """When its POPs came that were not refused."""
    refused_since: int = 0
    """When the first of its refused POPs came since one that was not."""
    finished_at: int = 0
    """When it last acknowledged or refused a message."""

    def pops_within(self, now: int, time: int) -> int:
        """Return how many POPs came within the last so many milliseconds."""
        return sum(now - at <= time for at in self.pops)

    @property
    def popped_at(self) -> int:
        """Return when its last POP came; 0: none has."""
        return self.pops[-1] if self.pops else 0


@dataclass
class Returned:
    """A message that came back as nobody acknowledged it in time."""

    at: int
    delivered: Delivered
    invisible_ms: int
    known_at: int | None = None
    """When a hook knows: a message above it was acknowledged, and all that was popped with that one has come back."""


@dataclass
class Finished:
    """An ack or a change at a queue."""

    at: int
    offset: int
    pop_time: int
    """True time."""


@dataclass
class PopRecorder:
    """The POP calls that hooks of the cluster's brokers would see, if none of them failed."""

    cluster: SimulatedCluster
    calls: dict[Member, Calls] = field(default_factory=dict)
    targets: dict[Member, dict[tuple[str, str, int], int]] = field(default_factory=lambda: defaultdict(dict))
    """What each member pops: broker, topic and queue; and when it last did."""
    popped_at: dict[tuple[str, str], int] = field(default_factory=dict)
    """By group and topic."""
    pulled_at: dict[tuple[str, str], int] = field(default_factory=dict)
    rejected_at: dict[str, int] = field(default_factory=dict)
    """By group: when a message was refused for long."""
    refused: set[tuple[str, MessageQueue, int]] = field(default_factory=set)
    """The messages that were refused, by group, queue and offset."""
    renewed: set[tuple[str, MessageQueue, int]] = field(default_factory=set)
    returned: dict[str, list[Returned]] = field(default_factory=lambda: defaultdict(list))
    """By group."""
    comes_back: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By group, since when messages have come back again and again, refused ones too, and when the last one did."""
    finished: dict[tuple[str, MessageQueue], list[Finished]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for broker in self.cluster.brokers.values():
            self._record(broker)
        deliveries = self.cluster.world.deliveries
        end = deliveries.end

        def record_end(now: int, group: str, queue: MessageQueue, offset: int, how: End) -> None:
            delivered = deliveries.live.get((group, queue), {}).get(offset)
            end(now, group, queue, offset, how)
            if how == "RETURNED":
                since, last = self.comes_back.get(group, (now, now))
                self.comes_back[group] = (since if now - last <= AGAIN_WITHIN else now), now
            if delivered is not None and how == "RETURNED" and (group, queue, offset) not in self.refused:
                is_fifo = self.cluster.groups[group].pops == "FIFO"
                if not is_fifo:
                    self.returned[group].append(Returned(now, delivered, self._invisible(group)))

        deliveries.end = record_end  # type: ignore[method-assign]

    def is_hooked(self, broker: str, since: int, last_down: int) -> bool:
        """Return whether a hook has reported everything from a time on."""
        return broker in self.cluster.brokers and since > last_down

    def update(self) -> None:
        """Find what a hook knows by now; once a sample."""
        for group, returned in self.returned.items():
            for one in returned:
                if one.known_at is None or one.known_at > self._now:
                    self._find_known(group, one)

    def _find_known(self, group: str, message: Returned) -> None:
        above = [f for f in self.finished[group, message.delivered.queue] if f.offset > message.delivered.offset]
        if above:
            popped_by = min(f.pop_time for f in above)
            message.known_at = max(min(f.at for f in above), popped_by + message.invisible_ms + 5_000)

    def _invisible(self, group: str) -> int:
        spec = self.cluster.groups[group]
        return 60_000 if spec.pops == "PUSH" else spec.invisible_ms

    @property
    def _now(self) -> int:
        return self.cluster.world.true_ms

    def _record(self, broker: Broker) -> None:
        hook = broker.hook
        pop, ack, change, pull = (
            hook.pop_message,
            hook.ack_message,
            hook.change_message_invisibletime,
            hook.pull_message,
        )

        def pop_message(channel: SimulatedChannel, request: Pop, code: int | None) -> None:
            self._on_pop(broker.name, channel, request, code)
            pop(channel, request, code)

        def ack_message(channel: SimulatedChannel, group: str, handle: Handle) -> None:
            self._on_finish(broker, channel, group, handle)
            ack(channel, group, handle)

        def change_message(channel: SimulatedChannel, group: str, handle: Handle, changed_ms: int) -> None:
            self._on_change(broker, channel, group, handle, changed_ms)
            change(channel, group, handle, changed_ms)

        def pull_message(
            channel: SimulatedChannel, group: str, queue: MessageQueue, request: Pull, code: int | None
        ) -> None:
            self.pulled_at[group, queue.topic] = self._now
            pull(channel, group, queue, request, code)

        _set(hook, pop_message=pop_message, ack_message=ack_message, pull_message=pull_message)
        _set(hook, change_message_invisibletime=change_message)

    def _calls(self, channel: SimulatedChannel, group: str) -> Calls:
        return self.calls.setdefault((group, channel.client.name), Calls(self._now))

    def _on_pop(self, broker: str, channel: SimulatedChannel, pop: Pop, code: int | None) -> None:
        calls = self._calls(channel, pop.group)
        if code is not None:
            calls.refused_since = calls.refused_since or self._now
            return
        calls.refused_since = 0
        calls.pops.append(self._now)
        self.popped_at[pop.group, pop.topic] = self._now
        self.targets[pop.group, channel.client.name][broker, pop.topic, pop.queue_id] = self._now

    def _on_finish(self, broker: Broker, channel: SimulatedChannel, group: str, handle: Handle) -> None:
        self._calls(channel, group).finished_at = self._now
        popped = broker.clock.true_time(handle.pop_time) // 1_000
        self.finished[group, handle.queue].append(Finished(self._now, handle.offset, popped))

    def _on_change(
        self, broker: Broker, channel: SimulatedChannel, group: str, handle: Handle, changed_ms: int
    ) -> None:
        left = handle.pop_time + handle.invisible_ms - broker.clock.now()
        key = group, handle.queue, handle.offset
        if "#" in channel.client.name and changed_ms in RENEWALS and left <= RENEW_AHEAD + 500:
            self.renewed.add(key)
            popped = broker.clock.true_time(handle.pop_time) // 1_000
            self.finished[group, handle.queue].append(Finished(self._now, handle.offset, popped))
            return
        self._on_finish(broker, channel, group, handle)
        self.refused.add(key)
        if changed_ms >= REJECTED_FROM and handle.queue.is_retry and not handle.order:
            self.rejected_at[group] = self._now


def _set(hook: object, **methods: Callable[..., None]) -> None:
    for name, method in methods.items():
        setattr(hook, name, method)
