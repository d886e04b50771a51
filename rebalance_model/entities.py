"""Values that every part of the model uses."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated

import msgspec

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
NATURAL_MAX = 2**53 - 1
"""The highest whole number that every reader of JSON knows exactly."""
Natural = Annotated[int, msgspec.Meta(ge=0, le=NATURAL_MAX)]
"""A count, duration (milliseconds) or id."""
TIME_MAX = 253_402_300_799_999
"""The end of the year 9999, epoch milliseconds: the last time that every reader of the tables knows."""
Time = Annotated[int, msgspec.Meta(ge=0, le=TIME_MAX)]
"""An instant, epoch milliseconds."""
NAME_CHARACTERS_MAX = 1_000
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
"""A topic, group, broker, cluster, source or client id. RocketMQ's clients refuse a topic of more than 127 characters
and a group of more than 255 (Validators), but a broker takes any from who writes its own client, and names are kept in
memory by the thousand."""

RETRY_TOPIC_PREFIX = "%RETRY%"
"""Every clustering push consumer subscribes ``%RETRY%<group>`` implicitly (MixAll.RETRY_GROUP_TOPIC_PREFIX)."""
DEAD_LETTER_TOPIC_PREFIX = "%DLQ%"
"""Messages that have used up their attempts go to ``%DLQ%<group>`` (MixAll.DLQ_GROUP_TOPIC_PREFIX)."""
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
"""Groups that RocketMQ makes for itself (MixAll.CID_RMQ_SYS_PREFIX)."""


def bounded(value: int) -> int:
    """Return a computed value, or the nearest that fits into the 64 bits of the state and of the tables."""
    return max(-INT64_MAX, min(value, INT64_MAX))


class MessageQueue(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """One queue of a topic on one broker (org.apache.rocketmq.common.message.MessageQueue)."""

    topic: Name
    """The topic."""
    broker: Name
    """The name of the broker."""
    queue_id: Natural
    """The number of the queue at its topic and broker, from 0."""

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker}:{self.queue_id}"

    @property
    def is_retry(self) -> bool:
        """Return whether the queue is one of a group's implicit retry topic."""
        return self.topic.startswith(RETRY_TOPIC_PREFIX)


def java_order(text: str) -> bytes:
    """Return the sort key that orders strings as Java's ``String.compareTo`` does: by UTF-16 code unit.

    Python compares code points, which differs where characters beyond the BMP meet U+E000..U+FFFF.
    """
    return text.encode("utf-16-be", "surrogatepass")


class JavaOrdered(tuple[str, ...]):
    """Strings that are sorted by `java_order`."""

    __slots__ = ()


def in_java_order(texts: Sequence[str]) -> JavaOrdered:
    """Return the strings as ``Collections.sort`` orders them.

    Recent results are cached, because each member of a group sorts the same ids.
    """
    return texts if isinstance(texts, JavaOrdered) else _in_java_order(tuple(texts))


@lru_cache(maxsize=64)
def _in_java_order(texts: tuple[str, ...]) -> JavaOrdered:
    return JavaOrdered(sorted(texts, key=java_order))


def queue_order(queue: MessageQueue) -> tuple[bytes, bytes, int]:
    """Return the sort key that orders queues as ``MessageQueue.compareTo`` does: topic, broker, queue id."""
    return java_order(queue.topic), java_order(queue.broker), queue.queue_id


def java_text(queue: MessageQueue) -> str:
    """Return ``MessageQueue.toString``, which CONSISTENT_HASH hashes byte for byte."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker}, queueId={queue.queue_id}]"
