"""The meaning of each table and column, for the comments in Delta: as `tables.schema.json` has it."""

from functools import cache
from importlib import resources

import msgspec


class _Reference(msgspec.Struct):
    definition: str = msgspec.field(name="$ref", default="")
    description: str = ""


class _Column(msgspec.Struct):
    description: str
    items: _Reference | None = None


class _Definition(msgspec.Struct):
    properties: dict[str, _Column]


class _Document(msgspec.Struct):
    properties: dict[str, _Reference]
    definitions: dict[str, _Definition] = msgspec.field(name="$defs")

    def columns(self, reference: str) -> dict[str, _Column]:
        """Return what a reference has, such as ``#/$defs/QueueMove``."""
        return self.definitions[reference.rpartition("/")[2]].properties


def meaning_of(table: str) -> str:
    """Return what a row of a table is.

    Raises:
        KeyError: the table does not exist.
    """
    return _document().properties[table].description


def meanings_of(table: str) -> dict[str, str]:
    """Return the meaning of each column of a table; of a list of structs with those of its fields.

    Raises:
        KeyError: the table does not exist.
    """
    columns = _document().columns(_document().properties[table].definition)
    return {name: f"{column.description}{_fields(column)}" for name, column in columns.items()}


def _fields(column: _Column) -> str:
    if column.items is None or not column.items.definition:
        return ""
    fields = _document().columns(column.items.definition)
    return " Its fields: " + " ".join(f"`{name}`: {one.description}" for name, one in fields.items())


@cache
def _document() -> _Document:
    return msgspec.json.decode(resources.files("schemas").joinpath("tables.schema.json").read_bytes(), type=_Document)
