"""Help for writing SQL: the tables, views and functions with their columns, and questions that are filled in."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from schemas.meanings import meaning_of
from schemas.questions import questions
from schemas.tables import TABLES
from streaming.base.times import written
from streaming.tables.catalog import FUNCTIONS, VIEWS, definition_meaning, described_columns
from streaming.tables.reader import ReadModel

KEYWORDS: Final = frozenset({"column", "group", "offset"})
"""Columns of the tables whose names are keywords of SQL: a query has them in quotation marks."""
_PARAMETER = re.compile(r"\$(\w+)")
_NAMED = re.compile(r" \(\$\w+\)")
_DAY_MS = 86_400_000


class SqlColumn(NamedTuple):
    """A column of a table or view."""

    name: str
    type: str
    meaning: str
    """Empty: that of the table's column."""

    @property
    def in_query(self) -> str:
        """The name as a query has it."""
        return f'"{self.name}"' if self.name in KEYWORDS else self.name


class Relation(NamedTuple):
    """A table, a view, or a function that returns a table."""

    name: str
    """Of a function with its parameters, which are timestamps."""
    meaning: str
    columns: tuple[SqlColumn, ...]
    """Empty for a function: they are those of the view of the current state."""

    @property
    def in_query(self) -> str:
        """The query of all of its rows."""
        return f"FROM {self.name}"


class SqlSchema(NamedTuple):
    """The tables, views and functions that a query may use."""

    tables: tuple[Relation, ...]
    views: tuple[Relation, ...]
    functions: tuple[Relation, ...]


class SqlExample(NamedTuple):
    """A question and its query."""

    title: str
    """In English; `gettext` translates it."""
    query: str


_known: dict[str, tuple[SqlColumn, ...]] = {}
"""The columns of the views, which are the same as long as the process runs: to ask for them takes half a second."""


def sql_schema(model: ReadModel) -> SqlSchema:
    """Return what a query may ask."""
    views = tuple(Relation(name, definition_meaning(name), _view_columns(model, name)) for name in VIEWS)
    return SqlSchema(
        tables=tuple(Relation(name, meaning_of(name), _table_columns(name)) for name in TABLES),
        views=views,
        functions=tuple(
            Relation(f"{name}({', '.join(of)})", definition_meaning(name), ()) for name, of in FUNCTIONS.items()
        ),
    )


@cache
def _table_columns(table: str) -> tuple[SqlColumn, ...]:
    return tuple(SqlColumn(one.name, one.type, one.meaning) for one in described_columns(table))


def _view_columns(model: ReadModel, view: str) -> tuple[SqlColumn, ...]:
    if view not in _known:
        described = model.ask(f"DESCRIBE {view}").table.to_pylist()
        _known[view] = tuple(SqlColumn(row["column_name"], _short(row["column_type"]), "") for row in described)
    return _known[view]


def _short(kind: str) -> str:
    """Return DuckDB's name of a type as `described_columns` has it; a struct without its fields."""
    if kind.endswith("[]"):
        return f"list of {_short(kind[:-2])}"
    names = {"VARCHAR": "string", "TIMESTAMP WITH TIME ZONE": "timestamp", "BIGINT": "long", "INTEGER": "int"}
    return names.get(kind, kind.partition("(")[0].lower())


def example_titles() -> Iterator[str]:
    """Yield the question of each example, in English."""
    for _, query in questions():
        yield _title(query)


def sql_examples(group: str, first_ms: int, last_ms: int) -> Iterator[SqlExample]:
    """Yield the questions of `schemas.questions` about a group and the last day of history."""
    since = _timestamp(max(first_ms, last_ms - _DAY_MS))
    values = {
        "group": "'{}'".format(group.replace("'", "''")), "since": since, "until": _timestamp(last_ms),
        "last_run": since,
    }  # fmt: skip
    for _, query in questions():
        yield SqlExample(_title(query), _PARAMETER.sub(lambda found: values[found[1]], query).strip())


def _title(query: str) -> str:
    """Return the question that a query begins with: its first sentence."""
    return _NAMED.sub("", query.partition("?")[0]).removeprefix("--").strip() + "?"


def _timestamp(time_ms: int) -> str:
    return f"TIMESTAMPTZ '{written(time_ms)}'"
