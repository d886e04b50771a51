"""The stateful operator: Spark's transformWithState around `rebalance_model.observe.engine.shard`.

The grouping key is the shard (the log's partition), not the consumer group: each key costs 1-2 ms per batch, and a
shard has thousands of groups. A batch reads a shard's state once and appends to it once (`streaming.pipeline.chunks`).
Keys are chosen so that the shards spread evenly over the state partitions (plain ids split 5:3).

Spark passes a key's rows once per batch, in several chunks and in no guaranteed order, so they are all collected and
sorted by offset. The last offset is part of the state: an earlier row would change the result, so it stops the job.
With files, such a row has a file number that arrives after a higher one, or an mtime that does not increase with the
number. There is no domain logic here: decode, fold, encode.
"""

import logging
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  pyspark's own convention
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from rebalance_model.observe.effects import AnyRow
from rebalance_model.observe.engine.salvage import Saved
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events.decoding import VALUE_BYTES_MAX, RejectedError, decode
from rebalance_model.observe.losses import Lost
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import LostPart, StateVersionError
from schemas.rows import RejectedRow
from streaming.base.errors import UserError
from streaming.base.process import without_collection
from streaming.log.files import position_of
from streaming.pipeline.chunks import CHUNK_SCHEMA, Chunk, ChunkedGroups, ShardPosition
from streaming.pipeline.effects import EFFECT_SCHEMA, Effects, by_table
from streaming.pipeline.rebuild.folder import read_seed

_LOG = logging.getLogger(__name__)
"""The log of a Python worker: it writes warnings to standard error, which is Spark's log in the runtime root."""
STATE_LOST = "state_lost"
TOO_MANY_SOURCES = "too_many_sources"
"""The reasons of rows in `telemetry_rejected` that the operator writes."""
_LOST: dict[LostPart | Literal["SOURCE"], str] = {
    "GROUP": "the kept state",
    "PROGRESS": "the kept quantities",
    "EVENT": "an event or a timer",
    "SHARD": "the kept state",
    "SOURCE": "an event",
}


class ShardRow(NamedTuple):
    """One row of a shard, as `streaming.pipeline.sources` returns it."""

    offset: int
    stamp: int
    key: bytes | None
    value: bytes | None


def effects_of(
    log: DataFrame, policy: Policy, *, partitions: int, state_partitions: int, keyed: bool, seeds: Path | None = None
) -> DataFrame:
    """Return the effects of the telemetry as rows in `EFFECT_SCHEMA`; the workers get the policy with the operator.

    A row beyond these partitions of the log stops the job. ``keyed``: the transport has keys (Kafka), as files have
    not. ``seeds`` are the states that the last rebuild made (`streaming.pipeline.rebuild.folder`); None: no rebuild.
    """
    keys = shard_keys(log.sparkSession, partitions, state_partitions)
    beyond = F.format_string(
        f"The log has a row in partition %d, but this job was made for {partitions} partitions and keys have moved: "
        "set source.partitions and start under a new runtime.root, which reads the log from its beginning.",
        F.col("partition"),
    )
    shard = F.coalesce(F.get(F.array(*map(F.lit, keys)), F.col("partition")), F.raise_error(beyond).cast("long"))
    return (
        log.select(shard.alias("shard"), "partition", "offset", "stamp", "key", "value")
        .groupBy("shard")
        .transformWithStateInPandas(
            statefulProcessor=ShardProcessor(policy, keyed=keyed, seeds=seeds),
            outputStructType=EFFECT_SCHEMA,
            outputMode="Append",
            timeMode="None",
        )
    )


def shard_keys(spark: SparkSession, partitions: int, state_partitions: int) -> list[int]:
    """Return the grouping key of each shard: shard i gets the next number that Spark hashes to state partition i mod n.

    A shard's key does not depend on the number of shards.
    """
    candidates = spark.range(64 + 16 * (partitions + state_partitions)).selectExpr(
        "id", f"pmod(hash(id), {state_partitions}) AS state_partition"
    )
    numbers: list[list[int]] = [[] for _ in range(state_partitions)]
    for row in sorted(candidates.collect()):
        numbers[row.state_partition].append(row.id)
    return [numbers[shard % state_partitions][shard // state_partitions] for shard in range(partitions)]


class ShardProcessor(StatefulProcessor):
    """Folds the rows of a shard into its state."""

    def __init__(self, policy: Policy, *, keyed: bool, seeds: Path | None = None) -> None:
        self._policy = msgspec.msgpack.encode(policy)
        self._keyed = keyed
        self._seeds = seeds
        self._seed_id = seeds.name if seeds is not None else ""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state variables; Spark calls it for each task."""
        self._chunks = handle.getListState("chunks", CHUNK_SCHEMA)

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: tuple[int],
        rows: Iterator[pd.DataFrame],
        timerValues: object,  # noqa: N803  Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Fold one batch's rows of one shard, in the order of the log."""
        del key, timerValues
        with without_collection():  # the worker collects after each task; meanwhile it takes 10 % of the time
            effects, lost = self._fold(rows)
        if effects or lost:
            yield pd.DataFrame([*effects, *by_table(lost)], columns=Effects._fields)

    def _fold(self, rows: Iterator[pd.DataFrame]) -> tuple[list[Effects], list[RejectedRow]]:
        """Fold the rows into the shard's state, and keep that; return the effects, and what was lost."""
        partition, ordered = collect(rows)
        last, groups = self._state(partition, ordered[0].offset)
        check_order(partition, ordered, last, keyed=self._keyed)
        shard = continued(groups, msgspec.msgpack.decode(self._policy, type=Policy), partition)
        effects = by_table(fold(shard, ordered, keyed=self._keyed))
        saved = shard.flush()
        lost = shard.take_lost()
        warn_of_contradictions(shard)
        warn_of_losses(lost, partition)
        end = ShardPosition(ordered[-1].offset, ordered[-1].stamp)
        chunk, replaces = groups.append(saved, end, self._seed_id)
        if replaces:
            self._chunks.put([chunk])
        else:
            self._chunks.appendValue(chunk)
        return effects, [lost_row(one, partition, ordered[0]) for one in lost]

    def _state(self, partition: int, first: int) -> tuple[ShardPosition | None, ChunkedGroups]:
        """Return the shard's position, and the state to continue from: the seed if it was not used yet.

        The position is unknown before the first row, and where the rebuild has replaced a state that could not be read.
        """
        chunks = [Chunk(*chunk) for chunk in self._chunks.get()]
        last = ShardPosition(chunks[-1].offset, chunks[-1].stamp) if chunks else None
        if chunks and (self._seeds is None or chunks[-1].seed == self._seed_id):
            return last, ChunkedGroups(chunks)
        seed = read_seed(self._seeds, partition) if self._seeds is not None else None
        if seed is None and last is None:
            return None, ChunkedGroups()
        if seed is None or seed.until > first or (last is not None and last.offset >= seed.until):
            raise UserError(
                f"The rebuilt state of partition {partition} does not continue at offset {first}: undo it with "
                "`rebalance-watch rebuild --undo`."
            )
        return last, ChunkedGroups.of(seed.groups, seed.saved)


def collect(chunks: Iterable[pd.DataFrame]) -> tuple[int, list[ShardRow]]:
    """Return a shard's partition, and all of its rows in the order of their offsets."""
    rows: list[ShardRow] = []
    partition = -1
    for chunk in chunks:
        partition = int(chunk["partition"].iat[0])
        columns = (chunk[name].tolist() for name in ShardRow._fields)
        rows += map(ShardRow._make, zip(*columns, strict=True))
    if any(later.offset < earlier.offset for earlier, later in pairwise(rows)):
        rows.sort(key=lambda row: row.offset)
    return partition, rows


def check_order(partition: int, rows: list[ShardRow], last: ShardPosition | None, *, keyed: bool) -> None:
    """Check that the rows continue where the shard's state ends.

    Raises:
        UserError: a row comes after a later one, or a file is not younger than the one before it.
    """
    if last is not None and rows[0].offset <= last.offset:
        raise UserError(
            f"Partition {partition} of the log returned offset {rows[0].offset} after {last.offset}, so its rows are "
            "not in order: was a file added late or its mtime changed? Start again under a new runtime.root."
        )
    if keyed:
        return
    before: ShardPosition | ShardRow | None = last
    for row in rows:
        # Lines of one file follow each other without a gap: only between two files is there anything to check.
        if before is not None and row.offset != before.offset + 1 and row.stamp <= before.stamp:
            raise UserError(
                f"In partition {partition} of the log, file {position_of(row.offset)[0]} is not younger than file "
                f"{position_of(before.offset)[0]} (mtimes {row.stamp} and {before.stamp} ms), so their order is "
                "unknown: a copy of a log must keep the mtimes that its writer set (cp --preserve=timestamps)."
            )
        before = row


def continued(groups: ChunkedGroups, policy: Policy, partition: int) -> Shard:
    """Return the shard as its last batch left it; what of that can't be read begins again.

    The job starts only with checkpoints of its own version, so a state of another one is damaged as well.
    """
    try:
        return Shard(groups.shard, groups, policy, partition, contains_failures=True)
    except StateVersionError:
        buffer = groups.shard.buffer if groups.shard is not None else ()
        return Shard(Saved(b"", buffer), groups, policy, partition, contains_failures=True)


def lost_row(lost: Lost, partition: int, row: ShardRow) -> RejectedRow:
    """Return the row of the quarantine that keeps what was lost, at the first row of the batch that found it."""
    where = f"group {lost.key}" if lost.key else f"partition {partition}"
    return RejectedRow(
        partition=partition,
        offset=row.offset,
        key=lost.key.encode("utf-8", "replace") or None,
        value=lost.value[:VALUE_BYTES_MAX] or None,
        reason=TOO_MANY_SOURCES if lost.part == "SOURCE" else STATE_LOST,
        detail=f"{_LOST[lost.part]} of {where}: {lost.error}",
        origin="state of the operator",
        ingest_time=row.stamp,
    )


def warn_of_losses(lost: list[Lost], partition: int) -> None:
    """Log what could not be read or processed, with the traceback of events (an internal error), and refusals."""
    if refused := [one for one in lost if one.part == "SOURCE"]:
        _LOG.warning("New sources are refused: %s. `telemetry_rejected` has their events.", refused[0].error)
    for failure in (one for one in lost if one.part != "SOURCE"):
        trace = f"\n{failure.trace}" if failure.part == "EVENT" else ""
        _LOG.error(
            "%s of %s can't be used (%s): it begins again, and other groups continue. `telemetry_rejected` has it "
            "with the reason %s: report it, and run `rebalance-watch rebuild`.%s",
            _LOST[failure.part].capitalize(),
            f"group {failure.key}" if failure.key else f"partition {partition}",
            failure.error,
            STATE_LOST,
            trace,
        )


def warn_of_contradictions(shard: Shard) -> None:
    """Log inconsistent group states, once per group and batch; their rows are still written."""
    for sentence in shard.timeline.contradictions.values():
        _LOG.error(
            "The state of group %s. Rows of the group may be wrong from here on: report it with the group's archived "
            "telemetry; other groups are not concerned.",
            sentence,
        )


def fold(shard: Shard, rows: Iterable[ShardRow], *, keyed: bool) -> Iterator[AnyRow]:
    """Yield the effects of rows in log order; invalid events are skipped (the archive keeps them, with the reason)."""
    for row in rows:
        try:
            event = decode(row.value, key=row.key, stamp=row.stamp, keyed=keyed)
        except RejectedError:
            continue
        yield from shard.push(event, row.stamp, len(row.value or b""))
