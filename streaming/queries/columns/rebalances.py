"""The columns of a rebalance and of its moves."""

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
    queue_column,
)
from streaming.queries.results import Rebalance, RebalanceMove


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
