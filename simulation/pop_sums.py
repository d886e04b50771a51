"""The sums of a hook: POPs and acks within a second, as `Sums.java` makes them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import AckMessage, PopMessage
from simulation.emitter import GroupStamp
from simulation.popped import Handle, Pop

Place = tuple[str, str, int]
"""Group, topic and queue id; of a POP that may be -1."""


@dataclass(slots=True)
class PopSum:
    """POPs of one group, channel and code, of one queue or of all of a topic."""

    channel: str
    code: int | None
    first_time: int
    last_time: int = 0
    count: int = 0
    last: Pop | None = None

    def event(self, stamp: GroupStamp, place: Place) -> PopMessage:
        """Return the sum as an event."""
        pop = self.last
        return PopMessage(
            **stamp,
            channel=self.channel,
            topic=place[1],
            queue_id=place[2],
            first_time=self.first_time,
            last_time=self.last_time,
            count=self.count,
            code=self.code,
            invisible_ms=0 if pop is None else pop.invisible_ms,
            poll_ms=0 if pop is None else pop.poll_ms,
            order=pop is not None and pop.order,
        )


@dataclass(slots=True)
class AckSum:
    """Acks of one group and channel, of one queue."""

    channel: str
    order: bool
    first_time: int
    last_time: int = 0
    offsets: set[int] = field(default_factory=set)
    pop_times: list[int] = field(default_factory=list)
    invisible_ms: int = 0

    def event(self, stamp: GroupStamp, place: Place) -> AckMessage:
        """Return the sum as an event."""
        return AckMessage(
            **stamp,
            channel=self.channel,
            topic=place[1],
            queue_id=place[2],
            first_time=self.first_time,
            last_time=self.last_time,
            code=0,
            order=self.order,
            ranges=tuple(_ranges(self.offsets)),
            pop_time_min=min(self.pop_times),
            pop_time_max=max(self.pop_times),
            invisible_ms=self.invisible_ms,
        )


class PopSums:
    """The open sums of one run of a hook."""

    def __init__(self) -> None:
        self._pops: dict[Place, dict[tuple[str, int | None], PopSum]] = {}
        self._acks: dict[Place, dict[tuple[str, bool], AckSum]] = {}

    def pop(self, now: int, channel: str, pop: Pop, code: int | None) -> None:
        """Add a POP; `now` is by the hook's clock, epoch milliseconds."""
        sums = self._pops.setdefault((pop.group, pop.topic, pop.queue_id), {})
        one = sums.setdefault((channel, code), PopSum(channel, code, now))
        one.last_time, one.count, one.last = now, one.count + 1, pop

    def ack(self, now: int, channel: str, group: str, handle: Handle) -> None:
        """Add an ack; `now` is by the hook's clock, epoch milliseconds."""
        sums = self._acks.setdefault((group, handle.queue.topic, handle.queue.queue_id), {})
        total = sums.setdefault((channel, handle.order), AckSum(channel, handle.order, now))
        total.last_time, total.invisible_ms = now, handle.invisible_ms
        total.offsets.add(handle.offset)
        total.pop_times.append(handle.pop_time)

    def places(self) -> list[Place]:
        """Return what there are open sums of."""
        return list(dict.fromkeys([*self._pops, *self._acks]))

    def close(self, place: Place) -> list[PopSum | AckSum]:
        """End the sums of a queue, and return them."""
        return [*self._pops.pop(place, {}).values(), *self._acks.pop(place, {}).values()]


def place_of(group: str, queue: MessageQueue) -> Place:
    """Return the place of a queue's sums."""
    return group, queue.topic, queue.queue_id


def _ranges(offsets: set[int]) -> Iterator[tuple[int, int]]:
    """Yield offsets as ranges, each with its first and its last offset."""
    first = last = -2
    for offset in sorted(offsets):
        if offset != last + 1:
            if first >= 0:
                yield first, last
            first = offset
        last = offset
    yield first, last
