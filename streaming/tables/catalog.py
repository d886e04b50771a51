"""Views over the tables, and functions that return a table.

Each is one SELECT in a file, in the SQL that DuckDB and Spark share (`observations` generates two in each dialect).
Every column is qualified by its table's alias, because `group`, `offset` and `time` are keywords in one of the two.

A view of the current state is the function of an instant, called with the end of time. These functions first find each
subject's last ``time`` and then read only that row: of ten million rows most columns are never read.

`relations` says what a row of each of them is, for people and programs that write their own SQL.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import NamedTuple

from schemas.meanings import column_meanings
from schemas.tables import ROWS, TABLES, ColumnType, ListOf, StructOf, columns
from streaming.tables import observations

_WORD = re.compile(r"[a-z_][a-z0-9_]*")
_NAME = re.compile(r"\b[a-z_]+\b")
_USE = re.compile(r"(?P<read>\b(?:FROM|JOIN)\s+)?\b(?P<name>[a-z_]+)\b(?P<call>\()?")
"""A word of a query; a view is used where it is read, a function where it is called."""
_TIMESTAMP = re.compile(r"from_ms\([^()]*\)|CAST\([^()]* AS TIMESTAMPTZ\)")
"""An argument that is a timestamp already."""
_INSTANT = ("instant",)
_DEFINED = {
    **dict.fromkeys(observations.SEEN, _INSTANT),
    "seen_at": _INSTANT,
    "progress_at": _INSTANT,
    "client_progress_at": _INSTANT,
    "dead_letters_at": _INSTANT,
    "groups_at": _INSTANT,
    "queues_at": _INSTANT,
    "brokers_at": _INSTANT,
    "owners_at": _INSTANT,
    "closed_at": _INSTANT,
    "incidents_at": _INSTANT,
    "owner_changes": ("earlier", "later"),
    "ownership_intervals": None,
    "who_owned_at": _INSTANT,
    "current_owners": None,
    "current_groups": None,
    "current_queues": None,
    "incidents": None,
    "open_incidents": None,
    "queue_pauses": None,
    "rebalance_cost": None,
    "mean_time_between_rebalances": None,
    "telemetry_events": None,
}
"""Functions with their parameters, and views, in an order in which each may use those before it."""

VIEWS = (observations.VIEW, *(name for name, parameters in _DEFINED.items() if parameters is None))
FUNCTIONS = {name: parameters for name, parameters in _DEFINED.items() if parameters is not None}
"""Table functions by name, and their parameters: timestamps."""


class Definition(NamedTuple):
    """A view, or a function that returns a table."""

    name: str
    parameters: tuple[str, ...] | None
    """None for a view."""
    sql: str
    """The SELECT, with named parameters."""

    def called(self, arguments: Sequence[str]) -> str:
        """Return the SELECT in DuckDB's dialect with arguments for its parameters: timestamps, or text and dates."""
        timestamps = [one if _TIMESTAMP.fullmatch(one) else f"CAST({one} AS TIMESTAMPTZ)" for one in arguments]
        given = dict(zip(self.parameters or (), timestamps, strict=True))
        sql = re.sub(r"--.*", "", self.sql).replace("AS TIMESTAMP)", "AS TIMESTAMPTZ)")  # Spark's name for it
        return _NAME.sub(lambda name: given.get(name[0], name[0]), sql)


def tables_in(query: str) -> frozenset[str]:
    """Return the tables that a query may read: by the words in it that name a table, or what is defined over tables."""
    return names_in(query).intersection(TABLES)


def names_in(query: str) -> frozenset[str]:
    """Return the tables, views and functions that a query may need: those that it names, and what these use."""
    by_name = _needed_by_name()
    return frozenset().union(*(by_name.get(word, frozenset()) for word in set(_WORD.findall(query.lower()))))


@cache
def _needed_by_name() -> dict[str, frozenset[str]]:
    """Return for each table, view and function its name and the names of what it uses."""
    needed = {table: frozenset({table}) for table in TABLES}
    for name, _, sql in in_duckdb().values():
        words = _WORD.findall(sql.lower())
        needed[name] = frozenset({name}).union(*(needed.get(word, frozenset()) for word in words))
    return needed


@lru_cache(1_000)
def expanded(query: str) -> str:
    """Return one of the program's own queries with the SELECT of each view and function in place of its use.

    DuckDB binds a definition when it is made, and again in each query: for a short answer, each takes as long as the
    answer.
    """
    written, end = [], 0
    for use in _USE.finditer(query):
        definition = in_duckdb().get(use["name"])
        if definition is None or use.start() < end:
            continue
        if not use["call"] if definition.parameters else use["call"] or not use["read"]:
            continue
        written.append(query[end : use.start("name")])
        arguments, end = _arguments(query, use.end()) if use["call"] else ([], use.end())
        written.append(f"({expanded(definition.called(arguments))})")
    return "".join([*written, query[end:]])


def _arguments(query: str, begin: int) -> tuple[list[str], int]:
    """Return the arguments of a call that begin at a place, and the place after it."""
    arguments, depth = [""], 1
    for place in range(begin, len(query)):
        sign = query[place]
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if not depth:
            return arguments, place + 1
        if sign == "," and depth == 1:
            arguments.append("")
        else:
            arguments[-1] += sign
    raise ValueError(query)


@cache
def in_duckdb() -> dict[str, Definition]:
    """Return all definitions by name, each after those that it uses."""
    return {one.name: one for one in definitions(observations.IN_DUCKDB)}


def definitions(words: observations.UnnestDialect) -> Iterator[Definition]:
    """Yield all definitions in an engine's SQL, each after those that it uses."""
    yield Definition(observations.VIEW, None, words.view())
    for name, parameters in _DEFINED.items():
        if name in observations.SEEN:
            yield Definition(name, parameters, words.seen(observations.SEEN[name]))
            continue
        yield Definition(name, parameters, _text(name))


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
    """Return the views, and the functions with their parameters, each with the meaning of a row."""
    found = {name: definition_meaning(name) for name in VIEWS}
    found |= {f"{name}({', '.join(of)})": definition_meaning(name) for name, of in FUNCTIONS.items()}
    return dict(sorted(found.items()))


def definition_meaning(name: str) -> str:
    """Return the comment with which a view or a function begins: the meaning of a row."""
    if name in _GENERATED:
        return _GENERATED[name]
    lines = itertools.takewhile(lambda line: line.startswith("--"), _text(name).splitlines())
    return " ".join(line.removeprefix("--").strip() for line in lines)


def _text(name: str) -> str:
    folder = "functions" if name in FUNCTIONS else "views"
    return resources.files(__package__).joinpath(folder, f"{name}.sql").read_text("utf-8")
