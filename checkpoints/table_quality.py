"""The quality gate of the tables: suites of expectations over queries, run by schedule (`maintain`) and on demand.

A suite is two files of one name: the SQL returns one row for each subject (a queue, an incident, a partition of the
log), with a column for each condition: null, or what is wrong with the subject, or a number. The JSON is a suite of
Great Expectations over these rows.

A check reads the rows that the log stamped within an hour before the last check that the suite passed, or later, but at
most those of a day. So its cost depends on what is new and not on the size of the tables, and a failure is reported
until it is mended or a day old.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

import msgspec

from checkpoints.expectations import Suite
from checkpoints.manifest import ARCHIVE
from checkpoints.position import position_of_query
from checkpoints.quality import SUITE as OF_BATCHES
from schemas.arrow import table_of
from schemas.rows import QualityResult
from streaming.base.errors import NotReadyError, SettingsError, UserError
from streaming.base.place import Place, tables_of
from streaming.base.settings import Settings
from streaming.base.times import DAY_MS
from streaming.log.files import FILE_BYTES_MAX
from streaming.log.kafka import offsets_of
from streaming.log.kafka_properties import connection_of
from streaming.tables.append import append
from streaming.tables.delta import answered, delta_at
from streaming.tables.files import files_of
from streaming.tables.reader import ReadModel

OVERLAP_MS = 3_600_000
"""How long before the end of the last check a check begins: partitions of the log may be behind each other."""
SPAN_MS = DAY_MS
"""The longest period that a check reads, unless the user names another."""
_OF_THE_LOG = "log"
"""The parameter of a suite that compares the tables with the log."""
_NO_DAY = "9999-12-31"
"""A day without rows."""
_PARAMETER = re.compile(r"\$([a-z_]+)")

_LAST = """
SELECT
    q.suite,
    max(q.batch_id) AS number,
    max(q.time) FILTER (q.batch_id IN (
        SELECT p.batch_id FROM quality_results p WHERE p.suite = q.suite GROUP BY p.batch_id HAVING bool_and(p.success)
    )) AS passed
FROM quality_results q
WHERE q.suite <> ?
GROUP BY q.suite
"""
_NEWEST = """
SELECT max(n.time) AS time
FROM (
    SELECT max(g.known_at) AS time FROM group_state g UNION ALL
    SELECT max(t.ingest_time) FROM telemetry t WHERE t.date >= (SELECT max(l.date) FROM telemetry l)
) n
"""


class TableSuite(NamedTuple):
    """The query and the expectations of one suite."""

    suite: Suite
    sql: str

    @property
    def stops_job(self) -> bool:
        """Whether the job must not run while an expectation of the suite fails."""
        return bool(self.suite.meta.get("stops_job", False))

    @property
    def parameters(self) -> frozenset[str]:
        """The names of the query's parameters."""
        return frozenset(_PARAMETER.findall(self.sql))


class Checked(NamedTuple):
    """What one check of the tables found."""

    results: Sequence[QualityResult]
    left_out: Sequence[UserError]
    """Why a suite could not be checked: nothing is known about it. A `NotReadyError` mends itself."""


class TableGate:
    """Checks the tables by the suites."""

    def __init__(self, settings: Settings) -> None:
        """Read the suites.

        Raises:
            UserError: a suite of the user's folder can't be read.
        """
        self._settings = settings
        self._suites = suites(settings.quality.suites)

    def check(self, now: int, since: int | None = None) -> Checked:
        """Check the tables, and append the results to `quality_results`.

        Args:
            now: epoch milliseconds.
            since: the ingest time from which rows are checked; None: from the last check on.

        Raises:
            UserError: there are no tables, or they can't be read or written.
        """
        tables = tables_of(self._settings)
        left_out: list[UserError] = []
        log = None
        try:
            log = self._log()  # before the tables: what it has read is there
        except UserError as error:
            left_out.append(type(error)(f"The archive was not compared with the log: {error}"))
        with ReadModel(tables) as model:
            [newest] = model.rows(_NEWEST)
            if newest["time"] is None:
                raise NotReadyError(f"The tables in {tables} are still empty: there is nothing to check.")
            last = {row["suite"]: row for row in model.rows(_LAST, [OF_BATCHES])}
            of_check = {
                "batch_id": max((row["number"] for row in last.values()), default=-1) + 1,
                "time": newest["time"],
                "checked_at": now,
            }
            results: list[QualityResult] = []
            for one in self._suites:
                if _OF_THE_LOG in one.parameters and log is None:
                    continue
                passed = last.get(one.suite.name, {}).get("passed") or 0
                begin = since if since is not None else max(passed - OVERLAP_MS, newest["time"] - SPAN_MS)
                before = begin - OVERLAP_MS
                given = {
                    "now": now, "since": begin, "before": before, "first_day": _first_day(tables, before),
                    "file_rows": FILE_BYTES_MAX, _OF_THE_LOG: log,
                }  # fmt: skip
                try:
                    results += _judge(model, one, given, of_check)
                except UserError as error:
                    left_out.append(UserError(f"The tables were not checked by the suite {one.suite.name}: {error}"))
        _append(results, tables)
        return Checked(results, left_out)

    def _log(self) -> list[dict[str, int | None]]:
        """Return for each partition of the log how far it is archived, and which offsets Kafka has.

        Raises:
            NotReadyError: the archive has finished no batch.
            UserError: its checkpoint or Kafka can't be read from here.
        """
        source, folder = self._settings.source, self._settings.runtime.checkpoints / ARCHIVE
        if self._settings.storage.checkpoints or not folder.exists():
            raise UserError("the archive's checkpoint is not on this machine.")
        if not (archived := position_of_query(folder)):
            raise NotReadyError("the archive has finished no batch yet.")
        offsets: Mapping[int, tuple[int | None, int | None]] = {}
        if source.kind == "kafka":
            offsets = offsets_of(connection_of(self._settings), source.topic)
        return [
            {"partition": partition, "archived": position, "log_begin": begin, "log_end": end}
            for partition, position in sorted(archived.items())
            for begin, end in [offsets.get(partition, (None, None))]
        ]


def suites(folder: str = "") -> list[TableSuite]:
    """Return the suites about the tables: those of the program, and those of a folder, which may replace them.

    Raises:
        SettingsError: there is no such folder.
        UserError: a suite can't be read.
    """
    own = Path(folder).expanduser()
    if folder and not own.is_dir():
        raise SettingsError(f"There is no folder {own}: create it, or correct quality.suites.")
    found = {one.suite.name: one for one in _shipped()}
    if folder:
        found |= {one.suite.name: one for one in _suites_in(own)}
    return list(found.values())


@cache
def _shipped() -> tuple[TableSuite, ...]:
    """Return the suites of the program, made once per process."""
    return tuple(_suites_in(resources.files("checkpoints").joinpath("suites")))


def _suites_in(folder: Traversable) -> Iterator[TableSuite]:
    files = {file.name: file for file in folder.iterdir()}
    for name in sorted(files):
        stem = name.removesuffix(".sql")
        if stem == name:
            continue
        if f"{stem}.json" not in files:
            raise UserError(f"The suite {files[name]} has no {stem}.json beside it: add its expectations.")
        suite = Suite(files[f"{stem}.json"].read_bytes(), str(files[f"{stem}.json"]))
        yield TableSuite(suite, files[name].read_text("utf-8"))


def _first_day(tables: Place, since: int) -> str:
    """Return the first day, YYYY-MM-DD, of the archived rows that the log received since an instant.

    Such rows are in files that were written since then; of an event that came late the day may be long before.
    """
    files = files_of("telemetry", delta_at(tables / "telemetry"))
    return min((file.partition[0] for file in files if file.written >= since), default=_NO_DAY)


def _judge(
    model: ReadModel, one: TableSuite, given: Mapping[str, object], of_check: Mapping[str, int]
) -> list[QualityResult]:
    frame = model.sql(one.sql, {name: given[name] for name in one.parameters & given.keys()}).to_pandas()
    of_suite = {"suite": one.suite.name, "stops_job": one.stops_job, "row_count": len(frame)}
    return [
        msgspec.convert({**of_check, **of_suite, **verdict._asdict()}, QualityResult)
        for verdict in one.suite.judge(frame, {})
    ]


def _append(results: Sequence[QualityResult], tables: Place) -> None:
    """Append the results; a table that no job of this release has opened yet lacks the newer columns."""
    place = tables / "quality_results"
    there = delta_at(place)
    known = {field.name for field in there.schema().fields}
    rows = table_of("quality_results", [msgspec.structs.asdict(one) for one in results])
    with answered(place):
        append(there, rows.select([name for name in rows.schema.names if name in known]))
