"""Messages between clients, proxies and brokers, to pop a message and to finish it."""

from typing import NamedTuple

from rebalance_model.entities import RETRY_TOPIC_PREFIX, MessageQueue


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
