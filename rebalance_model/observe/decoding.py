"""Decode bytes to a valid event, or reject them with a reason: the one parser of the operator and the archive."""

import re

import msgspec

from rebalance_model.observe.events import AnyEvent, GroupEvent, key_of

VALUE_BYTES_MAX = 1_000_000
"""A larger value is rejected: Kafka's own default for a record (max.message.bytes) is 1,048,588 with its header."""
FUTURE_MS_MAX = 25 * 3_600_000
"""How far an event's time may be past the transport's own stamp; milliseconds. A clock that is a day ahead is reported
and corrected (`observe.engine`); a time beyond that is invalid."""

_DECODER = msgspec.json.Decoder(AnyEvent)
_BARE_CR = re.compile(rb"\r(?!\n|\Z)")


class RejectedError(ValueError):
    """An input that is no valid event: ``reason`` is a stable code, ``detail`` a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def decode(value: bytes | None, *, key: bytes | None, stamp: int, keyed: bool) -> AnyEvent:
    """Decode and check one row of the log.

    Args:
        value: the raw bytes.
        key: the transport's key, if it has keys.
        stamp: the transport's own time of the row, epoch milliseconds.
        keyed: whether the transport has keys (Kafka has, files do not); then the key must be the event's own.

    Raises:
        RejectedError: with the reason; nothing of the row is used.
    """
    event = _parse(value)
    if event.time > stamp + FUTURE_MS_MAX:
        detail = f"`time` {event.time} is more than 25 hours past the transport's stamp {stamp}"
        raise RejectedError("future_time", detail)
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
    try:
        event: AnyEvent = _DECODER.decode(value)
    except msgspec.ValidationError as error:
        reason = "unknown_type" if "Invalid value '" in str(error) and "$.type" in str(error) else "invalid"
        raise RejectedError(reason, str(error)) from None
    except msgspec.DecodeError as error:
        raise RejectedError("malformed", str(error)) from None
    except RecursionError:
        raise RejectedError("malformed", "nested too deeply") from None
    return event


def _check_key(event: AnyEvent, key: bytes | None) -> None:
    own = key_of(event)
    if isinstance(event, GroupEvent):
        if key is None:
            raise RejectedError("null_key", f"an event of a group needs the key {own!r}")
        if key != own.encode():
            raise RejectedError("wrong_key", f"the key is {key!r}, the event's own is {own!r}")
    elif key:
        raise RejectedError("wrong_key", f"a broadcast has no key, this one has {key!r}")
