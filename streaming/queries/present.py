"""Which instant "now" is: the clock's, or the end of what the tables hold where telemetry has stopped."""

from typing import NamedTuple

from streaming.errors import UserError
from streaming.queries.retold import retold_ms
from streaming.read_model.observations import day
from streaming.read_model.reader import ReadModel
from streaming.times import now_ms

SILENT_AFTER = 3
"""Every group is written every snapshot interval; after so many of them without a row none comes."""

_WRITTEN = "SELECT min(g.time) AS first, max(g.time) AS last FROM group_state g"
_WRITTEN_SINCE = f"""
SELECT max(t.time) AS last
FROM (
    SELECT q.time FROM queue_state q WHERE q.time > $last
    UNION ALL SELECT a.time FROM anomalies a WHERE a.time > $last
    UNION ALL SELECT p.time FROM queue_progress p
    WHERE p.time > $last AND p.source = 'POLL' AND p.date >= {day("$last")}
) t
"""  # noqa: S608  parts of ours
"""With the instant as a parameter, most files are known not to have such rows."""


class Ends(NamedTuple):
    """Where history begins and ends."""

    first: int
    last: int
    """When the newest row was."""
    live: int
    """What "now" is: the clock's now, or `last` where the tables have been silent for too long."""
    silent: bool
    """Whether there has been no row for so long that nothing can be said of now."""
    retold: int
    """Within what time every group is written anew; see `streaming.queries.retold`."""

    def is_silent(self, last: int) -> bool:
        """Whether what had its newest row at an instant has been silent for too long."""
        return self.live - last >= SILENT_AFTER * self.retold

    def has_turned(self) -> bool:
        """Whether time alone has made the tables silent, or not silent, since this was worked out."""
        return ends(self.first, self.last, self.retold).silent != self.silent


def ends(first: int, last: int, retold: int, now: int | None = None) -> Ends:
    """Where history ends, by the clock (``now``, if it isn't given) and by the newest row."""
    now = now_ms() if now is None else now
    silent = now - last >= SILENT_AFTER * retold
    return Ends(first, last, last if silent else max(now, last), silent, retold)


def known_ends(model: ReadModel) -> Ends | None:
    """Return where history begins and ends; None where there is no row yet."""
    [found] = model.rows(_WRITTEN)
    if found["first"] is None:
        return None
    [since] = model.rows(_WRITTEN_SINCE, {"last": found["last"]})
    last = since["last"] if since["last"] is not None else found["last"]
    return ends(found["first"], last, retold_ms(model))


def told_ends(model: ReadModel) -> Ends:
    """Return where history begins and ends.

    Raises:
        UserError: there is no row yet.
    """
    found = known_ends(model)
    if found is None:
        raise UserError("No group has been seen yet: they appear here as soon as the job has told of one.")
    return found


def present(model: ReadModel, at: int | None) -> int:
    """Return the instant for which quantities and ages are worked out: the one asked for, else now."""
    if at is not None:
        return at
    found = known_ends(model)
    return found.live if found is not None else now_ms()
