"""The columns of a queue, and of what was observed of one."""

from typing import Literal

from streaming.base.language import gettext
from streaming.queries import labels
from streaming.queries.columns.column import ColumnValue, Context, ResultColumn, Table, observed, queue_column
from streaming.queries.results import Queue, QueueObservation
from streaming.queries.without_owner import WithoutOwner


def _owner(queue: Queue, context: Context) -> ColumnValue:
    if queue.owner is not None:
        return ColumnValue(queue.owner)
    if queue.shared_by:
        return ColumnValue(WithoutOwner.SHARED.label, "quiet", labels.some(queue.shared_by))
    without = context.without_owner
    if queue.is_stale and without is not WithoutOwner.UNKNOWN:
        return ColumnValue(without.label, "stale", gettext("last known"))
    return ColumnValue(without.label, "unassigned" if without is WithoutOwner.UNASSIGNED else "quiet")


def _expected(queue: Queue, _: Context) -> ColumnValue:
    if queue.owner is not None and queue.owner == queue.expected_owner:
        return ColumnValue(gettext("as expected"), "quiet")
    return ColumnValue(queue.expected_owner or labels.NOT_KNOWN, "attention" if queue.is_elsewhere else "")


def _lag(queue: Queue, _: Context) -> ColumnValue:
    bound: Literal["≥", ""] = "≥" if queue.lag_is_at_least else ""
    lag = observed(labels.number(queue.lag), queue.lag_age_ms, is_stale=queue.lag_is_stale, bound=bound)
    if queue.in_flight_age_ms is None:
        return lag
    in_flight = gettext(
        "{count} in flight, the oldest for {duration} or longer",
        count=labels.number(queue.in_flight),
        duration=labels.duration(queue.in_flight_age_ms),
    )
    return lag._replace(note="; ".join(filter(None, (in_flight, lag.note))))


def _waiting(queue: Queue, _: Context) -> ColumnValue:
    bound: Literal["≤", ""] = "≤" if queue.waiting_is_at_most else ""
    shown = labels.duration(queue.waiting_ms)
    return observed(shown, queue.waiting_age_ms, is_stale=queue.waiting_is_stale, bound=bound)


def _cached(queue: Queue, _: Context) -> ColumnValue:
    return observed(labels.number(queue.cached_count), queue.cached_age_ms, is_stale=queue.cached_is_stale)


def _lock(queue: Queue, _: Context) -> ColumnValue:
    if queue.locked is False:
        return ColumnValue(gettext("not locked"), "attention")
    return _reported(labels.duration(queue.lock_age_ms), is_stale=queue.lock_is_stale)


def _reported(text: str, *, is_stale: bool) -> ColumnValue:
    """Show an age, and whether what it counts from may be out of date."""
    return ColumnValue(text, "stale", gettext("stale")) if is_stale and text != labels.NOT_KNOWN else ColumnValue(text)


def _pulled(queue: Queue, _: Context) -> ColumnValue:
    return _reported(labels.ago(queue.pull_age_ms), is_stale=queue.pull_is_stale)


def _consumed(queue: Queue, _: Context) -> ColumnValue:
    return _reported(labels.ago(queue.consume_age_ms), is_stale=queue.consume_is_stale)


def _status(queue: Queue, _: Context) -> ColumnValue:
    text = f"{queue.status} {labels.reason(queue.status_reason)}".rstrip()
    if queue.is_stale and queue.status != "UNKNOWN":
        return ColumnValue(text, "stale" if queue.status == "OK" else queue.status, gettext("stale"))
    return ColumnValue(text, queue.status)


QUEUE = Table(
    queue_column(Queue),
    ResultColumn(Queue, "owner", "client", _owner, wide=True),
    ResultColumn(Queue, "since", "time", spare=True),
    ResultColumn(Queue, "expected_owner", "client", _expected),
    ResultColumn(Queue, "lag", "count", _lag),
    ResultColumn(Queue, "lag_age_ms", "duration"),
    ResultColumn(Queue, "waiting_ms", "duration", _waiting, spare=True),
    ResultColumn(Queue, "lock_age_ms", "duration", _lock, spare=True),
    ResultColumn(Queue, "pull_age_ms", "duration", _pulled, spare=True),
    ResultColumn(Queue, "consume_age_ms", "duration", _consumed, spare=True),
    ResultColumn(Queue, "cached_count", "count", _cached, spare=True),
    ResultColumn(Queue, "status", show=_status, wide=True),
    ResultColumn(Queue, "time", "time"),
    grid="queue owner since expected_owner lag lag_age_ms waiting_ms lock_age_ms pull_age_ms consume_age_ms status",
    page="queue status owner since expected_owner lag waiting_ms lock_age_ms pull_age_ms consume_age_ms cached_count"
    " time",
)


def _observed_lag(row: QueueObservation, _: Context) -> str:
    bound = "≥" if row.lag_is_at_least and row.lag is not None else ""
    return f"{bound}{labels.number(row.lag)}"


def _observed_waiting(row: QueueObservation, _: Context) -> str:
    return f"{'≤' if row.waiting_is_at_most else ''}{labels.duration(row.waiting_ms)}"


def _observed_by(row: QueueObservation, _: Context) -> str:
    return "hook" if row.source == "HOOK" else f"answer of {row.client_id or 'the broker'}"


OBSERVATION = Table(
    ResultColumn(QueueObservation, "time", "time"),
    ResultColumn(QueueObservation, "source", show=_observed_by),
    ResultColumn(QueueObservation, "broker_offset", "count"),
    ResultColumn(QueueObservation, "commit_offset", "count"),
    ResultColumn(QueueObservation, "lag", "count", _observed_lag),
    ResultColumn(QueueObservation, "waiting_ms", "duration", _observed_waiting, spare=True),
    ResultColumn(QueueObservation, "lock_at", "time", spare=True),
    grid="time source broker_offset commit_offset lag waiting_ms lock_at",
)
