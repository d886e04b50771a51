"""The quality gate of the tables: suites of expectations over queries, run by schedule (`maintain`) and on demand.

A suite is two files of one name: the SQL returns one row for each subject (a queue, an incident, a partition of the
log), with a column for each condition: null, or what is wrong with the subject, or a number. The JSON is a suite of
Great Expectations over these rows.

A check reads the rows that the log stamped within an hour before the last check that the suite passed, or later, but at
most those of a day. So its cost depends on what is new and not on the size of the tables, and a failure is reported
until it is mended or a day old.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa

from checkpoints.expectations import Suite, SuiteError
from checkpoints.manifest import ARCHIVE
from checkpoints.position import position_of_query
from checkpoints.quality import SUITE as OF_BATCHES
from schemas.arrow import table_of
from schemas.rows import WHOLE_SUITE, QualityResult
from streaming.base.errors import NotReadyError, QueryError, SettingsError, UserError, first_line
from streaming.base.limits import SUITE_ROWS
from streaming.base.place import Place, tables_of
from streaming.base.sections.job import Quality
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
"""The time before the end of the last check at which a check begins: partitions of the log may be behind each other."""
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
    coalesce(arg_max(q.stops_job, q.batch_id), false) AS stops_job,
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
    def parameters(self) -> frozenset[str]:
        """The names of the query's parameters."""
        return frozenset(_PARAMETER.findall(self.sql))


Suites = Mapping[str, TableSuite | SuiteError]
"""Suites by name, or the reason why one can't be read."""


class TableCheck(NamedTuple):
    """The result of one check of the tables."""

    results: Sequence[QualityResult]
    left_out: Sequence[UserError]
    """Why a suite could not be checked: nothing is known about it. A `NotReadyError` mends itself."""


class TableGate:
    """Checks the tables by the suites."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check(self, now: int, since: int | None = None) -> TableCheck:
        """Check the tables, and append the results to `quality_results`.

        Rows are checked from the ingest time ``since`` on; None: from the last check on. Times are epoch milliseconds.

        Raises:
            SettingsError: the folder of the user's suites does not exist.
            UserError: there are no tables, or they can't be read or written.
        """
        tables, to_run = tables_of(self._settings), suites(self._settings.quality)
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
            for name, suite in to_run.items():
                wanted = suite.parameters if isinstance(suite, TableSuite) else frozenset()
                if _OF_THE_LOG in wanted and log is None:
                    continue
                passed = last.get(name, {}).get("passed") or 0
                begin = since if since is not None else max(passed - OVERLAP_MS, newest["time"] - SPAN_MS)
                before = begin - OVERLAP_MS
                given = {
                    "now": now, "since": begin, "before": before, "first_day": _first_day(tables, before),
                    "file_rows": FILE_BYTES_MAX, _OF_THE_LOG: log,
                }  # fmt: skip
                try:
                    results += _judge(model, suite, given, of_check)
                except Exception as error:  # noqa: BLE001  of what a user has written, in four languages: any kind
                    if isinstance(error, UserError) and not isinstance(error, SuiteError | QueryError):
                        left_out.append(UserError(f"The tables were not checked by the suite {name}: {error}"))
                    else:
                        stopped = last.get(name, {}).get("stops_job", False)
                        results.append(_not_judged(name, suite, error, of_check, stopped=stopped))
        _append(results, tables)
        return TableCheck(results, left_out)

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


def suites(quality: Quality) -> Suites:
    """Return the suites about the tables: those of the program, and those of a folder, which may replace them.

    Raises:
        SettingsError: there is no such folder, or it can't be listed; there is no such optional suite.
    """
    own, optional = Path(quality.suites).expanduser(), _shipped("suites/optional")
    if quality.suites and not own.is_dir():
        raise SettingsError(f"There is no folder {own}: create it, or correct quality.suites.")
    for name in quality.optional:
        if name not in optional:
            known = ", ".join(optional)
            raise SettingsError(f"There is no optional suite {name}: quality.optional may have {known}.")
    switched_on = {name: optional[name] for name in quality.optional}
    try:
        return {**_shipped("suites"), **switched_on, **(_suites_in(own) if quality.suites else {})}
    except OSError as error:
        raise SettingsError(f"The folder {own} can't be listed ({error.strerror}): correct quality.suites.") from None


@cache
def _shipped(folder: str) -> Suites:
    """Return the suites of the program in a folder, made once per process."""
    found = _suites_in(resources.files("checkpoints").joinpath(folder))
    return {name: one for name, one in found.items() if name != OF_BATCHES}


def _suites_in(folder: Traversable) -> Suites:
    """Return the suites of a folder; one that can't be read by the name of its file."""
    by_name: dict[str, TableSuite | SuiteError] = {}
    for stem in sorted({Path(file.name).stem for file in folder.iterdir() if file.name.endswith((".json", ".sql"))}):
        try:
            one = _suite_at(folder, stem)
            by_name[one.suite.name] = one
        except SuiteError as error:
            by_name[stem] = error
        except (OSError, UnicodeDecodeError) as error:
            by_name[stem] = SuiteError(f"The suite {folder / stem} can't be read ({first_line(error)}): correct it.")
    return by_name


def _suite_at(folder: Traversable, stem: str) -> TableSuite:
    file, query = folder / f"{stem}.json", folder / f"{stem}.sql"
    if not file.is_file():
        raise SuiteError(f"The suite {query} has no {file.name} beside it: add its expectations.")
    suite = _suite(file.read_bytes(), str(file))
    if suite.name == OF_BATCHES:
        raise SuiteError(f"The suite {file} has the name of the checks of batches, {OF_BATCHES}: give it another one.")
    if query.is_file() == (suite.query is not None):
        raise SuiteError(f"The suite {file} needs one query: in meta.query, or in {query.name} beside it.")
    return TableSuite(suite, suite.query if suite.query is not None else query.read_text("utf-8"))


_suite = lru_cache(maxsize=256)(Suite)
"""Makes a suite once: Great Expectations takes longer to accept its expectations than to judge by them."""


def _first_day(tables: Place, since: int) -> str:
    """Return the first day, YYYY-MM-DD, of the archived rows that the log received since an instant.

    Such rows are in files that were written since then; of an event that came late the day may be long before.
    """
    files = files_of("telemetry", delta_at(tables / "telemetry"))
    return min((file.partition[0] for file in files if file.written >= since), default=_NO_DAY)


def _judge(
    model: ReadModel, table_suite: TableSuite | SuiteError, given: Mapping[str, object], of_check: Mapping[str, int]
) -> list[QualityResult]:
    if isinstance(table_suite, SuiteError):
        raise table_suite
    answer = model.ask(
        table_suite.sql, {name: given[name] for name in table_suite.parameters & given.keys()}, limit=SUITE_ROWS
    )
    if answer.cut:
        raise QueryError(f"its query returns more than {SUITE_ROWS:,} rows")
    frame = _with_floats(answer.table).to_pandas()
    of_suite = {"suite": table_suite.suite.name, "stops_job": table_suite.suite.stops_job, "row_count": len(frame)}
    return [
        msgspec.convert({**of_check, **of_suite, **verdict._asdict()}, QualityResult)
        for verdict in table_suite.suite.judge(frame, {})
    ]


def _with_floats(rows: pa.Table) -> pa.Table:
    """Return rows with floats for decimals, as DuckDB's sums and literals are: pandas computes nothing of decimals."""
    fields = [f.with_type(pa.float64()) if pa.types.is_decimal(f.type) else f for f in rows.schema]
    return rows.cast(pa.schema(fields))


def _not_judged(
    name: str, table_suite: TableSuite | SuiteError, error: Exception, of_check: Mapping[str, int], *, stopped: bool
) -> QualityResult:
    """Return the result of a suite that can't be read or run: it has failed, and says why.

    Whether it stops the job is in its file: if that can't be read, it does what it did at its last check (``stopped``).
    """
    stops_job = table_suite.suite.stops_job if isinstance(table_suite, TableSuite) else stopped
    why = str(error) if isinstance(error, SuiteError) else f"The suite {name} can't be run: {first_line(error)}."
    return QualityResult(
        **of_check, suite=name, expectation=WHOLE_SUITE, column=None, success=False, observed=None,
        unexpected_count=None, row_count=0, why=why, stops_job=stops_job,
    )  # fmt: skip


def _append(results: Sequence[QualityResult], tables: Place) -> None:
    """Append the results; a table that no job of this release has opened yet lacks the newer columns."""
    place = tables / "quality_results"
    results_table = delta_at(place)
    columns = {field.name for field in results_table.schema().fields}
    rows = table_of("quality_results", [msgspec.structs.asdict(one) for one in results])
    with answered(place):
        append(results_table, rows.select([name for name in rows.schema.names if name in columns]))
