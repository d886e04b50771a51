"""Convert rows of the log to rows of the archive's tables; runs in Spark's Python workers, so it imports no Spark."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa

from rebalance_model.observe.events import AnyEvent, GroupEvent, key_of
from rebalance_model.observe.events.decoding import RejectedError, decode
from schemas.arrow import arrow_schema, column_of
from schemas.rows import RejectedRow, TelemetryRow
from streaming.base.times import DAY_MS
from streaming.log.files import position_of

if TYPE_CHECKING:  # a Spark worker does without it
    from streaming.tables import ReadModel


def batches(model: "ReadModel", query: str, parameters: Mapping[str, object]) -> Iterator[Iterator[tuple[Any, ...]]]:
    """Yield the rows of a query in batches, so that not all of them are in memory."""
    for batch in model.scan(query, parameters):
        yield zip(*(column.to_pylist() for column in batch.columns), strict=True)


def decoded(value: str, stamp: int) -> tuple[AnyEvent | None, int]:
    """Return an archived row's event and its bytes in the log; no event if only an earlier release accepted it.

    ``stamp`` is the log's own stamp of the row, epoch milliseconds.
    """
    line = value.encode()
    try:
        return decode(line, key=None, stamp=stamp, keyed=False), len(line)
    except RejectedError:
        return None, len(line)


ACCEPTED = pa.struct(arrow_schema("telemetry"))
REJECTED = pa.struct(arrow_schema("telemetry_rejected"))

_EPOCH = dt.date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Transport:
    """The topic, which a row itself does not contain; None if it came from a file."""

    topic: str | None

    @property
    def keyed(self) -> bool:
        """Return whether rows have keys."""
        return self.topic is not None

    def origin(self, partition: int, offset: int) -> str:
        """Return where a row came from: the topic, or the file and line."""
        if self.topic is not None:
            return f"topic {self.topic}"
        number, line = position_of(offset)
        return f"partition={partition}/{number:020d}.jsonl line {line + 1}"


class LogRow(NamedTuple):
    """One row of the log, as `streaming.pipeline.sources` gives it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    stamp: int


def archived(batches: Iterable[pa.RecordBatch], transport: Transport) -> Iterator[pa.RecordBatch]:
    """Yield each row of the log as two structs, ``accepted`` and ``rejected``, one of which is null."""
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in LogRow._fields)
        rows = [archive_row(LogRow(*row), transport) for row in zip(*columns, strict=True)]
        accepted = _structs([row if isinstance(row, TelemetryRow) else None for row in rows], ACCEPTED)
        rejected = _structs([row if isinstance(row, RejectedRow) else None for row in rows], REJECTED)
        yield pa.RecordBatch.from_arrays([accepted, rejected], names=["accepted", "rejected"])


def archive_row(row: LogRow, transport: Transport) -> TelemetryRow | RejectedRow:
    """Return one row of the log as a row of one of the two tables."""
    try:
        event = decode(row.value, key=row.key, stamp=row.stamp, keyed=transport.keyed)
    except RejectedError as error:
        return RejectedRow(
            partition=row.partition,
            offset=row.offset,
            key=row.key,
            value=row.value,
            reason=error.reason,
            detail=error.detail,
            origin=transport.origin(row.partition, row.offset),
            ingest_time=row.stamp,
        )
    return _accepted(event, row)


def _accepted(event: AnyEvent, row: LogRow) -> TelemetryRow:
    return TelemetryRow(
        date=_day(event.time // DAY_MS),
        type=str(event.__struct_config__.tag),
        time=event.time,
        cluster=event.cluster,
        broker=event.broker,
        broker_id=event.broker_id,
        source=event.source,
        source_id=event.source_id,
        seq=event.seq,
        group=event.group if isinstance(event, GroupEvent) else None,
        key=key_of(event),
        value=(row.value or b"").decode(),
        partition=row.partition,
        offset=row.offset,
        ingest_time=row.stamp,
    )


@lru_cache(maxsize=1024)
def _day(days: int) -> dt.date:
    return dt.date.fromordinal(_EPOCH + days)


def _structs(rows: Sequence[msgspec.Struct | None], declared: pa.StructType) -> pa.StructArray:
    """Return rows as one struct column, built column by column: a dictionary per row would take three times as long."""
    absent = (None,) * len(declared)
    tuples = [absent if row is None else msgspec.structs.astuple(row) for row in rows]
    columns = zip(*tuples, strict=True) if tuples else ((),) * len(declared)
    arrays = [column_of(column, field.type) for column, field in zip(columns, declared, strict=True)]
    missing = pa.array([row is None for row in rows], pa.bool_())
    return pa.StructArray.from_arrays(arrays, fields=list(declared), mask=missing)
