"""The job without Spark: the same core in a plain loop over the same files. The job must give the same rows."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec

from rebalance_model.observe.effects import TABLE_OF, AnyRow
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from streaming.log.files import files_of, offset_of, parse_path
from streaming.pipeline.operator import ShardRow, fold
from streaming.pipeline.sources import lines_of
from tests.support.tables import stored


def rows_of(log: Path, partition: int) -> list[ShardRow]:
    """One shard of a file log."""
    rows = []
    for file in files_of(log, partition):
        number, stamp = parse_path(file.as_posix())[1], file.stat().st_mtime_ns // 1_000_000
        rows += [
            ShardRow(offset_of(number, line), stamp, None, value)
            for line, value in enumerate(lines_of(file.read_bytes()))
        ]
    return rows


def effects(rows: list[ShardRow], policy: Policy, partition: int = 0, *, keyed: bool = False) -> list[AnyRow]:
    """Return the effects of one shard; only that of partition 0 has the rows about the cluster."""
    shard = Shard(None, GroupsInMemory(), policy, partition)
    found = list(fold(shard, rows, keyed=keyed))
    shard.flush()
    return found


def tables_of(shards: Iterable[list[ShardRow]], policy: Policy, *, keyed: bool = False) -> dict[str, list[str]]:
    """Return the rows of every derived table that has any, as sorted JSON; the shards are in their order."""
    tables: dict[str, list[str]] = defaultdict(list)
    for partition, rows in enumerate(shards):
        for effect in effects(rows, policy, partition, keyed=keyed):
            table = TABLE_OF[type(effect)]
            tables[table].append(as_json(stored(table, msgspec.to_builtins(effect))))
    return {table: sorted(rows) for table, rows in tables.items()}


def derived_rows(log: Path, partitions: int, policy: Policy) -> dict[str, list[str]]:
    """Return the rows of every derived table of a file log, as sorted JSON."""
    return tables_of((rows_of(log, partition) for partition in range(partitions)), policy)


def as_json(row: object) -> str:
    """Return a row in a form that can be sorted and compared."""
    return msgspec.json.encode(row, order="sorted").decode()
