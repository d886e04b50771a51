"""Read the JSON dialect of RocketMQ's answers (fastjson 1.2 and 2).

Beyond standard JSON an object's keys may be objects (``{{"brokerName":"b","queueId":0,"topic":"T"}:1}``) or bare
numbers (``{0:12}``), and a value that occurs twice may be a reference to its first place (``{"$ref":"$.a[0]"}``).
The C scanner of the standard library reads standard JSON; only the objects that it can't read are parsed here, so
an answer with 4,096 queues takes some tens of milliseconds.
"""

import re
from collections.abc import Iterable
from json import JSONDecodeError, JSONDecoder
from typing import Any

Json = Any
"""The result of `parse`: str, int, float, bool, None, lists and dicts of them, and `Pairs`."""
DEPTH_MAX = 64
"""RocketMQ's own answers nest less than ten deep."""

_STANDARD = JSONDecoder(strict=False)  # fastjson leaves control characters in strings as they are
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER_KEY = re.compile(r"-?\d+")
_STEP = re.compile(r"\.((?:[^.\[\\]|\\.)+)|\[(\d+)\]")


class Pairs(list[tuple[Json, Json]]):
    """An object with keys other than strings: its (key, value) pairs in order."""


class FastjsonError(ValueError):
    """A body that is not JSON of this dialect."""


def parse(body: bytes) -> Json:
    """Read a body.

    Raises:
        FastjsonError: the body is not JSON of the dialect, or a reference has no target.
    """
    try:
        text = body.decode()
        value, end = _value(text, _skip(text, 0), 0)
    except (UnicodeDecodeError, JSONDecodeError, RecursionError) as error:
        raise FastjsonError(str(error)) from None
    if _skip(text, end) != len(text):
        msg = f"more text after the value, at {end}"
        raise FastjsonError(msg)
    return _resolved(value, value) if '"$ref"' in text else value


def items(table: Json) -> Iterable[tuple[Json, Json]]:
    """Return the (key, value) pairs of an object in either form; none for null."""
    if table is None:
        return ()
    if isinstance(table, dict):
        return table.items()
    if isinstance(table, Pairs):
        return table
    msg = f"expected an object, got {type(table).__name__}"
    raise FastjsonError(msg)


def _value(text: str, at: int, depth: int) -> tuple[Json, int]:
    if depth > DEPTH_MAX:
        msg = f"nested more than {DEPTH_MAX} deep"
        raise FastjsonError(msg)
    opening = text[at : at + 1]
    if opening not in ("{", "["):
        return _STANDARD.raw_decode(text, at)
    if opening == "[" or text[_skip(text, at + 1) :][:1] in ('"', "}"):
        try:
            return _STANDARD.raw_decode(text, at)
        except JSONDecodeError:
            pass  # a part of it is not standard
    return _object(text, at, depth) if opening == "{" else _array(text, at, depth)


def _object(text: str, at: int, depth: int) -> tuple[Json, int]:
    pairs = Pairs()
    at = _skip(text, at + 1)
    while text[at : at + 1] != "}":
        key, at = _key(text, at, depth)
        value, at = _value(text, _expect(text, at, ":"), depth + 1)
        pairs.append((key, value))
        at = _next(text, at, "}")
    standard = all(isinstance(key, str) for key, _ in pairs)
    return (dict(pairs) if standard else pairs), at + 1


def _array(text: str, at: int, depth: int) -> tuple[Json, int]:
    values = []
    at = _skip(text, at + 1)
    while text[at : at + 1] != "]":
        value, at = _value(text, at, depth + 1)
        values.append(value)
        at = _next(text, at, "]")
    return values, at + 1


def _key(text: str, at: int, depth: int) -> tuple[Json, int]:
    number = _NUMBER_KEY.match(text, at)
    return (int(number[0]), number.end()) if number else _value(text, at, depth + 1)


def _next(text: str, at: int, closing: str) -> int:
    """Return the position after a comma, or of the closing bracket."""
    at = _skip(text, at)
    return at if text[at : at + 1] == closing else _expect(text, at, ",")


def _expect(text: str, at: int, sign: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != sign:
        msg = f"expected {sign!r} at {at}"
        raise FastjsonError(msg)
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _resolved(value: Json, root: Json, seen: frozenset[str] = frozenset()) -> Json:
    """Return the value with every ``$ref`` to an absolute path replaced by its target."""
    if isinstance(value, Pairs):
        return Pairs((_resolved(key, root, seen), _resolved(one, root, seen)) for key, one in value)
    if isinstance(value, list):
        return [_resolved(one, root, seen) for one in value]
    if not isinstance(value, dict):
        return value
    path = value.get("$ref")
    if len(value) != 1 or not isinstance(path, str):
        return {key: _resolved(one, root, seen) for key, one in value.items()}
    if path in seen:
        msg = f"the reference {path} leads to itself"
        raise FastjsonError(msg)
    return _resolved(_at(path, root), root, seen | {path})


def _at(path: str, root: Json) -> Json:
    value, at = root, 1
    while at < len(path):
        step = _STEP.match(path, at)
        try:
            if step is None or not path.startswith("$"):
                raise KeyError(path)
            name = re.sub(r"\\(.)", r"\1", step[1]) if step[1] is not None else None
            value = value[int(step[2])] if name is None else dict(items(value))[name]
        except (LookupError, TypeError, FastjsonError):
            msg = f"the reference {path} leads nowhere"
            raise FastjsonError(msg) from None
        at = step.end()
    return value
