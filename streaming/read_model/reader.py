"""Reads the Delta tables without Spark: deltalake gives Arrow, DuckDB runs the SQL."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from schemas.tables import TABLES
from streaming.errors import UserError
from streaming.read_model.catalog import FUNCTIONS, VIEWS, function_sql, view_sql

_MEMORY = "1GB"
"""What a query may hold; the rest of a sort or an aggregate is on disk meanwhile."""
_BATCH_ROWS = 10_000

Parameters = Sequence[object] | Mapping[str, object]
Row = dict[str, Any]


class ReadModel:
    """The tables as they are now, for SQL and for the questions that a report asks.

    One snapshot of each table is taken at the start, in the reverse of the order in which the job appends: an anomaly
    that is seen has its evidence in the other tables.
    """

    def __init__(self, tables: Path) -> None:
        """Open the tables.

        Raises:
            UserError: there are none, or one is missing.
        """
        self._database = duckdb.connect(":memory:")
        for table in reversed(TABLES):
            self._database.register(table, _open(tables, table).to_pyarrow_dataset())
        for view in VIEWS:
            self._database.execute(f"CREATE VIEW {view} AS\n{view_sql(view)}")
        for function, parameters in FUNCTIONS.items():
            head = f"{function}({', '.join(parameters)})"
            self._database.execute(f"CREATE MACRO {head} AS TABLE\n{function_sql(function)}")
        self._spilled = TemporaryDirectory(prefix="rebalance-watch-")
        self._database.execute(f"SET memory_limit = '{_MEMORY}'; SET temp_directory = '{self._spilled.name}'")
        # A query reads the tables: no other file, no extension from the network.
        self._database.execute("SET python_enable_replacements = false; SET enable_external_access = false")
        self._database.execute("SET lock_configuration = true")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the snapshots go."""
        self._database.close()
        self._spilled.cleanup()

    def sql(self, query: str, parameters: Parameters = ()) -> pa.Table:
        """The answer to a query over tables, views and functions, with ``?`` or ``$name`` for parameters.

        Raises:
            UserError: what DuckDB says is wrong with it.
        """
        try:
            answer = self._database.sql(query, params=parameters)
            if answer is None:
                raise UserError("That is no query: ask with SELECT.")
            return answer.to_arrow_table()
        except duckdb.Error as error:
            raise UserError(f"The query can't be run: {str(error).splitlines()[0]}") from None

    def rows(self, query: str, parameters: Parameters = ()) -> list[Row]:
        """The answer as dictionaries."""
        rows: list[Row] = self.sql(query, parameters).to_pylist()
        return rows

    def scan(self, query: str, parameters: Parameters = ()) -> Iterator[pa.RecordBatch]:
        """The answer to a query of ours in batches, for more rows than memory holds: what is sorted goes to disk."""
        answer = self._database.sql(query, params=parameters)
        if answer is not None:
            yield from answer.to_arrow_reader(_BATCH_ROWS)

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
