"""Popped messages: what is sent about them, the block of a queue that is popped in order, and what became of each.

Messages go between clients, proxies and brokers, to pop a message and to finish it. The batch that was handed out of a
queue in order (ConsumerOrderInfoManager, OrderInfo) blocks it until each of its messages is acknowledged, or invisible
no longer. Times of the truth are true epoch milliseconds.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from rebalance_model.entities import RETRY_TOPIC_PREFIX, MessageQueue
from simulation.truth import Record


class Origin(NamedTuple):
    """The message that a producer sent, whatever queue it is in now."""

    queue: MessageQueue
    offset: int


class Handle(NamedTuple):
    """One delivery of a message, as calls about it repeat it (extraInfo)."""

    queue: MessageQueue
    offset: int
    pop_time: int
    """When it was popped, or last changed if not in order; epoch milliseconds by the broker's clock."""
    invisible_ms: int
    """The time that no other client gets it after that."""
    order: bool
    """True if it was popped in order (reviveQid 999)."""


class PoppedMessage(NamedTuple):
    """A message as a client gets it."""

    handle: Handle
    origin: Origin
    reconsume_times: int
    """The number of times that it came back before."""


class Pop(NamedTuple):
    """POP_MESSAGE."""

    group: str
    topic: str
    queue_id: int
    """-1: all queues of the broker."""
    max_messages: int
    invisible_ms: int
    poll_ms: int
    """The longest time that it may wait for a message."""
    born: int
    """When it was sent, by the clock of the client; a proxy leaves it to the broker. Epoch milliseconds."""
    order: bool = False


class ProxiedHeartbeat(NamedTuple):
    """A heartbeat of a proxy's client that the proxy copies to the others, or its end (HeartbeatSyncerData)."""

    group: str
    client_id: str
    proxy: str
    registers: bool
    topics: tuple[str, ...] = ()
    pushes: bool = True
    """True if it is a push consumer; a simple one receives when its application does."""


def retry_topic(group: str, topic: str) -> str:
    """Return the topic to which an unacknowledged message goes (KeyBuilder.buildPopRetryTopic, version 1)."""
    return topic if topic.startswith(RETRY_TOPIC_PREFIX) else f"{RETRY_TOPIC_PREFIX}{group}_{topic}"


@dataclass(slots=True)
class OrderInfo:
    """The batch of one group's queue that was handed out last; times are epoch milliseconds by the broker's clock."""

    pop_time: int
    visible_at: dict[int, int] = field(default_factory=dict)
    """By offset of a message that is not acknowledged: when it may be handed out again."""
    end: int = 0
    """The offset after the batch."""

    def blocked_until(self) -> int:
        """Return when the queue may be popped again; 0: at once."""
        return max(self.visible_at.values(), default=0)

    def acknowledge(self, offset: int, pop_time: int) -> int | None:
        """Acknowledge a message (commitAndNext).

        Returns:
            The offset to commit; None if the ack has no effect, as of another delivery than the newest.
        """
        if pop_time != self.pop_time or offset not in self.visible_at:
            return None
        del self.visible_at[offset]
        return min(self.visible_at, default=self.end)

    def change(self, offset: int, pop_time: int, visible_at: int) -> bool:
        """Set when a message may be handed out again (updateNextVisibleTime); return whether it had an effect."""
        if pop_time != self.pop_time or offset not in self.visible_at:
            return False
        self.visible_at[offset] = visible_at
        return True


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
