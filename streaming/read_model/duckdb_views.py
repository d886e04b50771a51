"""The tables and their views and functions in any DuckDB."""

from pathlib import Path

import duckdb
from deltalake import DeltaTable

from schemas.tables import TABLES
from streaming.read_model.catalog import definitions
from streaming.read_model.table import TableView


def register(connection: duckdb.DuckDBPyConnection, tables: Path) -> None:
    """Make tables, as they are now, with views and functions known to a database by their names.

    In a database file they can be used from everywhere that DuckDB is: its shell, another language, a notebook.
    """
    for table in reversed(TABLES):
        TableView(table, DeltaTable((tables / table).resolve())).show(connection, keep=False)
    define(connection)


def define(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the views and functions over tables that are there."""
    for name, parameters, sql in definitions():
        head = f"VIEW {name} AS" if parameters is None else f"MACRO {name}({', '.join(parameters)}) AS TABLE"
        connection.execute(f"CREATE OR REPLACE {head}\n{sql}")
