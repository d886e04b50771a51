"""The progress series with a row for each queue: the view `queue_observations` over rows of arrays.

It spans the answers themselves and the rollups that `maintain` makes of them, a row a minute and one in five: of a day
that has all three, a reader takes the finest by ``level``. Each engine has its own SQL for arrays, so the SELECT is
generated here and not kept in a file; a new column of the contract is a new column of the view. Neither engine skips an
array that a query does not use: a query of few columns unnests these alone (`in_duckdb`).
"""

from collections.abc import Collection
from typing import NamedTuple

from schemas.columns import ListOf
from schemas.tables import columns

VIEW = "queue_observations"
SEEN = "seen_at"
"""The function of an instant that gives what was last seen of each queue's quantities."""
RAW = 2
LEVELS = {"queue_progress": RAW, "queue_progress_minute": 1, "queue_progress_5min": 0}
"""The tables, the finest with the highest number."""
_END = 253_402_300_799_999
"""The end of the year 9999, epoch milliseconds."""
_WHOLE = [c.name for c in columns("queue_progress") if not isinstance(c.type, ListOf) and c.name != "time"]
_EACH = [c.name for c in columns("queue_progress") if isinstance(c.type, ListOf)]


_LAST_ANSWERS = """(
    SELECT a.*
    FROM queue_progress a
    JOIN (
        SELECT DISTINCT s.cluster, s.group, s.broker, s.source, s.kind, s.client, s.last_time
        FROM (
            SELECT
                k.cluster, k.group, k.broker, k.source, k.kind, coalesce(k.client_id, '') AS client,
                max(k.time) AS last_time
            FROM queue_progress k
            WHERE k.time > instant - 900000 AND k.time <= instant AND k.date BETWEEN {first} AND {last}
            GROUP BY
                k.cluster, k.group, k.broker, k.source, k.kind, coalesce(k.client_id, ''), k.topic, k.queue_id
        ) s
    ) l
        ON l.cluster = a.cluster AND l.group = a.group AND l.broker = a.broker AND l.source = a.source
        AND l.kind = a.kind AND l.client = coalesce(a.client_id, '') AND l.last_time = a.time
    WHERE a.time > instant - 900000 AND a.time <= instant AND a.date BETWEEN {first} AND {last}
)"""
"""The answers of the 15 minutes before ``instant``, the last of each kind about the same queues: an answer has the full
state of its queues, so earlier ones add nothing, and their arrays need not be unnested."""


class Words(NamedTuple):
    """How an engine unnests arrays."""

    element: str
    """An element of the array ``{0}``."""
    lateral: str
    """The join after the table that provides it."""

    def view(self) -> str:
        """Return the SELECT of `VIEW`."""
        return _union(self, LEVELS, _EACH)

    def seen(self) -> str:
        """Return the SELECT of `SEEN`, with the parameter ``instant`` (epoch milliseconds).

        It looks back 15 minutes, or three intervals of a row where that is more, up to 65 minutes. The parts are for
        the reader's statistics: files and row groups without a long interval are never read for the last one;
        ``row_time`` is the time in these statistics. ``rank`` rises with the time, and with how fine the table is.
        """
        rolled_up = {table: level for table, level in LEVELS.items() if level != RAW}
        return f"""
SELECT r.*, r.time * 4 + r.level AS rank
FROM ({_of(_LAST_ANSWERS.format(first=day("instant - 900000"), last=day("instant")), RAW, self, _EACH)}) r
UNION ALL
SELECT a.*, a.time * 4 + a.level AS rank
FROM ({_union(self, rolled_up, _EACH)}) a
WHERE a.row_time > instant - 900000 AND a.row_time <= instant + 300000
    AND a.date BETWEEN {day("instant - 900000")} AND {day("instant + 300000")}
    AND a.time > instant - 900000 AND a.time <= instant
UNION ALL
SELECT b.*, b.time * 4 + b.level AS rank
FROM {VIEW} b
WHERE b.row_time > instant - 3900000 AND b.row_time <= instant + 300000 AND b.interval_ms > 300000
    AND b.date BETWEEN {day("instant - 3900000")} AND {day("instant + 300000")}
    AND b.time > instant - 3 * b.interval_ms AND b.time <= instant - 900000
"""  # noqa: S608  parts of ours


IN_DUCKDB = Words("unnest(p.{0})", "")
"""Shorter ones of arrays with different lengths give null."""
IN_SPARK = Words("z.{0}", " LATERAL VIEW inline(arrays_zip({arrays})) z AS {names}")


def day(time: str) -> str:
    """Return the SQL for the day of an instant, the tables' partition column: files of other days are not read.

    Args:
        time: the instant (epoch milliseconds), in SQL.
    """
    return f"CAST('1970-01-01' AS DATE) + CAST(floor(least({time}, {_END}) / 86400000) AS INTEGER)"


def in_duckdb(table: str, rows: str, wanted: Collection[str]) -> str:
    """Return the SELECT that unnests a table's rows with only these columns of its arrays, topic and queue id.

    Args:
        table: one of `LEVELS`.
        rows: the source of its rows: its name, or a relation of the same columns.
        wanted: columns.
    """
    return _of(rows, LEVELS[table], IN_DUCKDB, ["topic", "queue_id", *wanted])


def _union(words: Words, levels: dict[str, int], each: Collection[str]) -> str:
    """Return the union of several levels."""
    return "\nUNION ALL\n".join(_of(table, level, words, each) for table, level in levels.items())


def _of(rows: str, level: int, words: Words, each: Collection[str]) -> str:
    rolled_up = level < RAW
    names = [*each, "observed_at"] if rolled_up else each
    after = words.lateral.format(arrays=", ".join(f"p.{name}" for name in names), names=", ".join(names))
    time = words.element.format("observed_at") if rolled_up else "p.time"
    whole = ", ".join(f"p.{name}" for name in _WHOLE)
    taken = ", ".join(f"{words.element.format(name)} AS {name}" for name in each)
    return f"SELECT {whole}, {level} AS level, p.time AS row_time, {time} AS time, {taken} FROM {rows} p{after}"  # noqa: S608  parts of ours
