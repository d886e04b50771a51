"""The messages that a client has of one queue (org.apache.rocketmq.client.impl.consumer.ProcessQueue).

Only a client itself knows them: the simulation runs on this part, an observer has `ProcessQueue` alone.

The counters are Java's, including their defects: an offset put a second time is not counted, a removed one subtracts
the size of the message that was passed, and a message put back by `make_message_to_consume_again` is counted whether it
was held before or not. So `msg_count` can differ from the number of messages in the two maps, and flow control reads
the counter. Offsets and sizes are below 2**62: the 64-bit overflow of Java is not imitated.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from rebalance_model.client import ProcessQueue
from rebalance_model.errors import ModelError
from simulation.rocketmq.client.consume_lock import ConsumeLock

MIB = 1024 * 1024


@dataclass(slots=True, eq=False)
class Message:
    """The modelled fields of a MessageExt; compared by identity, as in Java."""

    queue_offset: int
    body_size: int = 0
    """Bytes; a message without a body has 0."""
    max_offset: int | None = None
    """The broker's newest offset when it was pulled (property MAX_OFFSET)."""
    reconsume_times: int = 0
    consume_start: int | None = None
    """When its listener was last called (property CONSUME_START_TIME); milliseconds."""


class NothingConsumingError(ModelError, LookupError):
    """Raised by `commit` without taken messages: Java's NoSuchElementException, which precedes its null check."""


class ProcessQueueInfo(msgspec.Struct, frozen=True):
    """The state of a process queue in GET_CONSUMER_RUNNING_INFO, without the committed offset."""

    cached_msg_min_offset: int
    cached_msg_max_offset: int
    cached_msg_count: int
    cached_msg_size_in_mib: int
    transaction_msg_min_offset: int
    transaction_msg_max_offset: int
    transaction_msg_count: int
    locked: bool
    try_unlock_times: int
    last_lock_timestamp: int
    dropped: bool
    last_pull_timestamp: int
    last_consume_timestamp: int


class _TreeMap:
    """Messages ordered by offset (java.util.TreeMap)."""

    __slots__ = ("_messages", "offsets")

    def __init__(self) -> None:
        self._messages: dict[int, Message] = {}
        self.offsets: list[int] = []

    def __len__(self) -> int:
        return len(self.offsets)

    def __contains__(self, offset: int) -> bool:
        return offset in self._messages

    def __iter__(self) -> Iterator[Message]:
        return map(self._messages.__getitem__, self.offsets)

    def put(self, message: Message) -> bool:
        """Store a message, replacing one with the same offset; return whether the offset is new."""
        new = message.queue_offset not in self._messages
        if new:
            insort(self.offsets, message.queue_offset)
        self._messages[message.queue_offset] = message
        return new

    def remove(self, offset: int) -> bool:
        if offset not in self._messages:
            return False
        del self._messages[offset]
        del self.offsets[bisect_left(self.offsets, offset)]
        return True

    def take(self, count: int) -> list[Message]:
        """Remove the first messages."""
        taken = [self._messages.pop(offset) for offset in self.offsets[:count]]
        del self.offsets[:count]
        return taken

    def clear(self) -> None:
        self._messages.clear()
        self.offsets.clear()


class CachingProcessQueue(ProcessQueue, eq=False):
    """A process queue with the messages that were pulled and are not yet consumed.

    Make one with `CachingProcessQueue.created(now)`.
    """

    last_pull_timestamp: int
    last_consume_timestamp: int
    last_lock_timestamp: int
    locked: bool = False
    dropped: bool = False
    try_unlock_times: int = 0
    consuming: bool = False
    """A consume request is submitted or running. Only the ordered service reads it; for a concurrent consumer it is set
    at the first message and stays set."""
    queue_offset_max: int = 0
    """The offset inserted last, not the largest."""
    msg_count: int = 0
    msg_size: int = 0
    """Bytes."""
    msg_acc_cnt: int = 0
    """The number of messages by which the broker was ahead of the last pulled message; never falls to 0."""
    consume_lock: ConsumeLock = msgspec.field(default_factory=ConsumeLock)
    msg_tree_map: _TreeMap = msgspec.field(default_factory=_TreeMap)
    consuming_msg_orderly_tree_map: _TreeMap = msgspec.field(default_factory=_TreeMap)
    """Messages that an ordered listener has taken and not yet committed."""

    def put_message(self, messages: Sequence[Message]) -> bool:
        """Store pulled messages.

        Returns:
            Whether the ordered service must start consuming: there are messages, and no thread consumes them.
        """
        for message in messages:
            if self.msg_tree_map.put(message):
                self.msg_count += 1
                self.msg_size += message.body_size
                self.queue_offset_max = message.queue_offset
        dispatch_to_consume = len(self.msg_tree_map) > 0 and not self.consuming
        self.consuming |= dispatch_to_consume
        if messages and messages[-1].max_offset is not None:
            ahead = messages[-1].max_offset - messages[-1].queue_offset
            if ahead > 0:
                self.msg_acc_cnt = ahead
        return dispatch_to_consume

    def remove_message(self, messages: Iterable[Message], now: int) -> int:
        """Remove consumed messages.

        Returns:
            The offset to commit: the first one still held, else one past the last inserted; -1 if none was held.
        """
        self.last_consume_timestamp = now
        if not self.msg_tree_map:
            return -1
        for message in messages:
            if self.msg_tree_map.remove(message.queue_offset):
                self.msg_count -= 1
                self.msg_size -= message.body_size
        if self.msg_count == 0:
            self.msg_size = 0
        return self.msg_tree_map.offsets[0] if self.msg_tree_map else self.queue_offset_max + 1

    def take_messages(self, batch_size: int, now: int) -> list[Message]:
        """Take the first messages for ordered consumption; if there are none, consuming has ended.

        Raises:
            ValueError: a negative batch size (IllegalArgumentException).
        """
        if batch_size < 0:
            msg = f"Illegal Capacity: {batch_size}"
            raise ValueError(msg)
        self.last_consume_timestamp = now
        taken = self.msg_tree_map.take(batch_size)
        for message in taken:
            self.consuming_msg_orderly_tree_map.put(message)
        if not taken:
            self.consuming = False
        return taken

    def commit(self) -> int:
        """Mark all taken messages as consumed.

        Returns:
            The offset to commit.

        Raises:
            NothingConsumingError: none was taken.
        """
        consuming = self.consuming_msg_orderly_tree_map
        if not consuming:
            raise NothingConsumingError
        offset = consuming.offsets[-1] + 1
        self.msg_count -= len(consuming)
        self.msg_size = self.msg_size - sum(message.body_size for message in consuming) if self.msg_count else 0
        consuming.clear()
        return offset

    def rollback(self) -> None:
        """Put all taken messages back."""
        for message in self.consuming_msg_orderly_tree_map:
            self.msg_tree_map.put(message)
        self.consuming_msg_orderly_tree_map.clear()

    def make_message_to_consume_again(self, messages: Iterable[Message]) -> None:
        """Put messages back, whether or not they were taken here."""
        for message in messages:
            self.consuming_msg_orderly_tree_map.remove(message.queue_offset)
            self.msg_tree_map.put(message)

    def contains_message(self, message: Message) -> bool:
        """Return whether a message with that offset is cached."""
        return message.queue_offset in self.msg_tree_map

    @property
    def has_temp_message(self) -> bool:
        """Return whether messages are cached; taken messages are not counted."""
        return len(self.msg_tree_map) > 0

    @property
    def max_span(self) -> int:
        """Difference between the last and the first cached offset; 0 if there are no messages."""
        offsets = self.msg_tree_map.offsets
        return offsets[-1] - offsets[0] if offsets else 0

    @property
    def msg_size_in_mib(self) -> int:
        """Cached size in MiB by Java's division, which truncates towards zero; the counter can be negative."""
        return self.msg_size // MIB if self.msg_size >= 0 else -(-self.msg_size // MIB)

    def clear(self) -> None:
        """Remove all messages (reset by an operator); `consuming` and `msg_acc_cnt` are not changed."""
        self.msg_tree_map.clear()
        self.consuming_msg_orderly_tree_map.clear()
        self.msg_count = self.msg_size = self.queue_offset_max = 0

    def info(self) -> ProcessQueueInfo:
        """Return the state that GET_CONSUMER_RUNNING_INFO reports (fillProcessQueueInfo)."""
        cached, taken = self.msg_tree_map.offsets, self.consuming_msg_orderly_tree_map.offsets
        return ProcessQueueInfo(
            cached_msg_min_offset=cached[0] if cached else 0,
            cached_msg_max_offset=cached[-1] if cached else 0,
            cached_msg_count=len(cached),
            cached_msg_size_in_mib=self.msg_size_in_mib,
            transaction_msg_min_offset=taken[0] if taken else 0,
            transaction_msg_max_offset=taken[-1] if taken else 0,
            transaction_msg_count=len(taken),
            locked=self.locked,
            try_unlock_times=self.try_unlock_times,
            last_lock_timestamp=self.last_lock_timestamp,
            dropped=self.dropped,
            last_pull_timestamp=self.last_pull_timestamp,
            last_consume_timestamp=self.last_consume_timestamp,
        )
