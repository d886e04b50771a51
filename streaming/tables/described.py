"""What each table, view and function holds, for people and programs that write their own SQL."""

import itertools
from collections.abc import Iterator
from importlib import resources
from typing import NamedTuple

from schemas.columns import ColumnType, ListOf, StructOf
from schemas.docstrings import column_meanings, row_meaning
from schemas.tables import ROWS, columns
from streaming.tables.catalog import FUNCTIONS, VIEWS

_GENERATED = {
    "queue_observations": "The quantities of one queue, from `queue_progress` and its rollups.",
    "brokers_seen_at": "What a broker, or its hook, last reported of a queue's quantities by an instant, of each kind.",
    "clients_seen_at": "What a client last answered about a queue's quantities by an instant.",
}
"""Views that are generated for each engine, and have no file (`streaming.tables.observations`)."""


class DescribedColumn(NamedTuple):
    """A column of a table."""

    name: str
    type: str
    is_nullable: bool
    meaning: str


def table_meaning(table: str) -> str:
    """Return what a row of a table is.

    Raises:
        KeyError: the table does not exist.
    """
    return row_meaning(ROWS[table])


def described_columns(table: str) -> Iterator[DescribedColumn]:
    """Yield the columns of a table, in order.

    Raises:
        KeyError: the table does not exist.
    """
    meanings = column_meanings(ROWS[table])
    for column in columns(table):
        yield DescribedColumn(column.name, type_name(column.type), column.nullable, meanings[column.name])


def type_name(kind: ColumnType) -> str:
    """Return the name of a column's type."""
    if isinstance(kind, ListOf):
        return f"list of {type_name(kind.element)}"
    if isinstance(kind, StructOf):
        return f"struct ({', '.join(column.name for column in kind.columns)})"
    return kind


def relations() -> dict[str, str]:
    """Return the views, and the functions with their parameters, each with what a row of it is."""
    found = {name: definition_meaning(name) for name in VIEWS}
    found |= {f"{name}({', '.join(of)})": definition_meaning(name) for name, of in FUNCTIONS.items()}
    return dict(sorted(found.items()))


def definition_meaning(name: str) -> str:
    """Return the comment that a view or a function begins with: what a row of it is."""
    if name in _GENERATED:
        return _GENERATED[name]
    folder = "functions" if name in FUNCTIONS else "views"
    text = resources.files(__package__).joinpath(folder, f"{name}.sql").read_text("utf-8")
    lines = itertools.takewhile(lambda line: line.startswith("--"), text.splitlines())
    return " ".join(line.removeprefix("--").strip() for line in lines)
