"""A real cluster's telemetry in which one source comes late in the log, as a job's archive has it."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from rebalance_model.entities import INT64_MAX
from rebalance_model.observe.effects import TABLE_OF, AnyRow, QueueProgress
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import AnyEvent
from rebalance_model.observe.events.decoding import decode
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from streaming.lab.demo import CAPTURE
from streaming.log.rows import encode, rows_of
from streaming.pipeline.archive_rows import LogRow
from streaming.pipeline.rebuild.rows import REBUILT
from tests.support.plain import as_json
from tests.support.recordings import recorded_rows
from tests.support.tables import archive

PARTITIONS = 2
MINUTES = 12
POLICY = Policy()
NOT_COMPARED = ("known_at", "seq")


class Stamped(NamedTuple):
    """An event, and the log's stamp of its row."""

    event: AnyEvent
    stamp: int


@cache
def events(minutes: float = MINUTES) -> tuple[AnyEvent, ...]:
    """The first minutes of the demo's capture."""
    lines = (rows[0].value for rows in recorded_rows(CAPTURE, 1))
    found = [decode(line, key=None, stamp=INT64_MAX, keyed=False) for line in lines]
    return tuple(event for event in found if event.time < found[0].time + minutes * 60_000)


def log(
    is_late: Callable[[AnyEvent], bool], delay: int, until: int = INT64_MAX, minutes: float = MINUTES
) -> list[Stamped]:
    """The events as the log gets them: those of a source come so much later, but at ``until`` nothing is left."""
    rows, highest = [], 0
    for event in events(minutes):
        highest = max(highest, event.time)
        stamp = highest + delay if is_late(event) else highest
        rows.append(Stamped(event, max(highest, min(stamp, until))))
    return sorted(rows, key=lambda row: row.stamp)


def partitions(rows: Iterable[Stamped]) -> list[list[LogRow]]:
    """The rows of each partition."""
    by_partition: list[list[LogRow]] = [[] for _ in range(PARTITIONS)]
    for event, stamp in rows:
        for row in rows_of(event, encode(event), PARTITIONS):
            rows_so_far = by_partition[row.partition]
            rows_so_far.append(LogRow(row.partition, len(rows_so_far), None, row.value, stamp))
    return by_partition


def archived(tables: Path, rows: Iterable[Stamped]) -> None:
    """Have them in the archive."""
    archive(tables, [row for partition in partitions(rows) for row in partition])


def fold(rows: Iterable[Stamped]) -> list[AnyRow]:
    """Return what the job would make of them."""
    effects: list[AnyRow] = []
    for number, partition in enumerate(partitions(rows)):
        shard = Shard(None, GroupsInMemory(), POLICY, number)
        for row in partition:
            event = decode(row.value, key=None, stamp=row.stamp, keyed=False)
            effects += shard.push(event, row.stamp, len(row.value or b""))
    return effects


def compared(rows: Iterable[AnyRow]) -> Counter[str]:
    """Rows in the form in which two runs are compared."""
    return _of(
        _as_text(TABLE_OF[type(row)], msgspec.to_builtins(row)) for row in rows if not isinstance(row, QueueProgress)
    )


def compared_tables(model) -> Counter[str]:
    """The rows of the derived tables in the same form."""
    rows = ((table, row) for table in REBUILT for row in model.rows(f"SELECT * FROM {table}"))
    return _of(_as_text(table, row) for table, row in rows)


def _of(texts: Iterable[str]) -> Counter[str]:
    return Counter(text for text in texts if text)


def _as_text(table: str, row: dict[str, object]) -> str:
    """Without what is not compared; TELEMETRY_GAP LATE is nothing."""
    if row.get("code") == "TELEMETRY_GAP" and row["sub_cause"] == "LATE":
        return ""
    return as_json([table, {name: value for name, value in row.items() if name not in NOT_COMPARED}])
