"""Rows of the tables that the observer does not derive: the archive of the input, its quality results, and alerts.

``ingest_time`` is the transport's own timestamp of the row (Kafka's append time, a file's mtime), so that a second
archive of the same log has the same rows.
"""

import datetime as dt
from typing import Literal

import msgspec

from rebalance_model.observe.effects import QueueProgress, Time
from rebalance_model.observe.events import Source


class QueueProgressRow(QueueProgress, frozen=True, kw_only=True):
    """A partition is a day of ``time``, UTC."""

    date: dt.date
    """The day of ``time``, UTC."""


class QueueProgressRollup(QueueProgressRow, frozen=True, kw_only=True):
    """Rows of one kind within one or five minutes, rolled up: each queue's last observation, and the extremes.

    ``time`` is that of the newest observation, ``interval_ms`` at least the duration of the period.
    """

    observed_at: tuple[Time | None, ...] = ()
    """When each queue was last observed."""
    lag_min: tuple[int | None, ...] = ()
    """The smallest lag of the period."""
    lag_max: tuple[int | None, ...] = ()
    """The largest lag of the period."""
    waiting_ms_min: tuple[int | None, ...] = ()
    """The shortest waiting time of the period, milliseconds."""
    waiting_ms_max: tuple[int | None, ...] = ()
    """The longest waiting time of the period, milliseconds."""


class TelemetryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One accepted row of the log, unique by (partition, offset). A broadcast has one row in each partition."""

    date: dt.date
    """The day of ``time``, UTC."""
    type: str
    """The type of the event, such as HEART_BEAT: see the events below."""
    time: Time
    """When it happened, by the clock of its source."""
    cluster: str
    """The RocketMQ cluster."""
    broker: str
    """The name of the broker whose view it is; empty: none, because it is not one broker's."""
    broker_id: int
    """The replica of that broker: 0 is the master, others are slaves."""
    source: Source
    """hook: a broker's hook; poll: a collector; sim: a simulation."""
    source_id: str
    """One start of one source, as ``instance@start``."""
    seq: int
    """Rises by one with each event of a (source_id, key), by more after a loss."""
    group: str | None
    """None for a broadcast."""
    key: str
    """The event's own key, ``cluster/group`` or empty, even if the transport has no keys."""
    value: str
    """The event as received, byte for byte."""
    partition: int
    """The partition of the log."""
    offset: int
    """The row's offset in that partition; of a log of files, its place."""
    ingest_time: Time
    """When the log received it, by the log's own clock."""


class RejectedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One rejected row of the log, complete; or what the job lost of its own state (reason `state_lost`)."""

    partition: int
    """The partition of the log."""
    offset: int
    """The row's offset in that partition; of a log of files, its place. Of a lost state that of its batch's first row.
    """
    key: bytes | None
    """The transport's key, byte for byte; null: it had none. Of a lost state cluster/group; null: the partition's own.
    """
    value: bytes | None
    """The value, byte for byte; null: it had none."""
    reason: str
    """A stable code, see `rebalance_model.observe.events.decoding`; state_lost: a state that the job could not read,
    or an event that it could not process, which is in `telemetry`, too; too_many_sources: a valid event, in
    `telemetry`, too, of a source for which the partition had no place (`rebalance_model.observe.engine.shard`)."""
    detail: str
    """The reason in words."""
    origin: str
    """Where it came from: the topic, or the file and line."""
    ingest_time: Time
    """When the log received it, by the log's own clock."""


WHOLE_SUITE = "suite"
"""The expectation of the one result of a suite that can't be read or run."""


class QualityResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one expectation for one batch of the archive, or for one check of the tables."""

    batch_id: int
    """The number of the batch, or of the check; each is counted by itself."""
    time: Time
    """The latest ingest time of the batch; of a check of the tables, that of all rows."""
    suite: str
    """``telemetry`` for a batch of the archive; any other one is a suite about the tables."""
    expectation: str
    """The expectation's type, as Great Expectations names it; ``suite``: the suite can't be read or run."""
    column: str | None
    """The column that was checked; several are joined by commas. None: the expectation is about the whole batch."""
    success: bool
    """False also if the expectation could not be judged."""
    observed: str | None
    """The observation, as JSON: the value that was checked, or up to 20 of the unexpected values; a date, NaN or a
    decimal is text. None: there is none, as when the expectation could not be judged."""
    unexpected_count: int | None
    """None: the expectation is about the whole batch."""
    row_count: int
    """The number of rows that were checked; of the tables the number of subjects, such as queues."""
    why: str
    """The consequence if this expectation fails; of one that could not be judged, the reason."""
    checked_at: Time | None = None
    """When the tables were checked, by the clock of `maintain`; None: a batch of the archive."""
    stops_job: bool | None = None
    """True if the job ends, and does not start, until this check of the tables succeeds; None: a batch of the
    archive."""


DeliveryReason = Literal[
    "SILENCED", "UNDECIDED", "OFF_HOURS", "ABSORBED", "NO_ROUTE", "NOT_NOTIFIED", "RECLASSIFIED", "DEESCALATED",
    "REBUILT", "SUMMARY", "REJECTED",
]  # fmt: skip


class AlertDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a notification about an incident on its way to a channel, or why none is sent.

    The rows in the order of ``number`` are the complete state of the alert process: after a restart it continues from
    them.
    """

    number: int
    """Rises by one with every row."""
    time: Time
    """By the clock of the alert process."""
    step: Literal["HELD", "QUEUED", "PACKED", "SENT", "FAILED", "GIVEN_UP"]
    """HELD: no notification is sent, with a channel: to this one not before its hours begin. QUEUED: a notification
    goes to a channel, not before ``due_at``. PACKED: the notification is part of the named delivery and stays part of
    it. FAILED: the next attempt is at ``due_at``. SENT and GIVEN_UP are final."""
    detail: str
    """In words: the channel's error when it failed, or why it is given up; else empty."""
    channel: str | None
    """The name of the channel in the alerts file; null: the notification goes to none."""
    message: Literal["OPENED", "ESCALATED", "REMINDER", "RESOLVED"] | None
    """The kind of notification: OPENED (the incident began), ESCALATED (it became worse), REMINDER (it is still open),
    RESOLVED (it has ended); null if it is held."""
    key: str
    """The idempotency key, ``incident_id:seq:channel``, of a reminder and after a person's close with a further number:
    the same in every attempt, also after a crash."""
    delivery: str | None
    """The key of the message that contains the notification, alone or with others."""
    attempt: int
    """The number of attempts, this one included; 0: none yet."""
    due_at: Time | None
    """When the notification or the next attempt is due; null: nothing is."""
    cluster: str
    """The RocketMQ cluster."""
    group: str
    """Empty if the alert is about the job or a source."""
    incident_id: str
    """The incident, as in `anomalies`; of an alert about the job or the tables, of the alert process alone."""
    seq: int
    """The ``seq`` of the incident's transition in `anomalies`."""
    code: str
    """The rule, as in `anomalies`, or the code of an alert about the job or the tables."""
    severity: str
    """info, warning or critical, as in `anomalies`."""
    alert: str | None
    """The whole alert as JSON, in the first row of each key."""
    reason: DeliveryReason | None = None
    """Why it is held: SILENCED (a silence matches), UNDECIDED (another incident may still explain this one, until
    ``due_at``), OFF_HOURS (the hours of the channel's routes begin at ``due_at``), ABSORBED (another incident explains
    this one), NO_ROUTE (no route matches), NOT_NOTIFIED (it is resolved, and no channel was notified), RECLASSIFIED and
    DEESCALATED (transitions that are never sent), REBUILT (a rebuild gave the incident this id; nothing is sent again).
    SUMMARY: it is packed in a message that only counts. REJECTED: the channel failed because of the content. Null:
    none of these."""
    related_id: str | None = None
    """SILENCED: the silence; ABSORBED: the incident that explains this one; REBUILT: the incident's id before."""


class AlertControl(msgspec.Struct, frozen=True, kw_only=True):
    """A person's command: a silence or its end, or that an incident is acknowledged, closed or opened again."""

    time: Time
    """When the command was given, by the clock of the machine."""
    control: Literal["SILENCE", "END", "ACK", "CLOSE", "REOPEN"]
    """SILENCE: no notifications about what matches, until ``until``; END: that silence ends now; ACK: a person has seen
    the incident, so no reminders; CLOSE: it counts as resolved until it becomes worse; REOPEN: it no longer counts as
    closed."""
    control_id: str
    """The id of the silence, or of the incident."""
    cluster: str | None
    """The clusters of a silence, a name or glob; None: any."""
    group: str | None
    """The groups of a silence, a name or glob; null: any."""
    code: str | None
    """The codes of a silence, a name or glob; null: any."""
    until: Time | None
    """When the silence ends by itself."""
    reason: str
    """Why, in the person's words; may be empty."""
    author: str
    """The user who gave the command."""
    severity: Literal["info", "warning", "critical"] | None = None
    """The severity of an incident when it was closed, which counts only while it is no worse: info, warning or
    critical; null: the command closes nothing."""


class OperatorAction(msgspec.Struct, frozen=True, kw_only=True):
    """One action of a person or a program on alerts, or by SQL, done or not; rows are only appended."""

    time: Time
    """When it was asked for, by the clock of the machine that handled it."""
    subject: str
    """The identity of who did it: for the identity provider (claim `sub`) or the proxy; of a command the system's user;
    ``token``: who had the token; empty: someone on the dashboard's machine, where nobody signs in."""
    name: str
    """The name of the author: of a person who has signed in as the provider or proxy has it, else as that person or
    program gave it; may be empty."""
    source: Literal["PAGE", "REST", "MCP", "CLI"]
    """PAGE: on a page of the dashboard; REST: by a program; MCP: by a model's client; CLI: by a command."""
    action: Literal["ACKNOWLEDGE", "SILENCE", "UNSILENCE", "CLOSE", "REOPEN", "SQL"]
    """ACKNOWLEDGE: stop the reminders of an incident; SILENCE: hold back the alerts of what matches for a time;
    UNSILENCE: end a silence; CLOSE: let an incident count as resolved; REOPEN: undo that; SQL: run a query by REST or
    MCP."""
    target: str
    """The id of the incident or the silence, as it was named if it was not found; of a new silence the incident that it
    was made from, or what it matches; empty: SQL."""
    detail: str
    """The reason, in words of who did it, and of a silence how long; may be empty. Of SQL the query; after 4,000
    characters its length instead of the rest."""
    result: Literal["DONE", "REFUSED", "FAILED"]
    """DONE: it was done; REFUSED: who asked may not do it; FAILED: it could not be done."""
    message: str | None
    """Why it was not done; null: it was."""
    rows: int | None = None
    """The number of rows of the answer of SQL; null: another action, or no answer."""
