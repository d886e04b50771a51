"""Rows of the tables that the observer does not derive: the archive of the input, its quality results, and alerts.

``ingest_time`` is the transport's own stamp of the row (Kafka's append time, a file's
mtime), so that a second archive of the same log holds the same rows.
"""

import datetime as dt
from typing import Literal

import msgspec

from rebalance_model.observe.effects import QueueProgress, Time
from rebalance_model.observe.events import Source


class QueueProgressRow(QueueProgress, frozen=True, kw_only=True):
    """An observer's `QueueProgress` with the partition column of its table."""

    date: dt.date
    """The day of ``time``, UTC."""


class QueueProgressRollup(QueueProgressRow, frozen=True, kw_only=True):
    """Rows of one kind within one or five minutes, summed up: each queue's last observation, and the extremes.

    ``time`` is that of the newest observation, ``interval_ms`` at least the duration that is summed up.
    """

    observed_at: tuple[Time | None, ...] = ()
    """When each queue was last observed."""
    lag_min: tuple[int | None, ...] = ()
    lag_max: tuple[int | None, ...] = ()
    waiting_ms_min: tuple[int | None, ...] = ()
    waiting_ms_max: tuple[int | None, ...] = ()


class TelemetryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One accepted row of the log, unique by (partition, offset). A broadcast has one row in each partition."""

    date: dt.date
    """The day of ``time``, UTC: the table is partitioned by it."""
    type: str
    time: Time
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
    ingest_time: Time


class RejectedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One rejected row of the log, complete."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    reason: str
    """A stable code, see `rebalance_model.observe.decoding`."""
    detail: str
    origin: str
    """Where it came from: the topic, or the file."""
    ingest_time: Time


class QualityResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one expectation for one archive batch."""

    batch_id: int
    time: Time
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
    """The consequence if this expectation fails."""


class AlertDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a notification about an incident on its way to a channel, or why none is sent.

    The rows in the order of ``number`` are the whole state of the alert process: after a restart it continues from
    them.
    """

    number: int
    """Rises by one with every row."""
    time: Time
    """By the clock of the alert process."""
    step: Literal["HELD", "QUEUED", "PACKED", "SENT", "FAILED", "GIVEN_UP"]
    """HELD: no notification is sent. QUEUED: a notification goes to a channel, not before ``due_at``. PACKED: it is
    part of the named delivery, definitely. FAILED: the next attempt is at ``due_at``. SENT and GIVEN_UP are final."""
    detail: str
    """Why it is held or given up, the channel's error when it failed, or that it is part of a summary."""
    channel: str | None
    message: Literal["OPENED", "ESCALATED", "REMINDER", "RESOLVED"] | None
    """The kind of notification; None if it is held."""
    key: str
    """The idempotency key, ``incident_id:seq:channel``: the same in every attempt, also after a crash."""
    delivery: str | None
    """The key of the message that contains it, alone or with others."""
    attempt: int
    due_at: Time | None
    cluster: str
    group: str
    """Empty where the alert is about the job or a source."""
    incident_id: str
    seq: int
    code: str
    severity: str
    alert: str | None
    """The whole alert as JSON, in the first row of each key."""


class AlertControl(msgspec.Struct, frozen=True, kw_only=True):
    """A command from a person to the alerts: a silence, its end, or the acknowledgement of an incident."""

    time: Time
    control: Literal["SILENCE", "END", "ACK"]
    control_id: str
    """The silence's id, or the incident's."""
    cluster: str | None
    """Of a silence, a name or glob; None: any."""
    group: str | None
    code: str | None
    until: Time | None
    """When the silence ends by itself."""
    reason: str
    author: str
