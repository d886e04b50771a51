"""Columns of queues, of the intervals and changes of their owners, and of rebalances."""

from typing import Literal

from streaming.base.language import gettext, marked
from streaming.queries import labels
from streaming.queries.columns.column import (
    SHORT_ID,
    ColumnValue,
    Context,
    ResultColumn,
    Table,
    client_or_none,
    counted,
    observed,
    plain,
    queue_column,
)
from streaming.queries.health import WithoutOwner
from streaming.queries.results import Interval, OwnerChange, Queue, QueueObservation, Rebalance, RebalanceMove

INTERVAL = Table(
    ResultColumn(Interval, "group"),
    ResultColumn(Interval, "client_id", "client", heading="Owner"),
    queue_column(Interval),
    ResultColumn(Interval, "from_time", "time", heading="From"),
    ResultColumn(Interval, "to_time", "time", lambda i, c: (
        ColumnValue(gettext("still"), "quiet") if i.to_time is None else plain("time", i.to_time, c)), "To"),
    ResultColumn(Interval, "duration_ms", "duration", lambda i, c: labels.duration(
        (c.now if i.to_time is None else i.to_time) - i.from_time), "Duration"),
    ResultColumn(Interval, "evidence", show=lambda i, _: labels.gained(i.evidence), heading="Acquired"),
    ResultColumn(Interval, "end_evidence", show=lambda i, _: (
        "" if i.end_evidence is None else labels.lost(i.end_evidence)), heading="Lost"),
    grid="group queue from_time to_time duration_ms evidence end_evidence",
    page="queue group from_time to_time duration_ms evidence end_evidence",
)  # fmt: skip
OWNER_CHANGE = Table(
    queue_column(OwnerChange),
    ResultColumn(OwnerChange, "from_client", "client", lambda c, _: (
        ColumnValue("did not exist", "quiet") if c.is_new and c.from_client is None
        else client_or_none(c.from_client))),
    ResultColumn(OwnerChange, "to_client", "client", lambda c, _: client_or_none(c.to_client)),
    grid="queue from_client to_client",
)  # fmt: skip


def _paused(milliseconds: int | None, *, at_most: bool) -> ColumnValue:
    hint = gettext("upper bound: polls give no exact times") if at_most else ""
    return ColumnValue(labels.pause(milliseconds, at_most=at_most), hint=hint)


def _duplicates(row: RebalanceMove | Rebalance, _: Context) -> str:
    return labels.estimate(row.reconsumed, row.reconsumed_min, row.reconsumed_max)


def _pause(move: RebalanceMove, _: Context) -> ColumnValue:
    if move.to_client is None:
        hint = gettext("When the rebalance was over, the queue had no owner.")
        return ColumnValue(gettext("not ended then"), "quiet", hint=hint)
    if move.pause_ms is None and move.from_client is None:
        return ColumnValue(gettext("first owner"), "quiet")
    return _paused(move.pause_ms, at_most=move.pause_is_at_most)


MOVE = Table(
    queue_column(RebalanceMove),
    ResultColumn(RebalanceMove, "kind", show=lambda m, _: labels.move_kind(m.kind)),
    ResultColumn(RebalanceMove, "from_client", "client", lambda m, _: client_or_none(m.from_client)),
    ResultColumn(RebalanceMove, "to_client", "client", lambda m, _: client_or_none(m.to_client)),
    ResultColumn(RebalanceMove, "pause_ms", "duration", _pause),
    ResultColumn(RebalanceMove, "reconsumed", "count", _duplicates),
    grid="queue kind from_client to_client pause_ms reconsumed",
    page="queue kind from_client to_client pause_ms reconsumed",
)


def _cause(rebalance: Rebalance, _: Context) -> ColumnValue:
    more = len(rebalance.causes) - 1
    return ColumnValue(labels.trigger(rebalance.trigger, None, 0), note=f"+{more}" if more > 0 else "")


def _trigger(rebalance: Rebalance, _: Context) -> ColumnValue:
    client = rebalance.trigger_client
    return ColumnValue(gettext("no client"), "quiet") if client is None else ColumnValue(client)


def _moved(rebalance: Rebalance, _: Context) -> ColumnValue:
    more = rebalance.queues_moved > rebalance.queues_moved_min
    return ColumnValue(labels.number(rebalance.queues_moved), "attention" if more else "")


def _paused_nothing(rebalance: Rebalance) -> bool:
    """Return whether it is known that no queue had an owner before; a list of rebalances may come without moves."""
    changed = rebalance.queues_moved or rebalance.queues_interrupted or rebalance.queues_unassigned
    return bool(rebalance.moves or not changed) and not any(move.from_client for move in rebalance.moves)


def _longest_pause(rebalance: Rebalance, _: Context) -> ColumnValue:
    """Show the longest pause; there is none if no queue had an owner before."""
    if rebalance.pause_ms_max is None and _paused_nothing(rebalance):
        return ColumnValue(gettext("none"), "quiet")
    return _paused(rebalance.pause_ms_max, at_most=rebalance.pause_is_at_most)


def _total_pause(rebalance: Rebalance, _: Context) -> ColumnValue:
    """Show the sum of the pauses: a lower bound if that of a queue is unknown."""
    if rebalance.pause_ms_sum is None:
        return ColumnValue(gettext("none"), "quiet") if _paused_nothing(rebalance) else ColumnValue(labels.NOT_KNOWN)
    at_most = any(move.pause_is_at_most for move in rebalance.moves if move.pause_ms is not None)
    pause = _paused(rebalance.pause_ms_sum, at_most=at_most)
    unknown = sum(move.pause_ms is None and move.from_client is not None for move in rebalance.moves)
    if not unknown:
        return pause
    hint = gettext("The pauses of {n} further queues are unknown.", n=f"{unknown:,}")
    return ColumnValue(f"≥{labels.duration(rebalance.pause_ms_sum)}", hint=hint)


DURATION_MEANING = marked("From the first cause until the last queue changed its owner.")
LONGEST_MEANING = marked("The longest time for which a queue was not consumed while its owner changed.")
TOTAL_MEANING = marked("The sum of the pauses of all its queues.")
REBALANCE = Table(
    ResultColumn(Rebalance, "start_time", "time"),
    ResultColumn(Rebalance, "duration", "duration", lambda r, _: labels.duration(r.end_time - r.start_time), "Duration",
                 ("start_time", "end_time"), meaning=DURATION_MEANING, spare=True),
    ResultColumn(Rebalance, "trigger", show=_cause, wide=True),
    ResultColumn(Rebalance, "trigger_client", "client", _trigger, wide=True),
    ResultColumn(Rebalance, "members", "line",
                 lambda r, _: f"{len(r.members_before)} → {len(r.members_after)}", "Members",
                 ("members_before", "members_after")),
    ResultColumn(Rebalance, "queues_moved", "count", _moved),
    ResultColumn(Rebalance, "queues_moved_min", "count", spare=True),
    ResultColumn(Rebalance, "queues_interrupted", "count", spare=True),
    ResultColumn(Rebalance, "queues_unassigned", "count", lambda r, _: counted(r.queues_unassigned)),
    ResultColumn(Rebalance, "pause_ms_max", "duration", _longest_pause, meaning=LONGEST_MEANING),
    ResultColumn(Rebalance, "pause_ms_sum", "duration", _total_pause, "Total pause", ("moves",), meaning=TOTAL_MEANING,
           spare=True),
    ResultColumn(Rebalance, "pause_ms_p50", "duration",
                 lambda r, _: _paused(r.pause_ms_p50, at_most=r.pause_is_at_most)),
    ResultColumn(Rebalance, "reconsumed", "count", _duplicates, spare=True, wide=True),
    ResultColumn(Rebalance, "converged", show=lambda r, _: ColumnValue(
        labels.yes_no(r.converged), "attention" if r.converged is False else ""), spare=True),
    ResultColumn(Rebalance, "rebalance_id", show=lambda r, _: ColumnValue(r.rebalance_id[:SHORT_ID], "quiet")),
    grid="start_time trigger trigger_client members queues_moved queues_moved_min queues_interrupted queues_unassigned"
    " duration pause_ms_max pause_ms_sum reconsumed converged rebalance_id",
    page="start_time duration trigger trigger_client members queues_moved queues_moved_min queues_interrupted"
    " queues_unassigned pause_ms_max pause_ms_sum reconsumed converged",
)  # fmt: skip


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
