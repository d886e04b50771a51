"""The meaning of each table and column, for the comments in Delta: as `tables.schema.json` has it."""

import ast
import inspect
import re
import sys
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec

from schemas.tables import ROWS

_NONE = re.compile(r"\bNone\b")
"""The None of a meaning: a table has null for it."""


def field_docs(row: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class, inherited ones included, each on one line, by field."""
    docs: dict[str, str] = {}
    for base in reversed(row.__mro__):
        if base.__module__ in sys.modules and base.__module__.startswith(("rebalance_model", "schemas", "streaming")):
            docs |= _docs_by_class(base.__module__).get(base.__name__, {})
    return docs


def docs_below(body: Sequence[ast.stmt]) -> dict[str, str]:
    """Return the docstrings below declarations, each on one line, by the name that is declared."""
    return {
        one.target.id: _on_one_line(after.value.value)
        for one, after in pairwise(body)
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    }


def column_meanings(row: type) -> dict[str, str]:
    """Return the meaning of each column of a row type that has a docstring, in a table's words."""
    return {name: _NONE.sub("null", text) for name, text in field_docs(row).items()}


def row_meaning(row: type[msgspec.Struct]) -> str:
    """Return what a row is; of a type that adds columns to another one, first what that is."""
    bases = [base for base in reversed(row.__mro__[:-1]) if base.__module__.startswith(("rebalance_model", "schemas"))]
    said = dict.fromkeys(inspect.getdoc(one) or "" for one in bases if len(bases) == 1 or one.__name__ != "Effect")
    return _NONE.sub("null", _on_one_line(" ".join(said)))


def _on_one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("``", "`")).strip()


@cache
def _docs_by_class(module: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(Path(sys.modules[module].__file__ or "").read_text("utf-8"))
    return {node.name: docs_below(node.body) for node in tree.body if isinstance(node, ast.ClassDef)}


def meaning_of(table: str) -> str:
    """Return what a row of a table is.

    Raises:
        KeyError: the table does not exist.
    """
    return row_meaning(ROWS[table])


def meanings_of(table: str) -> dict[str, str]:
    """Return the meaning of each column of a table; of a list of structs with those of its fields.

    Raises:
        KeyError: the table does not exist.
    """
    meanings = column_meanings(ROWS[table])
    return {name: f"{meanings[name]}{_fields(kind)}" for name, kind in get_type_hints(ROWS[table]).items()}


def _fields(kind: object) -> str:
    struct = next((one for one in get_args(kind) if isinstance(one, type) and issubclass(one, msgspec.Struct)), None)
    if struct is None:
        return ""
    return " Its fields: " + " ".join(f"`{name}`: {meaning}" for name, meaning in column_meanings(struct).items())
