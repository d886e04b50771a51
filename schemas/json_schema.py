"""JSON Schema of the events and of the tables, for programs that write telemetry or read tables without this code.

`python -m schemas.json_schema` writes the documents beside this file. It refuses a change that breaks the committed
ones, unless the break is intended (``--breaking``: tables must then be rebuilt, and sources changed first).

The schemas give the range of each field; four rules that they can't express are checked only by the decoder
(`observe.events.decoding`): an answer carries its payload or an `error`, never both; the ranges of acked offsets, and
the times of their POPs, are in order; an event's time is at most 25 hours past the transport's stamp; a value has at
most 1 MB.
"""

import sys
from collections.abc import Mapping
from inspect import cleandoc
from pathlib import Path
from typing import get_args

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.observe import events
from rebalance_model.observe.effects import QueueMove
from rebalance_model.observe.events import AnyEvent
from schemas.compatibility import Schema, incompatibilities
from schemas.docstrings import column_meanings, row_meaning
from schemas.tables import ROWS, columns

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
    """Give each property its meaning."""
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
