"""Read a shard's own part of the state, or of one that is damaged what can be read of it.

A blob that can't be read as a whole is taken apart: of a struct each field is read by itself, of a dictionary each
entry, down to the part that is damaged, which gets its default. Torn MessagePack has no parts.
"""

import types
from contextlib import suppress
from typing import get_args, get_origin

import msgspec

from rebalance_model.observe.engine.sources import Held, Source, TimelineState, Waiting
from rebalance_model.observe.events import source_of
from rebalance_model.observe.losses import Losses
from rebalance_model.observe.progress import Unwritten
from rebalance_model.observe.state import STATE_VERSION, UNREADABLE, UnreadableStateError, check_version


class Saved(msgspec.Struct, frozen=True):
    """A shard between two batches."""

    blob: bytes
    buffer: tuple[bytes, ...] = ()
    """The buffered events."""


class ShardState(msgspec.Struct):
    """The state that a shard keeps beside its groups and its buffer."""

    version: int = STATE_VERSION
    waiting: Waiting = msgspec.field(default_factory=Waiting)
    timeline: TimelineState = msgspec.field(default_factory=TimelineState)
    unwritten: Unwritten = {}


class Restored(msgspec.Struct):
    """A shard as it was saved, or what could be read of it."""

    state: ShardState
    buffer: list[Held]
    lost: str = ""
    """The part that could not be read, in words; empty: nothing."""


_DECODER = msgspec.msgpack.Decoder(ShardState)
_HELD = msgspec.msgpack.Decoder(list[Held])
_RAW = msgspec.msgpack.Decoder(list[msgspec.Raw])
_EVENT = msgspec.msgpack.Decoder(Held)


def restored(saved: Saved, losses: Losses) -> Restored:
    """Return the shard that was saved, or what can be read of it.

    Raises:
        StateVersionError: another release has saved it.
        UnreadableStateError: it is damaged, and failures are not contained.
    """
    lost: list[str] = []
    state, buffer = _state_of(saved.blob, lost, losses), list[Held]()
    for chunk in saved.buffer:
        try:
            buffer += _HELD.decode(chunk)
        except UNREADABLE as error:
            losses.note("SHARD", "", UnreadableStateError(str(error)), chunk)
            buffer += _salvaged_events(chunk)
            lost.append("events that waited")
    if lost:
        _agree(state, buffer)
    return Restored(state, buffer, ", ".join(dict.fromkeys(lost)))


def _state_of(blob: bytes, lost: list[str], losses: Losses) -> ShardState:
    try:
        check_version(blob)
        return _DECODER.decode(blob)
    except UNREADABLE as error:
        losses.note("SHARD", "", UnreadableStateError(str(error)), blob)
    except UnreadableStateError as error:
        losses.note("SHARD", "", error, blob)
    found = salvaged(blob, ShardState, "", lost)
    return found if isinstance(found, ShardState) else ShardState()


def salvaged(blob: bytes | msgspec.Raw, kind: object, path: str, lost: list[str]) -> object | None:
    """Return what can be read of a value; None if nothing can.

    Args:
        blob: the value's MessagePack.
        kind: its type.
        path: the name of the value.
        lost: gets the names of the parts that can't be read.
    """
    with suppress(*UNREADABLE):
        whole: object = msgspec.msgpack.decode(blob, type=kind)
        return whole
    try:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return _salvaged_struct(blob, kind, path, lost)
        if get_origin(kind) is dict:
            return _salvaged_entries(blob, get_args(kind), path, lost)
    except (*UNREADABLE, TypeError):  # a field without a default is missing
        pass
    lost.append(path or "all of it")
    return None


def _salvaged_struct(
    blob: bytes | msgspec.Raw, kind: type[msgspec.Struct], path: str, lost: list[str]
) -> msgspec.Struct:
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
    is_array = kind.__struct_config__.array_like
    parts = [(name, msgspec.Raw, msgspec.Raw()) for name in fields]
    found = msgspec.msgpack.decode(blob, type=msgspec.defstruct("Parts", parts, array_like=is_array))
    values = {}
    for name, part in msgspec.structs.asdict(found).items():
        value = salvaged(part, fields[name], f"{path}.{name}".lstrip("."), lost) if bytes(part) else None
        if value is not None:
            values[name] = value
    return kind(**values)


def _salvaged_entries(
    blob: bytes | msgspec.Raw, kinds: tuple[object, ...], path: str, lost: list[str]
) -> dict[object, object]:
    key, value = kinds
    found = msgspec.msgpack.decode(blob, type=types.GenericAlias(dict, (key, msgspec.Raw)))
    read = ((name, salvaged(part, value, f"{path}.{name}", lost)) for name, part in found.items())
    return {name: part for name, part in read if part is not None}


def _salvaged_events(chunk: bytes) -> list[Held]:
    try:
        parts = _RAW.decode(chunk)
    except UNREADABLE:
        return []
    events = []
    for part in parts:
        with suppress(*UNREADABLE):
            events.append(_EVENT.decode(part))
    return events


def _agree(state: ShardState, buffer: list[Held]) -> None:
    """Make the parts agree again: the buffer with what is known of it, and the two clocks with each other."""
    waiting = state.waiting
    buffer[:] = [one for one in buffer if one[1] == source_of(one[4])]
    for _, name, arrival, _, _ in buffer:
        waiting.sources.setdefault(name, Source())
        waiting.arrivals = max(waiting.arrivals, arrival)
    waiting.bytes = sum(one[3] for one in buffer)
    waiting.elapsed = max((waiting.elapsed, *(one.tick_elapsed for one in waiting.sources.values())))
    state.timeline.now = max(waiting.watermark, state.timeline.now)
