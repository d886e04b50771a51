"""Define the tables with their views and functions in any DuckDB database."""

from pathlib import Path

import duckdb
from deltalake import DeltaTable

from schemas.tables import TABLES
from streaming.tables import observations
from streaming.tables.catalog import definitions
from streaming.tables.files import select
from streaming.tables.table import TableView


def register(connection: duckdb.DuckDBPyConnection, tables: Path) -> None:
    """Define the current tables, views and functions in a database by their names.

    A database file makes them usable from every client of DuckDB: its shell, another language, a notebook.
    """
    define(connection)
    for table in reversed(TABLES):
        TableView(table, DeltaTable((tables / table).resolve())).show(connection, keep=False)


def define(connection: duckdb.DuckDBPyConnection) -> None:
    """Define the views and functions over empty tables; `TableView.show` later replaces the tables' rows.

    The tables are empty because DuckDB reads the files below a view when it is defined: 0.1 s for all of them.
    """
    for table in TABLES:
        connection.execute(f"CREATE OR REPLACE VIEW {table} AS {select(table, Path(), [])}")
    for name, parameters, sql in definitions(observations.IN_DUCKDB):
        head = f"VIEW {name} AS" if parameters is None else f"MACRO {name}({', '.join(parameters)}) AS TABLE"
        connection.execute(f"CREATE OR REPLACE {head}\n{sql}")
