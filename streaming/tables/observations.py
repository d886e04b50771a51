"""The progress series with one row per queue: the view `queue_observations` over rows of arrays.

It covers the answers themselves and the rollups that `maintain` makes of them, per minute and per five minutes: for a
day that has all three, a reader selects the finest by ``level``. Each engine has its own SQL for arrays, so the SELECT
is generated here and not kept in a file; a new column of the contract becomes a new column of the view. Neither engine
skips an array that a query does not use, so a query of few columns unnests only these (`in_duckdb`).
"""

from collections.abc import Collection
from typing import NamedTuple

from rebalance_model.entities import TIME_MAX
from schemas.tables import ListOf, columns

VIEW = "queue_observations"
RAW = 2
LEVELS = {"queue_progress": RAW, "queue_progress_minute": 1, "queue_progress_5min": 0}
"""The tables, the finest with the highest number."""
_WHOLE = [c.name for c in columns("queue_progress") if not isinstance(c.type, ListOf) and c.name != "time"]
_EACH = [c.name for c in columns("queue_progress") if isinstance(c.type, ListOf)]
_PLACE = ("topic", "queue_id")


class Seen(NamedTuple):
    """The source whose rows a function of an instant reads: three of four are clients', most queries need one."""

    only: str
    """The condition for a row."""
    reported: frozenset[str]
    """The arrays that such rows have; the others are null, and are not unnested."""


_OF_CLIENTS = frozenset({*_PLACE, "cached_count", "lock_at", "pull_at", "consume_at"})
SEEN = {
    "brokers_seen_at": Seen("client_id IS NULL", frozenset(_EACH) - {"cached_count", "consume_at"}),
    "clients_seen_at": Seen("client_id IS NOT NULL", _OF_CLIENTS),
}
"""The functions of an instant that return the last observed quantities of each queue
(`rebalance_model.observe.progress.answers`)."""


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
            WHERE k.time > instant - INTERVAL '15' MINUTE AND k.time <= instant AND k.date BETWEEN {first} AND {last}
                AND k.{only}
            GROUP BY
                k.cluster, k.group, k.broker, k.source, k.kind, coalesce(k.client_id, ''), k.topic, k.queue_id
        ) s
    ) l
        ON l.cluster = a.cluster AND l.group = a.group AND l.broker = a.broker AND l.source = a.source
        AND l.kind = a.kind AND l.client = coalesce(a.client_id, '') AND l.last_time = a.time
    WHERE a.time > instant - INTERVAL '15' MINUTE AND a.time <= instant AND a.date BETWEEN {first} AND {last}
        AND a.{only}
)"""
"""The answers of the 15 minutes before ``instant``, the last of each kind about the same queues: an answer has the full
state of its queues, so earlier ones add nothing, and their arrays need not be unnested."""


LOOK_BACK_MS = 900_000
"""An observation before this is ignored, not stale; see `UnnestDialect.seen` for rows with long intervals."""
_AGO, _SOON = f"epoch_ms(instant) - {LOOK_BACK_MS}", "epoch_ms(instant) + 300000"
_LONG_AGO = "epoch_ms(instant) - 3900000"


class UnnestDialect(NamedTuple):
    """The expressions by which an engine unnests arrays."""

    element: str
    """An element of the array ``{0}``."""
    lateral: str
    """The join after the table that provides it."""

    def view(self) -> str:
        """Return the SELECT of `VIEW`."""
        return "\nUNION ALL\n".join(_unnested(table, level, self, _EACH) for table, level in LEVELS.items())

    def seen(self, seen: Seen) -> str:
        """Return the SELECT of one of `SEEN`, with the parameter ``instant``.

        It looks back 15 minutes, or three intervals of a row if that is more, up to 65 minutes. The rows are read in
        parts so that the reader's statistics apply: for those with a long interval, files and row groups without one
        are not read. They are unnested together: DuckDB takes longer to plan a query than to answer it. ``row_time`` is
        the time in these statistics, and none of a row's observations is later.
        """
        last = _LAST_ANSWERS.format(first=day(_AGO), last=day("epoch_ms(instant)"), only=seen.only)
        arrays = [name for name in _EACH if name in seen.reported]
        names = ", ".join(f"p.{name}" for name in (*_WHOLE, *arrays))

        def read(table: str, level: int) -> str:
            observed_at = "NULL" if level == RAW else "p.observed_at"
            return f"SELECT {names}, {level} AS level, p.time AS row_time, {observed_at} AS observed_at FROM {table} p"  # noqa: S608  parts of ours

        raw, *rolled_up = (read(table, level) for table, level in LEVELS.items())
        rows = f"""
{read(last, RAW)}
UNION ALL
SELECT p.* FROM ({" UNION ALL ".join(rolled_up)}) p
WHERE p.{seen.only} AND p.interval_ms <= 300000 AND p.row_time > instant - INTERVAL '15' MINUTE
    AND p.row_time <= instant + INTERVAL '5' MINUTE AND p.date BETWEEN {day(_AGO)} AND {day(_SOON)}
UNION ALL
SELECT p.* FROM ({" UNION ALL ".join([raw, *rolled_up])}) p
WHERE p.{seen.only} AND p.interval_ms > 300000 AND p.row_time > instant - INTERVAL '65' MINUTE
    AND p.row_time <= instant + INTERVAL '5' MINUTE AND p.date BETWEEN {day(_LONG_AGO)} AND {day(_SOON)}
    AND (p.level < {RAW} OR p.row_time <= instant - INTERVAL '15' MINUTE)
"""  # noqa: S608  parts of ours
        return f"""
SELECT o.*, {rank("o")} AS rank
FROM ({_unnested(f"({rows})", "p.level", self, _EACH, arrays)}) o
WHERE o.time <= instant AND (
    o.time > instant - INTERVAL '15' MINUTE
    OR o.interval_ms > 300000 AND epoch_ms(o.time) > epoch_ms(instant) - 3 * o.interval_ms
)
"""  # noqa: S608  parts of ours


IN_DUCKDB = UnnestDialect("unnest(p.{0})", "")
"""If arrays differ in length, the missing elements are null."""
_IN_DUCKDB_PLACES = UnnestDialect("unnest(list_select(p.{0}, p.places))", "")
IN_SPARK = UnnestDialect("z.{0}", " LATERAL VIEW inline(arrays_zip({arrays})) z AS {names}")


def rank(alias: str) -> str:
    """Return the SQL for the rank of an observation: it increases with the time and the resolution of the table."""
    return f"epoch_ms({alias}.time) * 4 + {alias}.level"


def day(time_ms: str) -> str:
    """Return the SQL for the day of an instant, epoch milliseconds in SQL.

    It is the tables' partition column: files of other days are not read.
    """
    return f"CAST('1970-01-01' AS DATE) + CAST(floor(least({time_ms}, {TIME_MAX}) / 86400000) AS INTEGER)"


def in_duckdb(table: str, rows: str, names: Collection[str], topics: str = "") -> str:
    """Return the SELECT that unnests a table's rows with only these columns of its arrays, topic and queue id.

    ``rows`` is its name, or a relation of the same columns. ``topics`` has the topics of the elements, in SQL: ``$one,
    $another``; empty: all.
    """
    columns = [*_PLACE, *names]
    if not topics:
        return _unnested(rows, LEVELS[table], IN_DUCKDB, columns)
    places = f"list_filter(range(1, len(r.topic) + 1), lambda place: r.topic[place] IN ({topics}))"
    return _unnested(f"(SELECT r.*, {places} AS places FROM {rows} r)", LEVELS[table], _IN_DUCKDB_PLACES, columns)  # noqa: S608  parts of ours


def _unnested(
    rows: str, level: int | str, words: UnnestDialect, each: Collection[str], reported: Collection[str] = _EACH
) -> str:
    """Return the SELECT that unnests the arrays that are reported; of ``each``, the others are null.

    ``level`` is SQL if the relation has several, and ``row_time``.
    """
    present = [name for name in each if name in reported]
    names = present if level == RAW else [*present, "observed_at"]
    arrays = ", ".join(f"coalesce(p.{name}, array())" for name in names)  # null in rows that are older than the column
    after = words.lateral.format(arrays=arrays, names=", ".join(names))
    observed_at, row_time = words.element.format("observed_at"), "p.time"
    time = "p.time" if level == RAW else observed_at
    if isinstance(level, str):
        time, row_time = f"coalesce({observed_at}, p.row_time)", "p.row_time"
    whole = ", ".join(f"p.{name}" for name in _WHOLE)
    taken = ", ".join(f"{words.element.format(name) if name in present else 'NULL'} AS {name}" for name in each)
    return f"SELECT {whole}, {level} AS level, {row_time} AS row_time, {time} AS time, {taken} FROM {rows} p{after}"  # noqa: S608  parts of ours
