"""Define the tables with their views and functions in any DuckDB database."""

import re
from collections.abc import Container, Iterable
from pathlib import Path

import duckdb
from duckdb.sqltypes import DuckDBPyType

from rebalance_model.entities import TIME_MAX
from schemas.tables import ADDED, TABLES
from streaming.base.place import Place
from streaming.tables import observations
from streaming.tables.catalog import FUNCTIONS, VIEWS, definitions
from streaming.tables.delta import is_delta_at
from streaming.tables.files import select
from streaming.tables.table import TableView


def register(connection: duckdb.DuckDBPyConnection, tables: Place) -> None:
    """Define the current tables, views and functions in a database, under their names.

    From a database file every client of DuckDB can use them: its shell, another language, a notebook.
    """
    for table in TABLES:  # empty at first, because DuckDB reads the files below a view when it is defined
        connection.execute(f"CREATE OR REPLACE VIEW {table} AS {select(table, Path(), [])}")
    define_times(connection)
    define(connection, (*VIEWS, *FUNCTIONS))
    for table in reversed([table for table in TABLES if table not in ADDED or is_delta_at(tables / table)]):
        view = TableView(tables, table)
        view.want()
        view.fetch()
        view.show(connection, keep=False)


def define_times(connection: duckdb.DuckDBPyConnection) -> None:
    """Define what converts times in epoch milliseconds: `from_ms` to a timestamp, and two for queries of our own.

    ``day_of(ms)`` is the day by which tables are partitioned; ``age_ms(seen_at, ms)`` the age of a timestamp at an
    instant, 0 if it is later (clock skew).
    """
    from_ms = f"make_timestamptz(least(ms, {TIME_MAX}) * 1000)"
    connection.execute(f"CREATE OR REPLACE MACRO from_ms(ms) AS {from_ms}")
    connection.execute(f"CREATE OR REPLACE MACRO day_of(ms) AS {observations.day('ms')}")
    age = "CASE WHEN seen_at IS NOT NULL THEN greatest(0, ms - epoch_ms(seen_at)) END"
    connection.execute(f"CREATE OR REPLACE MACRO age_ms(seen_at, ms) AS {age}")


def with_epoch_ms(query: str, result: duckdb.DuckDBPyRelation) -> str:
    """Return a query with epoch milliseconds for the timestamps of its result, inside lists and structs too."""
    columns = [(_quoted(name), type_) for name, type_ in zip(result.columns, result.types, strict=True)]
    replaced = [f"{in_ms} AS {name}" for name, type_ in columns if (in_ms := _in_ms(name, type_)) != name]
    return f"SELECT * REPLACE ({', '.join(replaced)}) FROM ({query})" if replaced else query  # noqa: S608  ours


def _in_ms(value: str, type_: DuckDBPyType, depth: int = 0) -> str:
    """Return the SQL of a value with epoch milliseconds for timestamps."""
    if type_.id.startswith("timestamp"):
        return f"epoch_ms({value})"
    if type_.id == "list":
        [(_, element)] = _children(type_)
        in_ms = _in_ms(f"e{depth}", element, depth + 1)
        return value if in_ms == f"e{depth}" else f"list_transform({value}, lambda e{depth}: {in_ms})"
    if type_.id == "struct":
        parts = [(_quoted(name), part) for name, part in _children(type_)]
        packed = [f"{name} := {_in_ms(f'{value}.{name}', part, depth)}" for name, part in parts]
        if all(text == f"{name} := {value}.{name}" for text, (name, _) in zip(packed, parts, strict=True)):
            return value
        return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({', '.join(packed)}) END"
    return value


def _children(type_: DuckDBPyType) -> list[tuple[str, DuckDBPyType]]:
    """Return the parts of a list or struct; DuckDB declares what the children of an array or enum are, too."""
    return [(name, child) for name, child in type_.children if isinstance(child, DuckDBPyType)]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def define(connection: duckdb.DuckDBPyConnection, names: Container[str]) -> None:
    """Define views and functions over the tables; what they use must be defined, or among them."""
    for name, parameters, sql in definitions(observations.IN_DUCKDB):
        if name in names:
            head = f"VIEW {name} AS" if parameters is None else f"MACRO {name}({', '.join(parameters)}) AS TABLE"
            connection.execute(f"CREATE OR REPLACE {head}\n{_with_timestamps(sql, parameters or ())}")


def _with_timestamps(sql: str, parameters: Iterable[str]) -> str:
    """Cast the parameters, which a macro does not declare: text and dates are accepted, too."""
    for name in parameters:
        sql = re.sub(rf"\b{name}\b", f"CAST({name} AS TIMESTAMPTZ)", sql)
    return sql.replace("AS TIMESTAMP)", "AS TIMESTAMPTZ)")  # Spark's name for it
