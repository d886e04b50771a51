"""The fate of every popped message: when it was handed out, and how that ended. Times: true epoch milliseconds."""

from typing import Literal

from rebalance_model.entities import MessageQueue
from simulation.truth import Record

End = Literal["", "ACKED", "RETURNED"]


class Delivered(Record, kw_only=True, tag="DELIVERED"):
    """A broker handed a message out; from `begin` to `end` no other client gets it."""

    group: str
    channel: str
    """The channel on which it was popped."""
    queue: MessageQueue
    offset: int
    reconsume_times: int = 0
    ended: End = ""
    """True if it was acknowledged, or came back: in the retry topic, or in order in its own queue."""


class Deliveries:
    """Records the deliveries of one cluster, and knows what is in flight."""

    def __init__(self) -> None:
        self.records: list[Delivered] = []
        self.live: dict[tuple[str, MessageQueue], dict[int, Delivered]] = {}
        """By group and queue, and by offset."""

    def begin(self, delivered: Delivered) -> None:
        """Record that a message is handed out; of one in order, again."""
        live = self.live.setdefault((delivered.group, delivered.queue), {})
        self.records.append(delivered)
        live[delivered.offset] = delivered

    def end(self, now: int, group: str, queue: MessageQueue, offset: int, how: End) -> None:
        """Record how a delivery ended."""
        delivered = self.live.get((group, queue), {}).pop(offset, None)
        if delivered is not None:
            delivered.end, delivered.ended = now, how

    def in_flight(self, group: str, queue: MessageQueue) -> int:
        """Return how many messages of a queue are handed out, and neither acknowledged nor given back."""
        return len(self.live.get((group, queue), ()))
