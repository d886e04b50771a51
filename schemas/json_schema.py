"""JSON Schema of the events and of the tables, for programs that write telemetry or read tables without this code.

`python -m schemas.json_schema` writes the documents beside this file. It refuses a change that breaks the committed
ones, unless the break is intended (``--breaking``: tables must then be rebuilt, and sources changed first).

The schemas give the range of each field; four rules that they can't express are checked only by the decoder
(`observe.events.decoding`): an answer carries its payload or an `error`, never both; the ranges of acked offsets, and
the times of their POPs, are in order; an event's time is at most 25 hours past the transport's stamp; a value has at
most 1 MB.

Check that a new schema accepts everything that an old one accepted, and still has every field.

Compatible: a new optional field, a new event type or table, a wider range or choice. Incompatible: a removed field or
type, a narrower one, a new required field. A keyword that this check doesn't know is an error, so that no change
passes unchecked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from pathlib import Path
from typing import get_args

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.observe import events
from rebalance_model.observe.effects import QueueMove
from rebalance_model.observe.events import AnyEvent
from schemas.meanings import column_meanings, row_meaning
from schemas.tables import ROWS, columns

_ANYTHING = "anything"


class Schema(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={
        "dialect": "$schema",
        "reference": "$ref",
        "definitions": "$defs",
        "any_of": "anyOf",
        "additional": "additionalProperties",
        "min_length": "minLength",
        "max_length": "maxLength",
        "min_items": "minItems",
        "max_items": "maxItems",
        "encoding": "contentEncoding",
    },
):
    """The part of JSON Schema that msgspec writes."""

    type: str | None = None
    format: str | None = None
    encoding: str | None = None
    enum: tuple[str, ...] | None = None
    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    items: Schema | None = None
    properties: dict[str, Schema] = {}
    required: tuple[str, ...] = ()
    additional: Schema | None = None
    any_of: tuple[Schema, ...] = ()
    reference: str | None = None
    definitions: dict[str, Schema] = {}
    # Annotations for readers, without effect on validity.
    dialect: str | None = None
    title: str | None = None
    description: str | None = None
    default: msgspec.Raw = msgspec.Raw()
    discriminator: msgspec.Raw = msgspec.Raw()


def incompatibilities(old: Schema, new: Schema) -> list[str]:
    """Return a sentence for everything that the new schema no longer accepts or provides; empty if compatible."""
    return list(_Comparison(old.definitions, new.definitions).compare("$", old, new))


class _Comparison:
    """The comparison of two documents. No type refers to itself, so following references ends."""

    def __init__(self, old: dict[str, Schema], new: dict[str, Schema]) -> None:
        self._old = old
        self._new = new

    def compare(self, path: str, old: Schema, new: Schema) -> Iterator[str]:
        candidates = _alternatives(new, self._new)
        for alternative in _alternatives(old, self._old):
            kind = _kind(alternative)
            judged = [
                list(self._schema_changes(path, alternative, other))
                for other in candidates
                if _kind(other) in (kind, _ANYTHING)
            ]
            yield from min(judged, key=len, default=[f"{path}: {kind} is no longer accepted"])

    def _schema_changes(self, path: str, old: Schema, new: Schema) -> Iterator[str]:
        yield from _narrower(path, old, new)
        for name, field in old.properties.items():
            if name not in new.properties:
                yield f"{path}.{name}: the field was removed"
            else:
                yield from self.compare(f"{path}.{name}", field, new.properties[name])
        for name in new.required:
            if name not in old.required:
                is_new = name not in old.properties
                yield f"{path}.{name}: {'a new field is required' if is_new else 'the field became required'}"
        for mark, inner, outer in (("[]", old.items, new.items), ("{}", old.additional, new.additional)):
            if outer is not None:
                yield from self.compare(path + mark, inner or Schema(), outer)


def _alternatives(schema: Schema, definitions: dict[str, Schema]) -> tuple[Schema, ...]:
    """Return the schema's alternatives, with references and unions resolved."""
    if schema.reference is not None:
        return _alternatives(definitions[schema.reference.removeprefix("#/$defs/")], definitions)
    if schema.any_of:
        return tuple(found for member in schema.any_of for found in _alternatives(member, definitions))
    return (schema,)


def _kind(schema: Schema) -> str:
    """Return the key by which alternatives are matched: the JSON type, and the tag of an event."""
    tag = schema.properties.get("type")
    if tag is not None and tag.enum is not None:
        return f"the type {', '.join(tag.enum)}"
    return schema.type or ("string" if schema.enum is not None else _ANYTHING)


def _narrower(path: str, old: Schema, new: Schema) -> Iterator[str]:
    if new.enum is not None:
        lost = [value for value in old.enum or () if value not in new.enum]
        if old.enum is None or lost:
            yield f"{path}: only {', '.join(new.enum)} is accepted now"
    if new.format not in (None, old.format) or new.encoding != old.encoding:
        yield f"{path}: the format is {new.format or new.encoding} now"
    for word, before, now, tighter in (
        ("minimum", old.minimum, new.minimum, 1),
        ("minLength", old.min_length, new.min_length, 1),
        ("maximum", old.maximum, new.maximum, -1),
        ("maxLength", old.max_length, new.max_length, -1),
        ("minItems", old.min_items, new.min_items, 1),
        ("maxItems", old.max_items, new.max_items, -1),
    ):
        if now is not None and (before is None or (now - before) * tighter > 0):
            yield f"{path}: {word} is {now} now, it was {before}"


FOLDER = Path(__file__).parent
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = "#/$defs/{name}"
EVENT_PARTS = (
    MessageQueue,
    events.RpcError,
    events.Subscription,
    events.Connection,
    events.ProcessQueueInfo,
    events.PopProcessQueueInfo,
    events.ThreadStack,
    events.OffsetInfo,
    events.TimeSpanInfo,
    events.DelayLevel,
    events.TopicOffset,
)
"""The types of the values inside events."""


def events_document() -> dict[str, object]:
    """Return the schema of one event: a line of the log, or a Kafka value."""
    (event,), definitions = msgspec.json.schema_components([AnyEvent], ref_template=_REFERENCE)
    title = "A telemetry event of rebalance-watch"
    for struct in (*get_args(AnyEvent), *EVENT_PARTS):
        _describe(definitions[struct.__name__]["properties"], column_meanings(struct))
    return {"$schema": _DIALECT, "title": title, **event, "$defs": dict(sorted(definitions.items()))}


def tables_document() -> dict[str, object]:
    """Return the schema of one row of each table, by table name; a nullable column may also be absent.

    A timestamp is a string here, as JSON has it.
    """
    rows, definitions = msgspec.json.schema_components(list(ROWS.values()), ref_template=_REFERENCE)
    for table, row in ROWS.items():
        definitions[row.__name__]["required"] = [column.name for column in columns(table) if not column.nullable]
    described: tuple[type[msgspec.Struct], ...] = (*ROWS.values(), QueueMove, MessageQueue)
    for struct in described:
        _describe(definitions[struct.__name__]["properties"], column_meanings(struct))
    tables = {
        table: {**reference, "description": row_meaning(ROWS[table])}
        for table, reference in zip(ROWS, rows, strict=True)
    }
    _with_timestamps(definitions)
    title = "The rows of rebalance-watch's tables"
    return {
        "$schema": _DIALECT,
        "title": title,
        "type": "object",
        "properties": tables,
        "$defs": dict(sorted(definitions.items())),
    }


def _describe(properties: dict[str, dict[str, object]], meanings: Mapping[str, str]) -> None:
    for name in properties.keys() & meanings.keys():
        properties[name] = {**properties[name], "description": meanings[name]}


def _with_timestamps(part: object) -> None:
    """Replace the schema of the program's times, epoch milliseconds, by that of a table's timestamps."""
    if isinstance(part, dict):
        if part.get("format") == "epoch-ms":
            part |= {"type": "string", "format": "date-time"}
        part = list(part.values())
    for item in part if isinstance(part, list) else ():
        _with_timestamps(item)


def documents() -> dict[str, bytes]:
    """Return the content of every document by its file name."""
    made = {"events.schema.json": events_document(), "tables.schema.json": tables_document()}
    return {
        name: msgspec.json.format(msgspec.json.encode(_dedented(document))) + b"\n" for name, document in made.items()
    }


def _dedented(part: object) -> object:
    """Return the descriptions without the indentation of docstrings, which only Python 3.13 removes by itself."""
    if isinstance(part, list):
        return [_dedented(item) for item in part]
    if not isinstance(part, dict):
        return part
    return {
        key: cleandoc(value) if key == "description" and isinstance(value, str) else _dedented(value)
        for key, value in part.items()
    }


def main(arguments: list[str]) -> int:
    """Write the documents; return 1 if that would break a reader or a writer of the committed ones."""
    problems: list[str] = []
    for name, new in documents().items():
        file = FOLDER / name
        if file.exists():
            old = msgspec.json.decode(file.read_bytes(), type=Schema)
            problems += [f"{name}: {found}" for found in incompatibilities(old, msgspec.json.decode(new, type=Schema))]
    if problems and "--breaking" not in arguments:
        sys.stderr.write("\n".join([*problems, "Nothing was written. If the break is meant, add --breaking.\n"]))
        return 1
    for name, new in documents().items():
        (FOLDER / name).write_bytes(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
