"""Decode bytes to a valid event, or reject them with a reason: the one parser of the operator and the archive."""

import re

import msgspec

from rebalance_model.entities import INT64_MAX
from rebalance_model.errors import ModelError, UsageError
from rebalance_model.observe.events import AnyEvent, GroupEvent, key_of

VALUE_BYTES_MAX = 1_000_000
"""A larger value is rejected: Kafka's own default for a record (max.message.bytes) is 1,048,588 with its header."""
FUTURE_MS_MAX = 25 * 3_600_000
"""The time by which an event may be past the transport's own stamp; milliseconds. A clock that is a day ahead is
reported and corrected (`observe.engine`); a time beyond that is invalid."""

DEPTH_MAX = 250
"""A value whose objects and lists nest deeper is rejected; events nest less than ten deep. So the check is left out
where there are fewer brackets, and any stack has room for as many levels."""

_DECODER = msgspec.json.Decoder(AnyEvent)
# A string without an end is one, too: otherwise each of its quotes would be tried again.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_AS_LISTS = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_OTHERS_BUT_QUOTES = bytes(set(_OTHERS) - set(b'"'))
_BARE_CR = re.compile(rb"\r(?!\n|\Z)")


class RejectedError(ModelError, ValueError):
    """An input that is no valid event: ``reason`` is a stable code, ``detail`` a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def decode(
    value: bytes | None, *, key: bytes | None = None, stamp: int = INT64_MAX - FUTURE_MS_MAX, keyed: bool = False
) -> AnyEvent:
    """Decode and check one row of the log.

    Args:
        value: the raw bytes.
        key: the transport's key, if it has keys.
        stamp: the transport's own time of the row, epoch milliseconds; the default accepts any time.
        keyed: whether the transport has keys (Kafka has, files do not); then the key must be the event's own.

    Raises:
        RejectedError: with the reason; nothing of the row is used.
        UsageError: the value is not bytes.
    """
    if not isinstance(value, bytes | None):
        raise UsageError(f"a value of the log is bytes, not {type(value).__name__}")
    event = _parse(value)
    if event.time > stamp + FUTURE_MS_MAX:
        detail = f"`time` {event.time} is more than 25 hours past the transport's stamp {stamp}"
        raise RejectedError("future_time", detail)
    if "/" in event.cluster:  # a pattern of the type would cost 0.6 µs an event
        raise RejectedError("invalid", f"`cluster` {event.cluster!r} has a slash, which ends it in the key of a group")
    if keyed:
        _check_key(event, key)
    return event


def _parse(value: bytes | None) -> AnyEvent:
    if not value:
        raise RejectedError("empty", "the value is empty")
    if len(value) > VALUE_BYTES_MAX:
        raise RejectedError("too_large", f"{len(value)} bytes, the limit is {VALUE_BYTES_MAX}")
    if not value.isascii():
        try:
            value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise RejectedError("invalid_utf8", f"byte {error.start} is not UTF-8") from None
    if b"\r" in value and _BARE_CR.search(value):
        raise RejectedError("bare_cr", "a carriage return that ends no line")
    if nests_deeper(value, DEPTH_MAX):
        raise RejectedError("malformed", f"nested more than {DEPTH_MAX} deep")
    try:
        event: AnyEvent = _DECODER.decode(value)
    except msgspec.ValidationError as error:
        reason = "unknown_type" if "Invalid value '" in str(error) and "$.type" in str(error) else "invalid"
        raise RejectedError(reason, str(error)) from None
    except msgspec.DecodeError as error:
        raise RejectedError("malformed", str(error)) from None
    return event


def nests_deeper(value: bytes, depth: int) -> bool:
    """Return whether a JSON value nests deeper than a number of objects and lists, also in fields that no event has.

    The decoder would notice only when the stack is full, so that two readers could differ: the one that is called from
    deeper in its program would reject what the other accepts.
    """
    if value.count(b"[") + value.count(b"{") <= depth:
        return False
    # Without escapes a bracket in a string has an odd number of quotes before it, so one is left of their pairs.
    brackets = value.translate(_AS_LISTS, _OTHERS_BUT_QUOTES).replace(b'""', b"")
    if b"\\" in value or b'"' in brackets:
        brackets = _STRING.sub(b"", value).translate(_AS_LISTS, _OTHERS)
    for _ in range(depth):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _check_key(event: AnyEvent, key: bytes | None) -> None:
    own = key_of(event)
    if isinstance(event, GroupEvent):
        if key is None:
            raise RejectedError("null_key", f"an event of a group needs the key {own!r}")
        if key != own.encode():
            raise RejectedError("wrong_key", f"the key is {key!r}, the event's own is {own!r}")
    elif key:
        raise RejectedError("wrong_key", f"a broadcast has no key, this one has {key!r}")
