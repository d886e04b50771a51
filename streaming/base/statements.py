"""Read SQL from the file beside the module that runs it.

A file has the name of its module, ``groups.sql`` beside ``groups.py``, and one or more queries, each below a line
``-- name: …``. Values are always bound (``$name``). What cannot be bound is a part of the query itself, such as a
relation that another module describes: it stands there as ``{name}``, and `with_parts` fills it in.
"""

import re
from collections.abc import Mapping
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)


def statements_of(module: str) -> Mapping[str, str]:
    """Return the queries of the file beside a module (its ``__name__``) by their names, without comments."""
    package, _, name = module.rpartition(".")
    text = resources.files(package).joinpath(f"{name}.sql").read_text("utf-8")
    _, *parts = _NAME.split(text)
    return {name: _COMMENT.sub("", query).strip() for name, query in zip(parts[::2], parts[1::2], strict=True)}


def with_parts(query: str, **parts: str) -> str:
    """Return a query with its parts: SQL of the program itself, never a value or what a user has written."""
    for name, sql in parts.items():
        query = query.replace(f"{{{name}}}", sql)
    return query
