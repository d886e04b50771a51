"""Say what a user's SQL may have meant: keywords that are columns, columns that do not exist, calls of functions."""

import re
from collections.abc import Callable, Iterable

import duckdb

from schemas.columns import ListOf
from schemas.tables import TABLES, columns
from streaming.base.language import gettext
from streaming.base.nearest import closest
from streaming.tables.catalog import FUNCTIONS, VIEWS

_UNKNOWN_COLUMN = re.compile(r'does not have a column named "(?P<name>[^"]+)"')
_WRONG_CALL = re.compile(r'Macro "?(?P<name>\w+)"?\(\) does not support the supplied arguments')
_ALIAS = re.compile(
    r"\b(?:from|join)\s+(?P<relation>\w+)(?:\s*\([^()]*(?:\([^()]*\)[^()]*)*\))?(?:\s+(?:as\s+)?(?P<alias>\w+))?",
    re.IGNORECASE,
)
_STRINGS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*")
_AGGREGATE = re.compile(r"\b(?P<function>max|min)\s*\(\s*(?:\w+\.)?(?P<name>\w+)\s*\)", re.IGNORECASE)
_AFTER_RELATION = frozenset(
    {"where", "group", "order", "limit", "join", "on", "left", "select", "union", "having", "using", "offset"}
)
_NEAR, _LISTED = 3, 20
"""How many columns that are like the unknown one are named; if none is, at most so many of all."""


def list_warning(query: str) -> str | None:
    """Return the sentence for an aggregate of a column that holds a list: DuckDB compares lists element by element.

    None: the query has none.
    """
    words = set(re.findall(r"\w+", query.lower()))
    lists = {
        column.name: table for table in TABLES if table in words for column in columns(table)
        if isinstance(column.type, ListOf)
    }  # fmt: skip
    for found in _AGGREGATE.finditer(_STRINGS.sub("''", query)):
        if (table := lists.get(found["name"].lower())) is not None:
            names = {"column": found["name"], "table": table, "function": found["function"].lower()}
            if table.startswith("queue_progress"):
                return gettext(
                    "{column} of {table} is a list: {function}() compares whole lists. Ask queue_observations, which "
                    "has one row per queue.",
                    **names,
                )
            return gettext("{column} of {table} is a list: {function}() compares whole lists. Unnest it.", **names)
    return None


def keyword_hint(query: str, reserved: Iterable[str]) -> str:
    """Return how to write a column whose name is a keyword, if a query has one as a bare word; else nothing.

    ``reserved`` are DuckDB's reserved keywords.
    """
    text = _STRINGS.sub("''", query)
    names = {column.name for table in TABLES for column in columns(table)}.intersection(reserved)
    bare = [name for name in sorted(names) if re.search(_bare(name), text, re.IGNORECASE)]
    if not bare:
        return ""
    alias = next((found["alias"] for found in _ALIAS.finditer(text) if _is_alias(found["alias"])), None)
    written = f'{alias}."{bare[0]}"' if alias else f'"{bare[0]}"'
    return " ({})".format(gettext("{name} is a keyword of SQL: write {written}", name=bare[0], written=written))


def _bare(name: str) -> str:
    """Return the pattern of a name as a word of its own, and not as the keyword that it is in ``GROUP BY``."""
    return rf'(?<![\w."]){name}(?!\w|"|\s+by\b|\s+\d|\s+all\b)'


def _is_alias(word: str | None) -> bool:
    return word is not None and word.lower() not in _AFTER_RELATION


def meant(error: str, query: str, columns_of: Callable[[str], Iterable[str]]) -> str:
    """Return which column or call may be meant, if DuckDB's error is about an unknown one; else nothing.

    Args:
        error: DuckDB's message.
        query: the query.
        columns_of: returns the columns of a table, view or function, by its name.
    """
    if (call := _WRONG_CALL.search(error)) is not None and call["name"] in FUNCTIONS:
        return f" (call {call['name']}({', '.join(FUNCTIONS[call['name']])}))"
    unknown = _UNKNOWN_COLUMN.search(error)
    if unknown is None:
        return ""
    words = set(re.findall(r"\w+", query.lower()))
    names = [name for of in sorted(words & {*TABLES, *VIEWS, *FUNCTIONS}) for name in columns_of(of)]
    near = closest(unknown["name"].lower(), dict.fromkeys(names), n=_NEAR, cutoff=0.5)
    if near:
        return f" (candidate bindings: {', '.join(near)})"
    listed = list(dict.fromkeys(names))
    more = ", …" if len(listed) > _LISTED else ""
    return f" (its columns: {', '.join(listed[:_LISTED])}{more})" if listed else ""


def relation_columns(database: duckdb.DuckDBPyConnection, name: str) -> list[str]:
    """Return the columns of a table, view or function that is defined in a database; none if it can't be described."""
    call = f"({', '.join(['from_ms(0)'] * len(FUNCTIONS[name]))})" if name in FUNCTIONS else ""
    try:
        with database.cursor() as cursor:
            rows = cursor.execute(f"DESCRIBE SELECT * FROM {name}{call}").fetchall()  # noqa: S608  a name of ours
    except duckdb.Error:
        return []
    return [row[0] for row in rows]
