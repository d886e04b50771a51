"""The tables and their views and functions in any DuckDB."""

from pathlib import Path

import duckdb
from deltalake import DeltaTable

from schemas.tables import TABLES
from streaming.read_model import observations
from streaming.read_model.catalog import definitions
from streaming.read_model.files import select
from streaming.read_model.table import TableView


def register(connection: duckdb.DuckDBPyConnection, tables: Path) -> None:
    """Make tables, as they are now, with views and functions known to a database by their names.

    In a database file they can be used from everywhere that DuckDB is: its shell, another language, a notebook.
    """
    define(connection)
    for table in reversed(TABLES):
        TableView(table, DeltaTable((tables / table).resolve())).show(connection, keep=False)


def define(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the views and functions, over tables of which `TableView.show` shows the rows afterwards.

    Over empty ones, since DuckDB looks at the files below a view when it is made: a tenth of a second for all of them.
    """
    for table in TABLES:
        connection.execute(f"CREATE OR REPLACE VIEW {table} AS {select(table, Path(), [])}")
    for name, parameters, sql in definitions(observations.IN_DUCKDB):
        head = f"VIEW {name} AS" if parameters is None else f"MACRO {name}({', '.join(parameters)}) AS TABLE"
        connection.execute(f"CREATE OR REPLACE {head}\n{sql}")
