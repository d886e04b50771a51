"""Rows of the tables that are no effect of the observer: the archive of the input, and the verdicts on it.

Times are epoch milliseconds. ``ingest_time`` is the transport's own stamp of the row (Kafka's append time, a file's
mtime), so that a second archive of the same log holds the same rows.
"""

import datetime as dt

import msgspec

from rebalance_model.observe.events import Source


class TelemetryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One accepted row of the log, once a (partition, offset). Broadcasts are here once for each partition."""

    date: dt.date
    """The day of ``time``, UTC: the table is partitioned by it."""
    type: str
    time: int
    cluster: str
    broker: str
    broker_id: int
    source: Source
    source_id: str
    seq: int
    group: str | None
    """None for a broadcast."""
    key: str
    """The event's own key, ``cluster/group`` or empty, also where the transport has no keys."""
    value: str
    """The event as it came, byte for byte."""
    partition: int
    offset: int
    ingest_time: int


class RejectedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One refused row of the log, whole."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    reason: str
    """A stable code, see `rebalance_model.observe.decoding`."""
    detail: str
    origin: str
    """Where it came from: the topic, or the file."""
    ingest_time: int


class QualityResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one expectation said of one archive batch."""

    batch_id: int
    time: int
    """The latest ingest time of the batch."""
    suite: str
    expectation: str
    column: str | None
    """More than one are joined by a comma; None where the expectation is about the batch as a whole."""
    success: bool
    observed: str | None
    """What was seen, as JSON: the value that was judged, or up to 20 of those that were not expected."""
    unexpected_count: int | None
    """None where the expectation is about the batch as a whole."""
    row_count: int
    """Rows that were judged."""
    why: str
    """What it means if this fails."""
