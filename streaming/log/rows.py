"""Convert events to rows of the log: bytes, key and partition. Kafka and files share this."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, Protocol, Self

import msgspec

from rebalance_model.entities import INT64_MAX
from rebalance_model.observe.events import Event, key_of
from rebalance_model.observe.events.decoding import RejectedError, decode


class KeyedRow(NamedTuple):
    """One row of the log; a row without a key is a broadcast, or not an event."""

    partition: int
    key: bytes | None
    value: bytes


@lru_cache(maxsize=65_536)
def partition_of(key: str, partitions: int) -> int:
    """Return the partition of a group's events: Kafka's murmur2 of the key, as the Java client's default partitioner.

    It is always passed to Kafka explicitly, so that no producer's own partitioner can move a group.
    """
    from kafka.partitioner.default import murmur2  # the whole client: readers of a position need none of it

    return (int(murmur2(key.encode())) & 0x7FFF_FFFF) % partitions


def encode(event: Event) -> bytes:
    """Return the event as one line of JSON, without its line end."""
    return msgspec.json.encode(event)


def rows_of(event: Event, value: bytes, partitions: int) -> list[KeyedRow]:
    """Return the rows of an event: one in its group's partition, or one copy in every partition for a broadcast."""
    if event.BROADCAST:
        return [KeyedRow(partition, None, value) for partition in range(partitions)]
    key = key_of(event)
    return [KeyedRow(partition_of(key, partitions), key.encode(), value)]


def rows_of_line(line: bytes, partitions: int) -> list[KeyedRow]:
    """Return the rows of a line that another process wrote, its bytes unchanged.

    A line that is not an event goes, unchanged and without a key, to partition 0: the job rejects and records it.
    """
    try:
        event = decode(line, key=None, stamp=INT64_MAX, keyed=False)
    except RejectedError:
        return [KeyedRow(0, None, line)]
    return rows_of(event, line, partitions)


class Publisher(Protocol):
    """A destination to which rows are appended in order. Used as a context manager, it closes itself."""

    partitions: int
    flush_seconds: float
    """The interval at which to flush, for callers that must know when rows are safe; seconds."""
    flushes: int
    """The number of times that all rows written so far were made safe, by a call of `flush` or automatically."""

    def write(self, rows: Iterable[KeyedRow]) -> None:
        """Append rows; each partition keeps their order.

        Raises:
            UserError: rows could not be delivered; nothing is lost silently.
        """

    def flush(self) -> None:
        """Block until every row written so far is safe: acknowledged by Kafka, or visible in a file."""

    def close(self) -> None:
        """Flush, and release the log."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def publish(publisher: Publisher, events: Iterable[Event]) -> None:
    """Append events, each to its own partition, broadcasts to all."""
    publisher.write(row for event in events for row in rows_of(event, encode(event), publisher.partitions))
