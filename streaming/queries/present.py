"""Determine the instant shown as now: the clock's, or the last row if telemetry has stopped."""

from typing import NamedTuple

from streaming.base.errors import NotReadyError
from streaming.base.times import now_ms
from streaming.queries.snapshot_interval import snapshot_interval_ms
from streaming.tables.observations import day
from streaming.tables.reader import ReadModel

SILENT_AFTER = 3
"""Every group is written each snapshot interval; after this many intervals without a row, telemetry has stopped."""

_POLLED_SINCE = f"""
SELECT max(p.time) AS last FROM queue_progress p
WHERE p.time > from_ms($last) AND p.source = 'POLL' AND p.date >= {day("$last")}
"""  # noqa: S608  parts of ours
"""The instant is a parameter so that files without such rows are skipped."""


def is_silent(last: int, now: int, snapshot_interval: int) -> bool:
    """Return whether rows have stopped by an instant, if the newest one until then has this time; milliseconds."""
    return now - last >= SILENT_AFTER * snapshot_interval


class Ends(NamedTuple):
    """The beginning and end of history, in epoch milliseconds."""

    first: int
    last: int
    """The time of the newest row."""
    live: int
    """The instant shown as now: the clock's, or `last` if telemetry has stopped."""
    silent: bool
    """Whether telemetry has stopped: the current state is unknown."""
    snapshot_interval: int
    """The interval in which every group is written, in milliseconds."""

    def is_silent(self, last: int, now: int) -> bool:
        """Return whether something had stopped reporting by an instant, if its newest row until then has this time."""
        return is_silent(last, now, self.snapshot_interval)

    def has_turned(self) -> bool:
        """Return whether `silent` has changed by the passage of time."""
        return ends(self.first, self.last, self.snapshot_interval).silent != self.silent


def ends(first: int, last: int, snapshot_interval: int, now: int | None = None) -> Ends:
    """Return the ends of history by the newest row and the clock; ``now`` replaces the clock."""
    now = now_ms() if now is None else now
    silent = is_silent(last, now, snapshot_interval)
    return Ends(first, last, last if silent else max(now, last), silent, snapshot_interval)


def known_ends(model: ReadModel) -> Ends | None:
    """Return the ends of history; None if there are no rows yet."""
    groups = model.span("group_state")
    if groups is None:
        return None
    first, last = groups
    last = max([last, *(span[1] for table in ("queue_state", "anomalies") if (span := model.span(table)))])
    observed = model.span("queue_progress")
    if observed is not None and observed[1] > last:  # perhaps by a hook, whose rows do not count
        [polled] = model.rows(_POLLED_SINCE, {"last": last})
        last = polled["last"] if polled["last"] is not None else last
    return ends(first, last, snapshot_interval_ms(model))


def history_ends(model: ReadModel) -> Ends:
    """Return the ends of history.

    Raises:
        NotReadyError: there are no rows yet.
    """
    found = known_ends(model)
    if found is None:
        raise NotReadyError("No consumer groups yet: they appear as soon as the job has processed telemetry.")
    return found


def present(model: ReadModel, at: int | None) -> int:
    """Return the instant at which quantities and ages are computed: the requested one, or now."""
    if at is not None:
        return at
    found = known_ends(model)
    return found.live if found is not None else now_ms()
