"""From events to rows of the log: which bytes, under which key, in which partition. Kafka and files share it."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, Protocol, Self

import msgspec
from kafka.partitioner.default import murmur2

from rebalance_model.entities import INT64_MAX
from rebalance_model.observe.decoding import RejectedError, decode
from rebalance_model.observe.events import Event, key_of


class Row(NamedTuple):
    """One row of the log; a row without a key is a broadcast, or no event at all."""

    partition: int
    key: bytes | None
    value: bytes


@lru_cache(maxsize=65_536)
def partition_of(key: str, partitions: int) -> int:
    """The partition of a group's events: Kafka's murmur2 of the key, as the Java client's default partitioner.

    It is always given to Kafka explicitly, so that no producer's own choice can move a group.
    """
    return (int(murmur2(key.encode())) & 0x7FFF_FFFF) % partitions


def encode(event: Event) -> bytes:
    """The event as one line of JSON, without its line end."""
    return msgspec.json.encode(event)


def rows_of(event: Event, value: bytes, partitions: int) -> list[Row]:
    """The rows of an event: one in its group's partition, or one copy in every partition for a broadcast."""
    if event.BROADCAST:
        return [Row(partition, None, value) for partition in range(partitions)]
    key = key_of(event)
    return [Row(partition_of(key, partitions), key.encode(), value)]


def rows_of_line(line: bytes, partitions: int) -> list[Row]:
    """The rows of a line that another wrote, its bytes unchanged.

    A line that is no event goes, as it is and without a key, to partition 0: the job is to see it and to reject it.
    """
    try:
        event = decode(line, key=None, stamp=INT64_MAX, keyed=False)
    except RejectedError:
        return [Row(0, None, line)]
    return rows_of(event, line, partitions)


class Publisher(Protocol):
    """Somewhere that rows are appended to, in order. Used as a context manager, it closes itself."""

    partitions: int
    flush_seconds: float
    """How often a flush is worth while, for one who needs to know that rows are safe."""
    flushes: int
    """How many times everything written until then was made safe, by a call of `flush` or by itself."""

    def write(self, rows: Iterable[Row]) -> None:
        """Append rows; each partition keeps the order in which they are given.

        Raises:
            UserError: rows could not be delivered; nothing is lost silently.
        """

    def flush(self) -> None:
        """Return when every row written so far is safe: acknowledged by Kafka, or visible as a file."""

    def close(self) -> None:
        """Flush, and give back what is held."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def publish(publisher: Publisher, events: Iterable[Event]) -> None:
    """Append events, each in its own partition and broadcasts in all."""
    publisher.write(row for event in events for row in rows_of(event, encode(event), publisher.partitions))
