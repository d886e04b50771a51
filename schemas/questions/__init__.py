"""Fourteen questions of a data engineer, in SQL over the tables alone: `python -m schemas.questions TABLES`.

Ask the questions of this folder.

It knows only what schemas/README.md says of the tables: their names and columns. So it is also an example of a program
that reads them without this package: copy it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

TABLES = ("assignment_history", "rebalances", "group_state", "queue_state", "anomalies", "queue_progress")
_PARAMETER = re.compile(r"\$(\w+)")


def opened(tables: Path) -> duckdb.DuckDBPyConnection:
    """Return a connection with a view of each table, as of now: files that are added later are not in it.

    After a vacuum has removed one of its files, a query fails: open the tables again.
    """
    # Parquet is part of DuckDB: an extension that a query seems to need is not fetched from the network.
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
    connection.execute("SET TimeZone = 'UTC'")
    for name in TABLES:
        table = DeltaTable(tables / name)
        if files := table.file_uris():
            connection.read_parquet(files, hive_partitioning=True, union_by_name=True).create_view(name)
        else:
            connection.register(name, pa.schema(table.schema().to_arrow()).empty_table())
    return connection


def questions() -> Iterator[tuple[str, str]]:
    """Yield the name and the query of each question, in order."""
    for path in sorted(Path(__file__).parent.glob("*.sql")):
        yield path.stem, path.read_text("utf-8")


def answer(connection: duckdb.DuckDBPyConnection, query: str, **values: object) -> duckdb.DuckDBPyRelation:
    """Return the rows that answer a question.

    Args:
        connection: see `opened`.
        query: the question.
        values: of ``group``, of the period from ``since`` until ``until``, and of ``last_run``; further ones are
            ignored.
    """
    return connection.sql(query, params={name: values[name] for name in set(_PARAMETER.findall(query))})
