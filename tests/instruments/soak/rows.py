"""Compare the tables of a soak with its log, and with the core in a plain loop over the archive.

Rows are compared as multisets by the sum of their digests, so that memory stays small: a table of a million rows is one
number. Only if two numbers differ a second pass finds examples.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
from deltalake import DeltaTable

from rebalance_model.observe.effects import TABLE_OF
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from schemas.arrow import in_epoch_ms
from schemas.tables import DERIVED
from streaming.pipeline.operator import ShardRow, fold
from tests.support.plain import as_json
from tests.support.tables import stored

_ROWS_AT_ONCE = 20_000
_MEMORY = "1500MB"
_EXAMPLES = 5


class Sum:
    """The number of rows and the sum of their digests: equal for equal multisets, in whatever order."""

    def __init__(self, rows: int = 0, digests: int = 0) -> None:
        self.rows, self.digests = rows, digests % (1 << 128)

    def add(self, row: str) -> None:
        self.rows += 1
        self.digests = (self.digests + int.from_bytes(_digest(row), "big")) % (1 << 128)

    def __add__(self, other: "Sum") -> "Sum":
        return Sum(self.rows + other.rows, self.digests + other.digests)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sum) and (self.rows, self.digests) == (other.rows, other.digests)

    def __hash__(self) -> int:
        return hash((self.rows, self.digests))


class Archive:
    """The archived rows of a soak: accepted and rejected."""

    def __init__(self, tables: Path, scratch: Path) -> None:
        """Open the tables; sorting may use files in the scratch folder."""
        scratch.mkdir(parents=True, exist_ok=True)
        self._database = duckdb.connect(config={"memory_limit": _MEMORY, "threads": 1, "temp_directory": str(scratch)})
        for name in ("telemetry", "telemetry_rejected"):
            files = DeltaTable(tables / name).file_uris()
            columns = '"partition", "offset", epoch_ms(ingest_time) AS stamp'
            if not files:
                self._database.execute(
                    f"CREATE VIEW {name} AS SELECT 0 AS partition, 0 AS offset, '' AS cluster, 0 AS stamp LIMIT 0"
                )
                continue
            more = ", cluster, key, value" if name == "telemetry" else ", NULL AS cluster, reason"
            self._database.execute(
                f"CREATE VIEW {name} AS SELECT {columns}{more} FROM read_parquet({files!r}, hive_partitioning = false)"
            )

    def counts(self) -> dict[int, tuple[int, int, int, int]]:
        """Return of each partition: rows, distinct offsets, lowest and highest offset; accepted and rejected."""
        rows = self._database.execute(
            'SELECT p, count(*), count(DISTINCT o), min(o), max(o) FROM (SELECT "partition" AS p, "offset" AS o'
            ' FROM telemetry UNION ALL SELECT "partition", "offset" FROM telemetry_rejected) GROUP BY p ORDER BY p'
        ).fetchall()
        return {partition: tuple(rest) for partition, *rest in rows}

    def rejected(self) -> int:
        """Return the number of rejected rows."""
        return self._one("SELECT count(*) FROM telemetry_rejected")

    def rows_of_cluster(self, cluster: str) -> int:
        """Return the number of accepted rows of a cluster."""
        return self._one("SELECT count(*) FROM telemetry WHERE cluster = ?", cluster)

    def rows(self, partition: int) -> Iterator[list[ShardRow]]:
        """Yield the accepted rows of a partition in the order of the log, some at a time."""
        batches = self._database.sql(
            'SELECT "offset", stamp, key, value FROM telemetry WHERE "partition" = ? ORDER BY "offset"',
            params=[partition],
        ).to_arrow_reader(_ROWS_AT_ONCE)
        for batch in batches:
            columns = (column.to_pylist() for column in batch.columns)
            yield [
                ShardRow(offset, stamp, key.encode() or None, value.encode())
                for offset, stamp, key, value in zip(*columns, strict=True)
            ]

    def _one(self, query: str, *values: object) -> int:
        [(value,)] = self._database.execute(query, list(values)).fetchall()
        return int(value)


def looped(archive: Archive, partition: int) -> Iterator[tuple[str, str]]:
    """Yield table and row, as JSON, of all that the core derives from a partition."""
    saved, groups = None, GroupsInMemory()
    for rows in archive.rows(partition):
        shard = Shard(saved, groups, Policy(), partition)
        for effect in fold(shard, rows, keyed=True):
            table = TABLE_OF[type(effect)]
            yield table, as_json(stored(table, msgspec.to_builtins(effect)))
        saved = shard.flush()  # a shard that is never flushed keeps all its groups decoded


def written(tables: Path, table: str) -> Iterator[str]:
    """Yield the rows of a derived table as JSON."""
    for batch in pa.RecordBatchReader.from_stream(DeltaTable(tables / table).scan()):
        for row in in_epoch_ms(batch).to_pylist():
            yield as_json(row)


def differences(tables: Path, scratch: Path, partitions: int) -> tuple[dict[str, int], list[str]]:
    """Compare every derived table with the loop; return the rows of each, and a sentence for each difference."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:  # half an hour of processor time
        loops = [pool.submit(_looped_sums, tables, scratch / str(number), number) for number in range(partitions)]
        read = {table: pool.submit(_written_sum, tables, table) for table in DERIVED}
        sums = {table: one.result() for table, one in read.items()}
        expected = {table: sum((one.result()[table] for one in loops), Sum()) for table in DERIVED}
    wrong = [table for table in DERIVED if expected[table] != sums[table]]
    sentences = [
        f"{table}: {sums[table].rows:,} rows, {expected[table].rows:,} by the core in a loop" for table in wrong
    ]
    if wrong:
        sentences += _examples(Archive(tables, scratch), tables, wrong, partitions)
    return {table: one.rows for table, one in sums.items()}, sentences


def _looped_sums(tables: Path, scratch: Path, partition: int) -> dict[str, Sum]:
    sums = {table: Sum() for table in DERIVED}
    for table, row in looped(Archive(tables, scratch), partition):
        sums[table].add(row)
    return sums


def _written_sum(tables: Path, table: str) -> Sum:
    total = Sum()
    for row in written(tables, table):
        total.add(row)
    return total


def _examples(archive: Archive, tables: Path, wrong: list[str], partitions: int) -> list[str]:
    """Return rows that only one side has, by a second pass that keeps the digest of each row."""
    left: dict[str, Counter[bytes]] = {table: Counter(map(_digest, written(tables, table))) for table in wrong}
    missing: dict[str, list[str]] = {table: [] for table in wrong}

    for table, row in chain.from_iterable(looped(archive, partition) for partition in range(partitions)):
        if table in left:
            digest = _digest(row)
            if left[table][digest] > 0:
                left[table][digest] -= 1
            elif len(missing[table]) < _EXAMPLES:
                missing[table].append(row)
    more = {table: +counter for table, counter in left.items()}
    return [
        *(f"{table} lacks: {row}" for table, rows in missing.items() for row in rows),
        *(
            f"{table} has too much: {row}"
            for table in wrong
            for row in _first(one for one in written(tables, table) if _digest(one) in more[table])
        ),
    ]


def _first(rows: Iterator[str]) -> list[str]:
    return [row for _, row in zip(range(_EXAMPLES), rows, strict=False)]


def _digest(row: str) -> bytes:
    return hashlib.blake2b(row.encode(), digest_size=16).digest()
