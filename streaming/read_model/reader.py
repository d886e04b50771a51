"""Reads the Delta tables without Spark: deltalake says which files a table has, DuckDB runs the SQL over them.

A `ReadModel` may live as long as a dashboard does, and be asked from many threads: each question has a cursor of its
own, and `refresh` puts new snapshots of all tables in place at once.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from schemas.tables import TABLES
from streaming.errors import UserError
from streaming.read_model.duckdb_views import define
from streaming.read_model.files import literal
from streaming.read_model.guard import Guard
from streaming.read_model.table import SCHEMA, TableView

_MEMORY = "1GB"
"""What a query may hold; the rest of a sort or an aggregate is on disk meanwhile."""
_CTRL_C = "Query interrupted"
"""What DuckDB makes of a KeyboardInterrupt while a query runs."""
_BATCH_ROWS = 10_000
_STOP_SECONDS = 0.05
ANSWER_SECONDS = 30.0
ANSWER_ROWS = 10_000
"""What a person's own SQL may take and give, if nothing else is said."""

Parameters = Sequence[object] | Mapping[str, object]
Row = dict[str, Any]


class Answer(NamedTuple):
    """The answer to a person's own SQL."""

    table: pa.Table
    cut: bool
    """Whether there are more rows than were asked for."""


class ReadModel:
    """The tables as they were at the last `refresh`, for SQL and for the questions that a report asks.

    Snapshots are taken in the reverse of the order in which the job appends: an anomaly that is seen has its evidence
    in the other tables.
    """

    def __init__(self, tables: Path) -> None:
        """Open the tables.

        Raises:
            UserError: there are none, or one is missing.
        """
        self.version = 0
        """Rises with each `refresh` that found something new: what a live page compares."""
        self.checkpoints = tables.parent / "checkpoints"
        """Where the job that writes the tables keeps what it goes on from, if it runs on this machine."""
        tables = tables.resolve()
        self._views = [TableView(table, _open(tables, table)) for table in reversed(TABLES)]
        self._refreshing = threading.Lock()
        self._unseen: set[TableView] = set()
        """Those that have something new which no question sees yet: more than one look's, where a look failed."""
        self._keeps = False
        self._database = duckdb.connect(":memory:")
        self._database.execute(f"CREATE SCHEMA {SCHEMA}")
        define(self._database)
        self._show(self._views, keep=False)
        self._spilled = TemporaryDirectory(prefix="rebalance-watch-")
        self._database.execute(f"SET memory_limit = '{_MEMORY}'; SET temp_directory = {literal(self._spilled.name)}")
        self._database.execute("SET parquet_metadata_cache = true; SET python_enable_replacements = false")
        # A query reads the tables: no other file, no extension from the network.
        self._database.execute(f"SET allowed_directories = [{literal(str(tables))}]")
        self._database.execute("SET enable_external_access = false; SET lock_configuration = true")
        self._guard = Guard(self._database)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the snapshots go."""
        self._database.close()
        self._spilled.cleanup()

    def refresh(self) -> bool:
        """Look at what has been appended since, for a model that lives long; safe beside questions that are under way.

        Costs milliseconds where nothing is new. A question that has begun ends on what it began with. From the first
        time on the rows of small files are kept in memory, see `table`.

        Returns:
            Whether anything is new.
        """
        with self._refreshing:
            for view in self._views:
                if view.look():
                    self._unseen.add(view)
            if self._unseen or not self._keeps:
                shown = [view for view in self._views if view in self._unseen or not self._keeps]
                self._keeps = False  # should it fail, the next time begins anew
                self._show(shown, keep=True)
                self._keeps = True
            new = bool(self._unseen)
            self._unseen.clear()
            self.version += new
            return new

    def ask(
        self, query: str, parameters: Parameters = (), *, timeout_s: float = ANSWER_SECONDS, limit: int = ANSWER_ROWS
    ) -> Answer:
        """The answer to a person's own SQL: one SELECT over tables, views and functions, and nothing else.

        Args:
            query: with ``?`` or ``$name`` for parameters.
            parameters: their values.
            timeout_s: after so many seconds it is stopped.
            limit: so many rows are given at most; `Answer.cut` says whether there are more.

        Raises:
            UserError: it is no plain question (see `guard`), takes too long, or what DuckDB says is wrong with it.
        """
        self._guard.check(query)
        # In a thread of its own, so that a Ctrl-C reaches this one: DuckDB does not look for it.
        with self._cursor() as cursor, ThreadPoolExecutor(1) as asking:
            answer = asking.submit(_first, cursor, query, parameters, limit + 1)
            try:
                found = answer.result(timeout_s)
            except TimeoutError:
                _stop(cursor, answer)
                raise UserError(
                    f"The query took more than {timeout_s:g} seconds and was stopped: ask for less, for one group or a "
                    "shorter time."
                ) from None
            except KeyboardInterrupt:
                _stop(cursor, answer)
                raise
        return Answer(found.slice(0, limit), cut=found.num_rows > limit)

    def sql(self, query: str, parameters: Parameters = ()) -> pa.Table:
        """The whole answer to a query of ours, with ``?`` or ``$name`` for parameters; a person's goes to `ask`.

        Raises:
            UserError: what DuckDB says is wrong with it.
        """
        with self._cursor() as cursor:
            return _relation(cursor, query, parameters).to_arrow_table()

    def rows(self, query: str, parameters: Parameters = ()) -> list[Row]:
        """The answer as dictionaries."""
        rows: list[Row] = self.sql(query, parameters).to_pylist()
        return rows

    def scan(self, query: str, parameters: Parameters = ()) -> Iterator[pa.RecordBatch]:
        """The answer to a query of ours in batches, for more rows than memory holds: what is sorted goes to disk."""
        with self._cursor() as cursor:
            yield from _relation(cursor, query, parameters).to_arrow_reader(_BATCH_ROWS)

    def owners(self, group: str | None = None) -> list[Row]:
        """Who owns each queue now, of one group or of all; see `views/current_owners.sql`."""
        return self._of_group("current_owners", group, order="t.topic, t.broker, t.queue_id")

    def groups(self, group: str | None = None) -> list[Row]:
        """The last known state of each group; see `views/current_groups.sql`."""
        return self._of_group("current_groups", group, order="t.time")

    def queues(self, group: str | None = None) -> list[Row]:
        """The last known state of each queue; see `views/current_queues.sql`."""
        return self._of_group("current_queues", group, order="t.topic, t.broker, t.queue_id")

    def rebalances(self, group: str | None = None) -> list[Row]:
        """Every rebalance, oldest first."""
        return self._of_group("rebalances", group, order="t.start_time, t.seq")

    def incidents(self, group: str | None = None, *, only_open: bool = False) -> list[Row]:
        """Every incident with its evidence, oldest first; see `views/incidents.sql`."""
        view = "open_incidents" if only_open else "incidents"
        return self._of_group(view, group, order="t.opened_at, t.code, t.subject, t.incident_id")

    def transitions(self, incident_id: str) -> list[Row]:
        """The life of one incident."""
        return self.rows("SELECT * FROM anomalies a WHERE a.incident_id = ? ORDER BY a.time, a.seq", [incident_id])

    def history(self, group: str, topic: str, broker: str, queue_id: int) -> list[Row]:
        """Who owned one queue from when to when, oldest first; see `views/ownership_intervals.sql`."""
        return self.rows(
            "SELECT * FROM ownership_intervals i WHERE i.group = ? AND i.topic = ? AND i.broker = ? AND i.queue_id = ?"
            " ORDER BY i.cluster, i.from_time, i.to_time NULLS LAST",
            [group, topic, broker, queue_id],
        )

    def _of_group(self, relation: str, group: str | None, *, order: str) -> list[Row]:
        query = f"SELECT * FROM {relation} t WHERE $wanted IS NULL OR t.group = $wanted"  # noqa: S608  a name of ours
        return self.rows(f"{query} ORDER BY t.cluster, t.group, {order}", {"wanted": group})

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of a question's own: DuckDB gives one no two questions at a time."""
        try:
            with self._database.cursor() as cursor:
                yield cursor
        except duckdb.InterruptException:
            raise
        except duckdb.Error as error:
            raise UserError(f"The query can't be run: {str(error).splitlines()[0]}") from None
        except RuntimeError as error:
            if str(error) != _CTRL_C:
                raise
            raise KeyboardInterrupt from None

    def _show(self, views: Sequence[TableView], *, keep: bool) -> None:
        """Put new snapshots in place of those before, all at once."""
        with self._database.cursor() as cursor:
            cursor.execute("BEGIN")
            try:
                for view in views:
                    view.show(cursor, keep=keep)
                cursor.execute("COMMIT")
            except duckdb.Error:
                for view in self._views:
                    view.forget()
                raise


def _relation(cursor: duckdb.DuckDBPyConnection, query: str, parameters: Parameters) -> duckdb.DuckDBPyRelation:
    relation = cursor.sql(query, params=parameters)
    if relation is None:
        raise UserError("That is no query: ask with SELECT.")
    return relation


def _stop(cursor: duckdb.DuckDBPyConnection, answer: Future[pa.Table]) -> None:
    """Interrupt a query until it has ended: one that has not begun would not hear of it."""
    while not answer.done():
        cursor.interrupt()
        wait([answer], _STOP_SECONDS)


def _first(cursor: duckdb.DuckDBPyConnection, query: str, parameters: Parameters, count: int) -> pa.Table:
    """The first rows of an answer; the others are never made."""
    reader = _relation(cursor, query, parameters).to_arrow_reader(min(count, _BATCH_ROWS))
    batches, left = [], count
    for batch in reader:
        batches.append(batch.slice(0, left))
        left -= batches[-1].num_rows
        if not left:
            break
    return pa.Table.from_batches(batches, reader.schema)


def _open(tables: Path, table: str) -> DeltaTable:
    try:
        return DeltaTable(tables / table)
    except TableNotFoundError:
        if not any((tables / other).is_dir() for other in TABLES):
            raise UserError(
                f"There are no tables in {tables}: run `rebalance-watch demo` or `rebalance-watch run`, or name "
                "another root with --root."
            ) from None
        raise UserError(
            f"The table {table} is missing in {tables}: start `rebalance-watch run`, which makes it or says how to "
            "mend it."
        ) from None
