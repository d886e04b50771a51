"""Turn rows of an answer into types: what can't be read of a row is confined to its field, or to the row.

A row that is as it should be is converted at once. Otherwise each field is converted alone: one that is missing or
can't be read becomes None where the type allows it, else its default, and is noted with the reason. Without either the
row is left out, and noted.

Clients write "none" as -1, and those in C++ as the unsigned number with the same bits, often as text: it is -1 where
that is allowed, and None elsewhere; nothing is noted then.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec

from streaming.base.limits import UNREADABLE_CHARACTERS, UNREADABLE_KEPT
from streaming.collect.fastjson import Deadline, Json

T = TypeVar("T", bound=msgspec.Struct)

_NONE = frozenset({-1, -2, 2**64 - 1, 2**64 - 2, "-1", "-2", str(2**64 - 1), str(2**64 - 2)})
"""-1 in any notation; OffsetStore.readOffset also returns -2, where it failed."""
_MISSING = "missing"


class Names:
    """RocketMQ's names of the fields of a row."""

    def __init__(self, names: Mapping[str, str], others: Mapping[str, str] | None = None) -> None:
        """Take RocketMQ's name of each field of ours, and how some client spells it otherwise."""
        self.by_field = dict(names)
        self._pairs = tuple(names.items())
        self._others = tuple((others or {}).items())
        self.of_others = Names(self.by_field | dict(others)) if others else None
        """The names of the client that spells some otherwise."""

    def values(self, sent: dict[str, Json]) -> dict[str, Any]:
        """Return the values of a row by our names, without those that are absent."""
        values = {ours: value for ours, theirs in self._pairs if (value := sent.get(theirs)) is not None}
        for ours, theirs in self._others:
            if ours not in values and sent.get(theirs) is not None:
                values[ours] = sent[theirs]
        return values


@lru_cache(maxsize=64)
def as_sent(kind: type[msgspec.Struct], names: Names) -> Any:
    """Return the type of rows as they are sent: their fields by RocketMQ's names, none of which may be absent."""
    types = {field.name: field.type for field in msgspec.structs.fields(kind)}
    fields = [(ours, types[ours]) for ours in names.by_field]
    return list[msgspec.defstruct(kind.__name__, fields, rename=names.by_field, gc=False)]  # type: ignore[misc]  # made at run time


class _Fault:
    """Fields of one table that can't be read for one reason."""

    def __init__(self) -> None:
        self.fields: dict[str, None] = {}
        self.first = ""
        self.rows = 0
        self._last: str | None = None

    def add(self, field: str, place: str) -> None:
        """Note a field of a row; the fields of a row come one after the other."""
        if place != self._last:
            self.first, self._last, self.rows = self.first or place, place, self.rows + 1
        if len(self.fields) <= UNREADABLE_KEPT:
            self.fields[field] = None

    def text(self, table: str, reason: str) -> str:
        """Return a sentence's part: the fields, the reason, and the rows."""
        names = [field for field in self.fields if field]
        more = [", …"] if len(names) > UNREADABLE_KEPT else []
        what = ".".join(part for part in (table, ", ".join(names[:UNREADABLE_KEPT])) if part)
        rows = " and ".join(part for part in (self.first, f"{self.rows - 1:,} more" if self.rows > 1 else "") if part)
        return f"{what}{''.join(more)}: {reason}" + (f" ({rows})" if rows else "")


class Unreadable:
    """The unreadable fields of one answer, by table and reason."""

    def __init__(self) -> None:
        self._tables_with_gaps: set[str] = set()
        self._faults: dict[tuple[str, str], _Fault] = {}
        self._deadline = Deadline()

    def note(self, table: str, field: str, reason: str, place: str = "") -> None:
        """Note a field of the answer, or of one of its rows, by RocketMQ's names.

        Without ``table`` it is one of the answer itself, without ``field`` the table or the row as a whole. ``place``
        says which row.

        Raises:
            FastjsonError: the time to read the answer is over.
        """
        self._deadline.check()
        fault = self._faults.get((table, reason))
        if fault is None:
            if len(self._faults) == UNREADABLE_KEPT:
                return
            fault = self._faults[table, reason] = _Fault()
        fault.add(field, place)

    def note_row(self, table: str, field: str, reason: str, place: str = "") -> None:
        """Note a row that is left out; as `note`."""
        self._tables_with_gaps.add(table)
        self.note(table, field, reason, place)

    def texts(self) -> tuple[str, ...]:
        """Return what can't be read, each with the reason and the first row; empty if all could be read."""
        return tuple(fault.text(*what)[:UNREADABLE_CHARACTERS] for what, fault in self._faults.items())

    def fields(self, table: str = "") -> dict[str, Any]:
        """Return the fields of an event that say so; none if all could be read.

        A missing row of ``table`` makes the event incomplete.
        """
        return {"unreadable": self.texts(), "incomplete": table in self._tables_with_gaps} if self._faults else {}


class _Field(NamedTuple):
    name: str
    type: Any
    otherwise: Any
    """The value in place of an unreadable one; `NODEFAULT`: the row is left out."""


class _Fields(NamedTuple):
    all: tuple[_Field, ...]
    may_be_unknown: bool
    """True if a missing value differs from the default: it is None then."""


def row(
    kind: type[T], sent: Json, names: Names, table: str, place: str, unreadable: Unreadable, **further: Any
) -> T | None:
    """Return a row as its type, with further fields that are known already; None if it is left out."""
    if not isinstance(sent, dict):
        unreadable.note_row(table, "", _kind_of(sent), place)
        return None
    values = names.values(sent)
    if len(values) == len(names.by_field) or not _fields(kind).may_be_unknown:
        try:
            return msgspec.convert(values | further, kind, strict=False)
        except msgspec.ValidationError:
            pass  # a field of it can't be read
    return _field_by_field(kind, values | further, names, table, place, unreadable)


def value(kind: Any, sent: Json, otherwise: Any, field: str, unreadable: Unreadable) -> Any:
    """Return a value as its type, or ``otherwise`` if it is absent (which is not noted) or can't be read."""
    if sent is None:
        return otherwise
    try:
        return msgspec.convert(sent, kind, strict=False)
    except msgspec.ValidationError as error:
        unreadable.note("", field, _reason(error))
        return otherwise


def rows(sent: Json, table: str, unreadable: Unreadable) -> Sequence[Json]:
    """Return the rows of a list, none if it is absent; anything else is noted as rows that are left out."""
    if isinstance(sent, list):
        return sent
    if sent is not None:
        unreadable.note_row(table, "", _kind_of(sent))
    return ()


def _field_by_field(
    kind: type[T], values: dict[str, Any], names: Names, table: str, place: str, unreadable: Unreadable
) -> T | None:
    read: dict[str, Any] = {}
    for field in _fields(kind).all:
        if field.name in values:
            content, reason = _converted(field, values[field.name])
        elif field.otherwise is None or field.otherwise is msgspec.NODEFAULT:
            content, reason = msgspec.NODEFAULT, _MISSING
        else:
            continue  # an older version does not send it
        if content is msgspec.NODEFAULT:
            name = names.by_field.get(field.name, field.name)
            if field.otherwise is msgspec.NODEFAULT:
                unreadable.note_row(table, name, reason, place)
                return None
            unreadable.note(table, name, reason, place)
            content = field.otherwise
        read[field.name] = content
    return kind(**read)


def _converted(field: _Field, sent: Json) -> tuple[Any, str]:
    """Return a field's value; `NODEFAULT` and the reason if it can't be read."""
    is_none = isinstance(sent, int | str) and sent in _NONE
    try:
        return msgspec.convert(-1 if is_none else sent, field.type, strict=False), ""
    except msgspec.ValidationError as error:
        return None if is_none and field.otherwise is None else msgspec.NODEFAULT, _reason(error)


@lru_cache(maxsize=64)
def _fields(kind: type[msgspec.Struct]) -> _Fields:
    described = tuple(
        _Field(field.name, field.type, None if type(None) in get_args(field.type) else field.default)
        for field in msgspec.structs.fields(kind)
    )
    return _Fields(described, any(field.otherwise is None for field in described))


_KINDS = {
    "str": "text", "int": "a number", "float": "a fraction or no finite number", "bool": "true or false",
    "object": "an object", "array": "a list", "null": "null",
}  # fmt: skip
"""Plain words for msgspec's names of types."""
_GOT = re.compile(r", got `(\w+)`")


def _reason(error: msgspec.ValidationError) -> str:
    """Return why a value is refused: it is of another kind, or beyond its range."""
    got = _GOT.search(str(error))
    return _KINDS.get(got[1], got[1]) if got else "beyond its range"


def _kind_of(sent: Json) -> str:
    """Return what a row is that is no object."""
    if sent is None:
        return _MISSING
    return {str: "text", bool: "true or false", int: "a number", float: "a number"}.get(type(sent), "a list")
