"""Encode the state of a group as MessagePack, and reject that of another version."""

import msgspec

from rebalance_model.errors import ModelError
from rebalance_model.observe.state.group import STATE_VERSION, GroupState


class StateVersionError(ModelError, ValueError):
    """The state of another release, which this one can't continue from."""

    def __init__(self, version: int) -> None:
        age = "newer" if version > STATE_VERSION else "older"
        super().__init__(
            f"the state is of version {version}, this release reads only version {STATE_VERSION}: use the {age} "
            "release that wrote it, or process the log again from its beginning"
        )


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(GroupState)


class _Versioned(msgspec.Struct):
    version: int = 0


def check_version(blob: bytes) -> None:
    """Check that a blob of state is of this version.

    Raises:
        StateVersionError: it was written by another release.
    """
    found = msgspec.msgpack.decode(blob, type=_Versioned).version
    if found != STATE_VERSION:
        raise StateVersionError(found)


def encode_group(state: GroupState) -> bytes:
    """Return the state as MessagePack."""
    return _ENCODER.encode(state)


def decode_group(blob: bytes) -> GroupState:
    """Return the state from MessagePack of this version."""
    return _DECODER.decode(blob)
