"""Encode the state of a group as MessagePack, and reject that of another version."""

from typing import Protocol, TypeVar

import msgspec

from rebalance_model.errors import ModelError
from rebalance_model.observe.state.group import STATE_VERSION, GroupState
from rebalance_model.observe.state.incident import Remains


class StateVersionError(ModelError, ValueError):
    """The state of another release, which this one can't continue from."""

    def __init__(self, version: int) -> None:
        age = "newer" if version > STATE_VERSION else "older"
        super().__init__(
            f"the state is of version {version}, this release reads only version {STATE_VERSION}: use the {age} "
            "release that wrote it, or process the log again from its beginning"
        )


class UnreadableStateError(ModelError, ValueError):
    """A blob of state that is torn, changed, or of another version."""


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError)
"""The errors of MessagePack that was changed."""
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(GroupState)


class _HasVersion(Protocol):
    version: int


State = TypeVar("State", bound=_HasVersion)


class _Versioned(msgspec.Struct):
    version: int = 0


def check_version(blob: bytes) -> None:
    """Check that a blob of state is of this version.

    Raises:
        StateVersionError: it was written by another release.
        UnreadableStateError: it has no version that can be read.
    """
    try:
        version = msgspec.msgpack.decode(blob, type=_Versioned).version
    except UNREADABLE as error:
        raise UnreadableStateError(str(error)) from error
    if version != STATE_VERSION:
        raise StateVersionError(version)


def encode_group(state: GroupState) -> bytes:
    """Return the state as MessagePack."""
    return _ENCODER.encode(state)


def decode_group(blob: bytes) -> GroupState:
    """Return the state from MessagePack of this version.

    Raises:
        UnreadableStateError: the blob is not one of this version.
    """
    return decode_state(_DECODER, blob, STATE_VERSION)


def decode_state(decoder: msgspec.msgpack.Decoder[State], blob: bytes, version: int) -> State:
    """Return a state that names its version from MessagePack.

    Raises:
        UnreadableStateError: the blob can't be read, or is of another version.
    """
    try:
        state = decoder.decode(blob)
    except UNREADABLE as error:
        raise UnreadableStateError(str(error)) from error
    if state.version != version:
        raise UnreadableStateError(f"it is of version {state.version}, this release reads only {version}")
    return state


def remains_of(blob: bytes) -> Remains:
    """Return what can be read of a group's blob that can't be read as a whole."""
    try:
        return msgspec.msgpack.decode(blob, type=Remains)
    except UNREADABLE:
        return Remains()
