"""Exchange of the operator with Spark's state: the operator itself, over a state in memory that counts.

The figures are the same at each run, whatever else the machine does.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from rebalance_model.observe.policy import Policy
from streaming.log.files import files_of, offset_of, parse_path
from streaming.pipeline.chunks import Chunk, ChunkedGroups
from streaming.pipeline.operator import ShardProcessor, ShardRow
from streaming.pipeline.sources import lines_of

_Item = tuple[Any, ...]


class Exchange(NamedTuple):
    """The exchange of one batch, all shards together."""

    rows: int
    """Rows that were read from the log."""
    calls: int
    """Calls of Spark's state."""
    read: int
    """Bytes that Spark sent."""
    written: int
    """Bytes that Spark got."""
    buffered: int
    """Events that wait for their turn after the batch."""


@dataclass
class _State:
    """The state of one shard, with the methods of Spark's handle and of its variables that the operator calls."""

    calls: int = 0
    read: int = 0
    written: int = 0
    chunks: list[_Item] = field(default_factory=list)

    def getListState(self, *_: object) -> "_Chunks":  # noqa: N802  Spark's name
        return _Chunks(self)

    def sent(self, items: list[_Item]) -> None:
        self.calls += 1
        self.read += _size(items)

    def got(self, items: list[_Item]) -> None:
        self.calls += 1
        self.written += _size(items)


@dataclass
class _Chunks:
    state: _State

    def get(self) -> Iterator[_Item]:
        self.state.sent(self.state.chunks)
        return iter(self.state.chunks)

    def put(self, items: list[_Item]) -> None:
        self.state.got(items)
        self.state.chunks = items

    def appendValue(self, item: _Item) -> None:  # noqa: N802  Spark's name
        self.state.got([item])
        self.state.chunks = [*self.state.chunks, item]


def exchanges(log: Path, partitions: int, policy: Policy, files_per_batch: int) -> Iterator[Exchange]:
    """Run the operator over a file log, and yield what each batch exchanges.

    Args:
        log: the folder of the log.
        partitions: its number of shards.
        policy: the thresholds.
        files_per_batch: how many files, the oldest first, are one batch.
    """
    states = [_State() for _ in range(partitions)]
    files = [(file, partition) for partition in range(partitions) for file in files_of(log, partition)]
    files.sort(key=lambda one: one[0].stat().st_mtime_ns)
    for first in range(0, len(files), files_per_batch):
        rows: dict[int, list[ShardRow]] = {}
        for file, partition in files[first : first + files_per_batch]:
            number, stamp = parse_path(file.as_posix())[1], file.stat().st_mtime_ns // 1_000_000
            rows.setdefault(partition, []).extend(
                ShardRow(offset_of(number, line), stamp, None, value)
                for line, value in enumerate(lines_of(file.read_bytes()))
            )
        for state in states:
            state.calls = state.read = state.written = 0
        for partition, of_shard in rows.items():
            _run(states[partition], partition, of_shard, policy)
        yield Exchange(
            sum(map(len, rows.values())),
            sum(state.calls for state in states),
            sum(state.read for state in states),
            sum(state.written for state in states),
            sum(map(_buffered, states)),
        )


def _run(state: _State, partition: int, rows: list[ShardRow], policy: Policy) -> None:
    processor = ShardProcessor(policy, keyed=False)
    processor.init(cast("StatefulProcessorHandle", state))
    frame = pd.DataFrame(rows).assign(partition=partition)
    for _ in processor.handleInputRows((partition,), iter([frame]), None):
        pass


def _size(items: list[_Item]) -> int:
    return sum(len(value) if isinstance(value, str) else 8 for item in items for value in item)


def _buffered(state: _State) -> int:
    shard = ChunkedGroups(Chunk(*chunk) for chunk in state.chunks).shard
    return sum(len(msgspec.msgpack.decode(chunk)) for chunk in shard.buffer) if shard is not None else 0
