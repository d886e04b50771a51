"""Roll up the progress series of each finished day: one row per minute, and from these one per five minutes.

The answers themselves are many (a day of 1,000 groups at 2 brokers: 17 million), so whole days of them are dropped
after some days (settings: ``[tables]``). The rollup keeps for each period the last observation of every queue with its
time, and the minimum and maximum of lag and waiting time. It has the columns of the answers, so readers query one view
for all three.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import pairwise

from deltalake import CommitProperties, DeltaTable

from schemas.arrow import arrow_schema
from schemas.contract import Operation
from schemas.tables import ListOf, columns
from streaming.base.place import Place
from streaming.tables.append import append
from streaming.tables.database import connected
from streaming.tables.delta import delta_at
from streaming.tables.files import files_of, select
from streaming.tables.folder import folder_at
from streaming.tables.versions import USER_METADATA, named

SERIES = ("queue_progress", "queue_progress_minute", "queue_progress_5min")
"""The tables of the series, the finest first."""
_SPANS_MS = {"queue_progress_minute": 60_000, "queue_progress_5min": 300_000}
_LATE_MS = 3_600_000
"""The delay after a day's end before it is rolled up; later rows are only in the answers' own table."""
_EXTREMES = {
    "lag_min": ("min", "lag"),
    "lag_max": ("max", "lag"),
    "waiting_ms_min": ("min", "waiting_ms"),
    "waiting_ms_max": ("max", "waiting_ms"),
}
_SUBJECT = ("cluster", "group", "broker", "client_id", "source", "kind")
_EACH = [
    c.name for c in columns("queue_progress") if isinstance(c.type, ListOf) and c.name not in {"topic", "queue_id"}
]


@dataclass(frozen=True)
class RolledUp:
    """A day that was rolled up."""

    table: str
    day: date
    rows: int


def roll_up(tables: Place, now: int) -> list[RolledUp]:
    """Roll up every finished day that was not yet: each level from the one before it; return these days in order.

    The caller holds `maintained`; ``now`` is epoch milliseconds.
    """
    last = str(datetime.fromtimestamp((now - _LATE_MS) / 1000, UTC).date())
    done: list[RolledUp] = []
    for finer, coarser in pairwise(SERIES):
        rolled_up = {file.partition[0] for file in files_of(coarser, delta_at(tables / coarser))}
        source = delta_at(tables / finer)
        days = {file.partition[0] for file in files_of(finer, source)}
        done += [_day(tables, source, finer, coarser, day) for day in sorted(days - rolled_up) if day < last]
    return done


def _day(tables: Place, source: DeltaTable, finer: str, coarser: str, day: str) -> RolledUp:
    """Roll up one day in one commit, so that a reader sees all of it or nothing."""
    files = [file for file in files_of(finer, source) if file.partition == (day,)]
    folder = folder_at(tables / finer)
    folder.fetch(files)
    rows = select(finer, folder.path, files)
    with connected(folder.path) as database:
        summary = database.sql(_query(rows, finer, _SPANS_MS[coarser])).to_arrow_table()
    schema = arrow_schema(coarser)
    made = CommitProperties(custom_metadata={USER_METADATA: named(Operation.MAINTAIN, f"rolled up {day}")})
    append(tables / coarser, summary.select(schema.names).cast(schema), made)
    return RolledUp(coarser, date.fromisoformat(day), summary.num_rows)


def _query(rows: str, table: str, span_ms: int) -> str:
    """Return the SELECT of the rollup: each queue's last row of a period, then a subject's queues as arrays."""
    rolled_up = table != SERIES[0]
    time = "unnest(p.observed_at)" if rolled_up else "p.time"
    extremes = {name: f"unnest(p.{name if rolled_up else of})" for name, (_, of) in _EXTREMES.items()}
    subject = ", ".join(f'"{name}"' for name in _SUBJECT)
    queues = ", ".join([
        *(f"unnest(p.{name}) AS {name}" for name in ("topic", "queue_id", *_EACH)),
        *(f"{form} AS {name}" for name, form in extremes.items()),
    ])  # fmt: skip
    lasts = ", ".join([
        *(f"arg_max_null({name}, observed_at) AS {name}" for name in _EACH),
        *(f"{function}({name}) AS {name}" for name, (function, _) in _EXTREMES.items()),
    ])  # fmt: skip
    in_order = "ORDER BY topic, queue_id"
    arrays = ", ".join(
        f"list({name} {in_order}) AS {name}" for name in ("topic", "queue_id", *_EACH, *_EXTREMES, "observed_at")
    )
    return f"""
        WITH each AS (
            SELECT {subject}, date, interval_ms, {time} AS observed_at, {queues} FROM ({rows}) p
        ),
        of_queue AS (
            SELECT {subject}, date, epoch_ms(observed_at) // {span_ms} AS span, topic, queue_id,
                max(observed_at) AS observed_at, max(interval_ms) AS interval_ms, {lasts}
            FROM each GROUP BY {subject}, date, epoch_ms(each.observed_at) // {span_ms}, topic, queue_id
        )
        SELECT {subject}, date, max(of_queue.observed_at) AS time, CAST(NULL AS TIMESTAMPTZ) AS asked_at,
            greatest(max(interval_ms), {span_ms}) AS interval_ms, {arrays}
        FROM of_queue GROUP BY {subject}, date, span
        ORDER BY "group", cluster, broker, time
    """  # noqa: S608  the contract's names and our numbers
