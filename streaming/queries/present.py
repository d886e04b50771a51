"""Determine the instant shown as now: the clock's, or the last row if telemetry has stopped."""

from collections.abc import Iterable
from typing import NamedTuple

from streaming.base.errors import NotReadyError
from streaming.base.language import gettext
from streaming.base.times import now_ms
from streaming.queries.snapshot_interval import snapshot_interval_ms
from streaming.tables.observations import day
from streaming.tables.reader import ReadModel

STATE_MISSED = 3
"""Every group is written each snapshot interval; after this many intervals without a row, telemetry has stopped."""
UNHEARD_AFTER = 180_000
"""Every source sends a TICK each second, and polls have answers each round: after this long without any, telemetry has
stopped; milliseconds."""

_HEARD = f"""
SELECT max(h.time) AS last FROM (
    SELECT p.time, p.cluster FROM queue_progress p
    WHERE p.time > from_ms($since) AND p.time <= from_ms($until) AND p.source = 'POLL'
        AND p.date BETWEEN {day("$since")} AND {day("$until")}
    UNION ALL
    SELECT e.time, e.cluster FROM telemetry e
    WHERE e.time > from_ms($since) AND e.time <= from_ms($until) AND e.date BETWEEN {day("$since")} AND {day("$until")}
) h
WHERE $cluster IS NULL OR h.cluster = $cluster
"""  # noqa: S608  parts of ours
"""By the sources' clocks: a recording is ingested later. Hooks' quantities do not count: none come while a group has no
clients."""


class Ends(NamedTuple):
    """The beginning and end of history, in epoch milliseconds."""

    first: int
    last: int
    """The time of the newest row."""
    live: int
    """The instant shown as now: the clock's, or `last` if telemetry has stopped."""
    silent: bool
    """Whether telemetry has stopped: the current state is unknown."""
    silent_after: int
    """How long after the newest row telemetry has stopped, in milliseconds."""

    def by(self, now: int | None = None) -> "Ends":
        """Return the ends if nothing has been heard by another time; by default the clock's."""
        return ends(self.first, self.last, self.silent_after, now)

    def instant(self, at: int | None) -> int:
        """Return the instant that is shown: a given one, or the one shown as now; epoch milliseconds."""
        return self.live if at is None else at

    def has_turned(self) -> bool:
        """Return whether `silent` has changed by the passage of time."""
        return self.by().silent != self.silent


def ends(first: int, last: int, silent_after: int, now: int | None = None) -> Ends:
    """Return the ends of history by the newest row and the clock; ``now`` replaces the clock."""
    now = now_ms() if now is None else now
    silent = now - last >= silent_after
    return Ends(first, last, last if silent else max(now, last), silent, silent_after)


def last_heard(model: ReadModel, last: int, now: int, cluster: str | None = None) -> tuple[int, int]:
    """Return when telemetry was last heard by an instant, and how long after that it has stopped; milliseconds.

    Without polls and without the archive only the rows of state show that telemetry goes on.

    Args:
        model: the tables.
        last: the time of the newest row of state by the instant, epoch milliseconds.
        now: the instant, epoch milliseconds.
        cluster: the cluster; None: any.
    """
    if now - last < UNHEARD_AFTER:
        return last, UNHEARD_AFTER
    [heard] = model.rows(_HEARD, {"since": last - UNHEARD_AFTER, "until": now, "cluster": cluster})
    if heard["last"] is None:
        return last, STATE_MISSED * snapshot_interval_ms(model)
    return max(last, heard["last"]), UNHEARD_AFTER


def known_ends(model: ReadModel) -> Ends | None:
    """Return the ends of history; None if there are no rows yet."""
    groups = model.span("group_state")
    if groups is None:
        return None
    first, last = groups
    last = max([last, *(span[1] for table in ("queue_state", "anomalies") if (span := model.span(table)))])
    now = now_ms()
    last, silent_after = last_heard(model, last, now)
    return ends(first, last, silent_after, now)


class Silence:
    """Whether the telemetry of groups had stopped by an instant."""

    def __init__(self, model: ReadModel, now: int, groups: Iterable[tuple[str, int]]) -> None:
        """Ask when each cluster was last heard.

        Args:
            model: the tables.
            now: the instant, epoch milliseconds.
            groups: of each group its cluster and the time of its last row.
        """
        newest: dict[str, int] = {}
        for cluster, time in groups:
            newest[cluster] = max(newest.get(cluster, 0), time)
        self._now, self._by_state = now, STATE_MISSED * snapshot_interval_ms(model)
        self._heard = {cluster: last_heard(model, last, now, cluster) for cluster, last in newest.items()}

    def since(self, cluster: str, last: int) -> int | None:
        """Return since when a group whose last row has this time was silent, epoch milliseconds; None: it was not."""
        heard, silent_after = self._heard[cluster]
        if self._now - heard >= silent_after:
            return heard
        return last if self._now - last >= self._by_state else None


def history_ends(model: ReadModel) -> Ends:
    """Return the ends of history.

    Raises:
        NotReadyError: there are no rows yet.
    """
    found = known_ends(model)
    if found is None:
        raise NotReadyError(gettext("No consumer groups yet: they appear as soon as the job has processed telemetry."))
    return found


def present(model: ReadModel, at: int | None) -> int:
    """Return the instant at which quantities and ages are computed: the requested one, or now."""
    if at is not None:
        return at
    found = known_ends(model)
    return found.live if found is not None else now_ms()
