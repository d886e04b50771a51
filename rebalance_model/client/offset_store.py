"""How far a consumer has come with each queue: in memory, and behind it a broker or a file (OffsetStore).

The number that `read_offset` gives for "no number" differs by reason, and `pull_offset` depends on it.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from rebalance_model.client.host import BrokerError, Brokers, OffsetNotFoundError, RefusedError
from rebalance_model.client.offset_file import OffsetFile, OffsetFileError
from rebalance_model.dialect import RELEASE_5, Dialect
from rebalance_model.entities import MessageQueue

NO_OFFSET = -1
"""There is none yet."""
UNKNOWN_OFFSET = -2
"""It could not be learnt."""


class ReadOffsetType(Enum):
    """Where to look."""

    READ_FROM_MEMORY = auto()
    READ_FROM_STORE = auto()
    MEMORY_FIRST_THEN_STORE = auto()


class OffsetStore(Protocol):
    """Offsets of one consumer (org.apache.rocketmq.client.consumer.store.OffsetStore)."""

    def update_offset(self, queue: MessageQueue, offset: int, *, increase_only: bool) -> None:
        """Note progress in memory; a frozen offset stays."""

    def update_and_freeze_offset(self, queue: MessageQueue, offset: int) -> None:
        """Note an offset that no progress overwrites until it is removed."""

    async def read_offset(self, queue: MessageQueue, kind: ReadOffsetType) -> int:
        """The offset, NO_OFFSET or UNKNOWN_OFFSET; one read from the store is noted in memory."""

    def persist(self, queue: MessageQueue) -> None:
        """Commit one queue's offset, if memory has one."""

    def persist_all(self, queues: AbstractSet[MessageQueue]) -> None:
        """Commit the offsets of these queues; without any nothing happens."""

    def remove_offset(self, queue: MessageQueue) -> None:
        """Forget what memory has, frozen or not."""

    def clone_offset_table(self, topic: str | None) -> dict[MessageQueue, int]:
        """What memory has, of one topic or of all."""


@dataclass(slots=True)
class _ControllableOffset:
    """An offset that can be frozen (ControllableOffset)."""

    value: int
    frozen: bool = False

    def update(self, target: int, *, increase_only: bool) -> None:
        if not self.frozen:
            self.value = max(self.value, target) if increase_only else target


class _Memory:
    """The part that both stores have in memory."""

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
        """What memory answers; None: ask the store."""
        known = self._offset_table.get(queue)
        if kind is ReadOffsetType.READ_FROM_STORE or (known is None and kind is ReadOffsetType.MEMORY_FIRST_THEN_STORE):
            return None
        return NO_OFFSET if known is None else known.value


class RemoteBrokerOffsetStore(_Memory):
    """The broker keeps the offsets: CLUSTERING (RemoteBrokerOffsetStore)."""

    def __init__(self, brokers: Brokers, group: str, dialect: Dialect = RELEASE_5) -> None:
        super().__init__()
        self._brokers = brokers
        self._group = group
        self._no_offset = RefusedError if dialect.broker_error_is_no_offset else OffsetNotFoundError

    async def read_offset(self, queue: MessageQueue, kind: ReadOffsetType) -> int:
        """The offset, NO_OFFSET if the broker has none, UNKNOWN_OFFSET if it could not say."""
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
        """Commit one-way: a lost commit is made good by the next."""
        known = self._offset_table.get(queue)
        if known is not None:
            self._brokers.update_consumer_offset(self._group, queue, known.value)

    def persist_all(self, queues: AbstractSet[MessageQueue]) -> None:
        """Commit these; offsets of other queues are forgotten without being sent. Without any, nothing happens."""
        if not queues:
            return
        for queue in list(self._offset_table):
            if queue in queues:
                self.persist(queue)
            else:
                self.remove_offset(queue)


class LocalFileOffsetStore(_Memory):
    """A file of the client keeps the offsets: BROADCASTING (LocalFileOffsetStore)."""

    def __init__(self, file: OffsetFile) -> None:
        super().__init__()
        self._file = file

    def load(self) -> None:
        """Take over what the file has, at the consumer's start.

        Raises:
            OffsetFileError: neither the file nor its backup can be read.
        """
        for queue, offset in self._file.read().items():
            self._offset_table[queue] = _ControllableOffset(offset)

    async def read_offset(self, queue: MessageQueue, kind: ReadOffsetType) -> int:
        """The offset, or NO_OFFSET, also where the file can't be read."""
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
        """Write one offset into the file; a file that can't be read is left as it is."""
        if queue in self._offset_table:
            self._write({queue})

    def persist_all(self, queues: AbstractSet[MessageQueue]) -> None:
        """Write these offsets into the file, beside the others that it has. Without any, nothing happens."""
        if queues:
            self._write(queues)

    def _write(self, queues: AbstractSet[MessageQueue]) -> None:
        try:
            offsets = self._file.read()
        except OffsetFileError:
            return
        offsets.update((mq, known.value) for mq, known in self._offset_table.items() if mq in queues)
        self._file.write(offsets)
