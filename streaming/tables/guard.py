"""Check that a user's own SQL is one SELECT over the tables, views and functions of the read model.

DuckDB's own parser analyses the query, so nothing is guessed from its text. Only known relations and table functions
are allowed, so a query can't name a file, path, network address or catalog. All scalar functions that only compute are
allowed; functions that change something, wait, read the catalog, or reveal the process and its settings are refused.

This is the first of two barriers. The second is the database's: external access is off for everything but the tables'
own folder, and its configuration is locked.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

import duckdb

from schemas.tables import TABLES, ListOf, columns
from streaming.base.errors import QueryError
from streaming.base.language import gettext, marked
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
"""The number of columns like the unknown one that are named; if none is, the most of all."""


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
    words = (found["alias"] for found in _ALIAS.finditer(text))
    alias = next((word for word in words if word is not None and word.lower() not in _AFTER_RELATION), None)
    written = f'{alias}."{bare[0]}"' if alias else f'"{bare[0]}"'
    return " ({})".format(gettext("{name} is a keyword of SQL: write {written}", name=bare[0], written=written))


def _bare(name: str) -> str:
    """Return the pattern of a name as a word of its own, and not as the keyword that it is in ``GROUP BY``."""
    return rf'(?<![\w."]){name}(?!\w|"|\s+by\b|\s+\d|\s+all\b)'


def meant(error: str, query: str, columns_of: Callable[[str], Iterable[str]]) -> str:
    """Return which column or call may be meant, if DuckDB's error is about an unknown one; else nothing.

    ``columns_of`` returns the columns of a table, view or function, by its name.
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


_RELATIONS = frozenset({*TABLES, *VIEWS})
_TABLE_FUNCTIONS = frozenset({*FUNCTIONS, "unnest", "range", "generate_series"})
_OF_THE_PROCESS = frozenset(
    {"current_setting", "getenv", "getvariable", "in_search_path", "pg_conf_load_time", "pg_sleep"}
)
"""Functions that reveal settings and environment, or wait, in addition to those that DuckDB marks as volatile."""
_HARMLESS = frozenset({"random", "uuid", "gen_random_uuid", "error"})
"""Volatile functions that are allowed: they only return another value at each call, or fail the query."""

Node = dict[str, Any]


class Guard:
    """Checks queries against DuckDB's catalog of functions."""

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self._database = database
        self._refused: frozenset[str] | None = None
        self._own: frozenset[str] | None = None

    def check(self, query: str) -> None:
        """Refuse a query that is not one plain SELECT.

        Raises:
            QueryError: the query is not allowed; the message names the reason.
        """
        nodes = list(_nodes(self._parsed(query)))
        relations = _RELATIONS | self._defined(nodes)
        for node in nodes:
            match node.get("type"):
                case "BASE_TABLE":
                    _check_name(
                        node["qualified_name"]["path"], relations, marked("Unknown table or view {name}: use {known}.")
                    )
                case "TABLE_FUNCTION":
                    path = node["function"]["qualified_name"]["path"]
                    says = marked("The table function {name} can't be used here: ask {known}.")
                    _check_name(path, _TABLE_FUNCTIONS, says)
                case "SHOW_REF" if node["query"] is None and node["table_name"].strip('"') != "tables":
                    raise QueryError(gettext("Only SELECT, DESCRIBE, SHOW TABLES and SHOW FUNCTIONS are allowed."))
            if node.get("class") in {"FUNCTION", "WINDOW"} and node["qualified_name"]["path"][-1] in self._functions():
                raise QueryError(gettext("The function {name} can't be used here.", name=node["function_name"]))

    def _parsed(self, query: str) -> Node:
        with self._database.cursor() as cursor:
            [(serialized,)] = cursor.execute("SELECT json_serialize_sql(CAST(? AS VARCHAR))", [query]).fetchall()
        try:
            tree: Node = json.loads(serialized)
        except RecursionError:
            raise QueryError(gettext("The query nests too deeply: unnest it.")) from None
        if tree["error"] and tree["error_type"] == "parser":
            said = tree["error_message"].splitlines()[0]
            said += keyword_hint(query, self._keywords())
            raise QueryError(gettext("The query failed: {error}", error=said))
        if tree["error"] or len(tree["statements"]) != 1:
            raise QueryError(gettext("Only a single SELECT is allowed."))
        return tree

    def _defined(self, nodes: Iterable[Node]) -> Set[str]:
        """Return the names of common table expressions.

        A name may be used where it does not denote its expression: outside of its scope, in an expression before it,
        in its own first part. There the name must denote nothing, so it may not be one of DuckDB's own relations.
        """
        named = {entry["key"].lower() for node in nodes if "cte_map" in node for entry in node["cte_map"]["map"]}
        if refused := named & self._own_relations():
            name = min(refused)
            raise QueryError(gettext("The name {name} is DuckDB's own: use another one after WITH.", name=name))
        return {name for name in named if name.isidentifier()}

    def _own_relations(self) -> Set[str]:
        if self._own is None:
            with self._database.cursor() as cursor:
                views = cursor.execute(
                    "SELECT view_name FROM duckdb_views() WHERE internal AND schema_name <> 'information_schema'"
                ).fetchall()
            self._own = frozenset(name.lower() for (name,) in views)
        return self._own

    def _keywords(self) -> Set[str]:
        with self._database.cursor() as cursor:
            rows = cursor.execute(
                "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved'"
            ).fetchall()
        return {name for (name,) in rows}

    def _functions(self) -> Set[str]:
        if self._refused is None:
            with self._database.cursor() as cursor:
                rows = cursor.execute(
                    "SELECT DISTINCT function_name FROM duckdb_functions() "
                    "WHERE stability = 'VOLATILE' OR (internal AND macro_definition ILIKE '%SELECT%')"
                ).fetchall()
            self._refused = _OF_THE_PROCESS | {name for (name,) in rows} - _HARMLESS
        return self._refused


def _check_name(path: list[str], names: Set[str], says: str) -> None:
    if len(path) != 1 or path[0].lower() not in names:
        known = gettext("one of {names}", names=", ".join([*TABLES, *VIEWS]))
        raise QueryError(gettext(says, name=".".join(path), known=known))


def _nodes(tree: object) -> Iterator[Node]:
    parts = [tree]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            yield part
            parts += part.values()
        elif isinstance(part, list):
            parts += part
