"""A consumer's offset of each queue: in memory, backed by a broker or a file (OffsetStore).

`read_offset` returns a different negative number for each reason to have no offset, and `pull_offset` depends on it.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from rebalance_model.dialect import RELEASE_5, Dialect
from rebalance_model.entities import MessageQueue
from simulation.rocketmq.client.host import BrokerError, Brokers, OffsetNotFoundError, RefusedError
from simulation.rocketmq.client.offset_file import OffsetFile, OffsetFileError

NO_OFFSET = -1
"""The store has no offset yet."""
UNKNOWN_OFFSET = -2
"""The offset could not be read."""


class ReadOffsetType(Enum):
    """The store to read: memory, the broker or file, or memory first."""

    READ_FROM_MEMORY = auto()
    READ_FROM_STORE = auto()
    MEMORY_FIRST_THEN_STORE = auto()


class OffsetStore(Protocol):
    """Offsets of one consumer (org.apache.rocketmq.client.consumer.store.OffsetStore)."""

    def update_offset(self, queue: MessageQueue, offset: int, *, increase_only: bool) -> None:
        """Record progress in memory; a frozen offset is not changed."""

    def update_and_freeze_offset(self, queue: MessageQueue, offset: int) -> None:
        """Record an offset that `update_offset` does not change until it is removed."""

    async def read_offset(self, queue: MessageQueue, kind: ReadOffsetType) -> int:
        """Return the offset, NO_OFFSET or UNKNOWN_OFFSET; an offset read from the store is cached in memory."""

    def persist(self, queue: MessageQueue) -> None:
        """Commit one queue's offset, if it is in memory."""

    def persist_all(self, queues: AbstractSet[MessageQueue]) -> None:
        """Commit the offsets of these queues; do nothing for an empty set."""

    def remove_offset(self, queue: MessageQueue) -> None:
        """Remove the offset from memory, frozen or not."""

    def clone_offset_table(self, topic: str | None) -> dict[MessageQueue, int]:
        """Return the offsets in memory, of one topic or of all (None)."""


@dataclass(slots=True)
class _ControllableOffset:
    """An offset that can be frozen (ControllableOffset)."""

    value: int
    frozen: bool = False

    def update(self, target: int, *, increase_only: bool) -> None:
        if not self.frozen:
            self.value = max(self.value, target) if increase_only else target


class _Memory:
    """The offsets in memory, the same for both stores."""

    def __init__(self) -> None:
        self._offset_table: dict[MessageQueue, _ControllableOffset] = {}

    def update_offset(self, queue: MessageQueue, offset: int, *, increase_only: bool) -> None:
        known = self._offset_table.setdefault(queue, _ControllableOffset(offset))
        known.update(offset, increase_only=increase_only)

    def update_and_freeze_offset(self, queue: MessageQueue, offset: int) -> None:
        self._offset_table[queue] = _ControllableOffset(offset, frozen=True)

    def remove_offset(self, queue: MessageQueue) -> None:
        self._offset_table.pop(queue, None)

    def clone_offset_table(self, topic: str | None) -> dict[MessageQueue, int]:
        wanted = topic if topic is not None and topic.strip() else None  # UtilAll.isBlank
        return {mq: offset.value for mq, offset in self._offset_table.items() if wanted in (None, mq.topic)}

    def _in_memory(self, queue: MessageQueue, kind: ReadOffsetType) -> int | None:
        """Return the offset in memory, or None if the store must be read."""
        offset = self._offset_table.get(queue)
        if kind is ReadOffsetType.READ_FROM_STORE or (
            offset is None and kind is ReadOffsetType.MEMORY_FIRST_THEN_STORE
        ):
            return None
        return NO_OFFSET if offset is None else offset.value


class RemoteBrokerOffsetStore(_Memory):
    """Offsets stored on the broker: CLUSTERING (RemoteBrokerOffsetStore)."""

    def __init__(self, brokers: Brokers, group: str, dialect: Dialect = RELEASE_5) -> None:
        super().__init__()
        self._brokers = brokers
        self._group = group
        self._no_offset = RefusedError if dialect.broker_error_is_no_offset else OffsetNotFoundError

    async def read_offset(self, queue: MessageQueue, kind: ReadOffsetType) -> int:
        """Return the offset, NO_OFFSET if the broker has none, or UNKNOWN_OFFSET if the request failed."""
        remembered = self._in_memory(queue, kind)
        if remembered is not None:
            return remembered
        try:
            offset = await self._brokers.query_consumer_offset(self._group, queue)
        except self._no_offset:
            return NO_OFFSET
        except BrokerError:
            return UNKNOWN_OFFSET
        self.update_offset(queue, offset, increase_only=False)
        return offset

    def persist(self, queue: MessageQueue) -> None:
        """Commit one-way; the next commit replaces one that is lost."""
        known = self._offset_table.get(queue)
        if known is not None:
            self._brokers.update_consumer_offset(self._group, queue, known.value)

    def persist_all(self, queues: AbstractSet[MessageQueue]) -> None:
        """Commit these offsets and remove those of other queues unsent; do nothing for an empty set."""
        if not queues:
            return
        for queue in list(self._offset_table):
            if queue in queues:
                self.persist(queue)
            else:
                self.remove_offset(queue)


class LocalFileOffsetStore(_Memory):
    """Offsets stored in a file of the client: BROADCASTING (LocalFileOffsetStore)."""

    def __init__(self, file: OffsetFile) -> None:
        super().__init__()
        self._file = file

    def load(self) -> None:
        """Load the file's offsets when the consumer starts.

        Raises:
            OffsetFileError: neither the file nor its backup can be read.
        """
        for queue, offset in self._file.read().items():
            self._offset_table[queue] = _ControllableOffset(offset)

    async def read_offset(self, queue: MessageQueue, kind: ReadOffsetType) -> int:
        """Return the offset, or NO_OFFSET if there is none or the file can't be read."""
        remembered = self._in_memory(queue, kind)
        if remembered is not None:
            return remembered
        try:
            offset = self._file.read().get(queue)
        except OffsetFileError:
            return NO_OFFSET
        if offset is None:
            return NO_OFFSET
        self.update_offset(queue, offset, increase_only=False)
        return offset

    def persist(self, queue: MessageQueue) -> None:
        """Write one offset to the file; a file that can't be read is not changed."""
        if queue in self._offset_table:
            self._write({queue})

    def persist_all(self, queues: AbstractSet[MessageQueue]) -> None:
        """Write these offsets to the file, beside its others; do nothing for an empty set."""
        if queues:
            self._write(queues)

    def _write(self, queues: AbstractSet[MessageQueue]) -> None:
        try:
            offsets = self._file.read()
        except OffsetFileError:
            return
        offsets.update((mq, known.value) for mq, known in self._offset_table.items() if mq in queues)
        self._file.write(offsets)
