"""Read the JSON dialect of RocketMQ's answers (fastjson 1.2 and 2).

Beyond standard JSON an object's keys may be objects (``{{"brokerName":"b","queueId":0,"topic":"T"}:1}``) or bare
numbers (``{0:12}``), and a value that occurs twice may be a reference to its first place (``{"$ref":"$.a[0]"}``).
The C scanner of the standard library reads standard JSON; only the objects that it can't read are parsed here, so
an answer with 4,096 queues takes some tens of milliseconds.

Some of what clients write is no JSON, and is read as it is meant: a closing brace in place of a value (``"mqTable":}``,
as the C++ client writes a table without rows) is an empty object, and further commas (``{,``, as a .NET client begins
without a table) are skipped. Text that can't be decoded (bytes that are not UTF-8, half of a surrogate pair) has U+FFFD
in its place; a number of more than `NUMBER_DIGITS` digits is infinite: its field is refused, the rest is read.
"""

import math
import re
import time
from collections.abc import Iterable
from json import JSONDecodeError, JSONDecoder
from typing import Any, NamedTuple

from streaming.base.limits import ANSWER_DEPTH, ANSWER_SECONDS, ANSWER_VALUES

Json = Any
"""The result of `parse`: str, int, float, bool, None, lists and dicts of them, and `Pairs`."""

NUMBER_DIGITS = 400
"""No number of an answer has more; Python refuses 4,300 digits, and the time to read them is quadratic."""


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= NUMBER_DIGITS else math.inf


_STANDARD = JSONDecoder(strict=False)  # fastjson leaves control characters in strings as they are
_LONG_NUMBERS = JSONDecoder(strict=False, parse_int=_integer)  # takes longer
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_SPACE = re.compile(r"[ \t\r\n]*")
_COMMAS = re.compile(r"[ \t\r\n,]*")  # fastjson's AllowArbitraryCommas; a .NET client begins with one
_SKIPPED = frozenset(" \t\r\n,")
_COLON = re.compile(r"[ \t\r\n]*+:[ \t\r\n]*")
_NEXT_PAIR = re.compile(r"[ \t\r\n]*+(?:,[ \t\r\n,]*|(?=\}))")
_NEXT_VALUE = re.compile(r"[ \t\r\n]*+(?:,[ \t\r\n,]*|(?=\]))")
_NUMBER_KEY = re.compile(r"-?\d+")
_STEP = re.compile(r"\.((?:[^.\[\\]|\\.)+)|\[(\d+)\]")
_CHECKED_EVERY = 32
"""The time is read before every 32nd key or value: reading it is a system call."""
_TOO_DEEP = f"nested more than {ANSWER_DEPTH} deep"


class Pairs(list[tuple[Json, Json]]):
    """An object with keys other than strings: its (key, value) pairs in order."""


class FastjsonError(ValueError):
    """A body that is not JSON of this dialect, or exceeds a limit."""


def parse(body: bytes, depth_max: int = ANSWER_DEPTH) -> Json:
    """Read a body, which may come from anybody: within the limits of `streaming.base.limits`, or not at all.

    Raises:
        FastjsonError: the body is not JSON of the dialect, a reference has no target, or a limit is exceeded.
    """
    if not body.strip():
        raise FastjsonError("the answer is empty")
    if body.count(b",") + body.count(b"[") + body.count(b"{") > ANSWER_VALUES:
        raise FastjsonError(f"more than {ANSWER_VALUES:,} values")
    deadline = Deadline()
    try:
        text = body.decode(errors="replace")
        value, is_flat = _read(text, depth_max, deadline)
    except FastjsonError:
        raise
    except (ValueError, RecursionError) as error:  # JSONDecodeError is a ValueError
        raise FastjsonError(str(error)) from None
    if '"$ref"' in text:
        value = _References(value, deadline).resolved()
        is_flat = False
    if not is_flat:
        _check_depth(value, depth_max)
    may_have_halves = b"\\u" in body and _ESCAPED_SURROGATE.search(body)
    return _without_surrogates(value) if may_have_halves else value


def _read(text: str, depth_max: int, deadline: "Deadline") -> tuple[Json, bool]:
    """Return the value, and whether it surely nests no deeper than allowed."""
    try:
        reader = _Reader(text, depth_max, deadline, _STANDARD)
        return reader.whole(), reader.is_flat
    except ValueError as error:
        if isinstance(error, JSONDecodeError | FastjsonError):
            raise
        reader = _Reader(text, depth_max, deadline, _LONG_NUMBERS)  # a number of more than 4,300 digits
        return reader.whole(), reader.is_flat


def items(table: Json) -> Iterable[tuple[Json, Json]]:
    """Return the (key, value) pairs of an object in either form; none for null."""
    if table is None:
        return ()
    if isinstance(table, dict):
        return table.items()
    if isinstance(table, Pairs):
        return table
    raise FastjsonError(f"expected an object, got {type(table).__name__}")


def _without_surrogates(value: Json) -> Json:
    """Replace halves of surrogate pairs, which no encoding has; the depth of the value has been checked."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(one) for key, one in value.items()}
    if isinstance(value, Pairs):
        return Pairs((_without_surrogates(key), _without_surrogates(one)) for key, one in value)
    return [_without_surrogates(one) for one in value] if isinstance(value, list) else value


def _check_depth(value: Json, depth_max: int) -> None:
    """Check what the C scanner has read: it nests as deep as Python's stack allows."""
    level = [value]
    for _ in range(depth_max):
        level = [part for one in level for part in _parts(one) if isinstance(part, dict | list)]
        if not level:
            return
    raise FastjsonError(_TOO_DEEP)


def _parts(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, Pairs):
        return (part for pair in value for part in pair)
    return value if isinstance(value, list) else ()


class Deadline:
    """The end of the time to read one answer, as processor time of this thread: a busy machine shortens nothing."""

    def __init__(self) -> None:
        self._end = time.thread_time() + ANSWER_SECONDS

    def check(self) -> None:
        """Raise `FastjsonError` when the time is over."""
        if time.thread_time() > self._end:
            raise FastjsonError(f"reading it takes more than {ANSWER_SECONDS:g} s")


class _Reader:
    """Reads one text. Each step is either short or one call of the C scanner, so the deadline is kept."""

    def __init__(self, text: str, depth_max: int, deadline: Deadline, scanner: JSONDecoder) -> None:
        self._text = text
        self._scan = scanner.raw_decode
        self._depth_max = depth_max
        self._deadline = deadline
        self.is_flat = True
        """True if what the scanner has read can't nest too deep, by its number of opening brackets."""

    def whole(self) -> Json:
        value, end = self._value(self._skip(0), 0)
        if self._skip(end) != len(self._text):
            raise FastjsonError(f"more text after the value, at {end}")
        return value

    def _value(self, at: int, depth: int) -> tuple[Json, int]:
        if depth > self._depth_max:
            raise FastjsonError(_TOO_DEEP)
        opening = self._text[at : at + 1]
        if opening == "}":
            return {}, at + 1  # a table whose opening brace was cut
        if opening not in ("{", "["):
            return self._scan(self._text, at)
        inside = self._skip(at + 1)
        if opening == "[" or self._text[inside : inside + 1] in ('"', "}"):
            try:
                value, end = self._scan(self._text, at)
            except JSONDecodeError:
                pass  # a part of it is not standard
            else:
                opened = self._text.count("{", at, end) + self._text.count("[", at, end)
                self.is_flat = self.is_flat and depth + opened <= self._depth_max
                return value, end
        return self._object(at, depth) if opening == "{" else self._array(at, depth)

    def _object(self, at: int, depth: int) -> tuple[Json, int]:
        pairs = Pairs()
        at = self._skip(at + 1, _COMMAS)
        while self._text[at : at + 1] != "}":
            if not len(pairs) % _CHECKED_EVERY:
                self._deadline.check()
            key, at = self._key(at, depth)
            value, at = self._value(self._end_of(_COLON, at, "':'"), depth + 1)
            pairs.append((key, value))
            at = self._end_of(_NEXT_PAIR, at, "','")
        standard = all(isinstance(key, str) for key, _ in pairs)
        return (dict(pairs) if standard else pairs), at + 1

    def _array(self, at: int, depth: int) -> tuple[Json, int]:
        values: list[Json] = []
        at = self._skip(at + 1, _COMMAS)
        while self._text[at : at + 1] != "]":
            if not len(values) % _CHECKED_EVERY:
                self._deadline.check()
            value, at = self._value(at, depth + 1)
            values.append(value)
            at = self._end_of(_NEXT_VALUE, at, "','")
        return values, at + 1

    def _key(self, at: int, depth: int) -> tuple[Json, int]:
        number = _NUMBER_KEY.match(self._text, at)
        return (int(number[0]), number.end()) if number else self._value(at, depth + 1)

    def _end_of(self, separator: re.Pattern[str], at: int, sign: str) -> int:
        """Return the position after a separator: of the next key or value, or of the closing bracket."""
        match = separator.match(self._text, at)
        if match is None:
            raise FastjsonError(f"expected {sign} at {self._skip(at)}")
        return match.end()

    def _skip(self, at: int, what: re.Pattern[str] = _SPACE) -> int:
        if self._text[at : at + 1] not in _SKIPPED:
            return at
        space = what.match(self._text, at)
        return space.end() if space else at


class _Resolved(NamedTuple):
    value: Json
    values: int
    """The number of values in it, references replaced."""


class _References:
    """Replaces every ``$ref`` to an absolute path by its target.

    A target is resolved once and shared by all that refer to it, so chains of references take no more than their text;
    the number of values counts each use, as a reader of the result meets it.
    """

    def __init__(self, root: Json, deadline: Deadline) -> None:
        self._root = root
        self._deadline = deadline
        self._values = 0
        self._targets: dict[str, _Resolved | None] = {}
        """By path; None while it is being resolved."""

    def resolved(self) -> Json:
        return self._resolve(self._root, 0)

    def _resolve(self, value: Json, depth: int) -> Json:
        self._count(1)
        if depth > ANSWER_DEPTH:
            raise FastjsonError(_TOO_DEEP)
        if isinstance(value, Pairs):
            return Pairs((self._resolve(key, depth + 1), self._resolve(one, depth + 1)) for key, one in value)
        if isinstance(value, list):
            return [self._resolve(one, depth + 1) for one in value]
        if not isinstance(value, dict):
            return value
        path = value.get("$ref")
        if len(value) == 1 and isinstance(path, str):
            return self._target(path, depth + 1)
        return {key: self._resolve(one, depth + 1) for key, one in value.items()}

    def _target(self, path: str, depth: int) -> Json:
        self._deadline.check()
        if path not in self._targets:
            self._targets[path] = None
            before = self._values
            value = self._resolve(self._at(path), depth)
            self._targets[path] = _Resolved(value, self._values - before)
            return value
        target = self._targets[path]
        if target is None:
            raise FastjsonError(f"the reference {path} leads to itself")
        self._count(target.values)
        return target.value

    def _count(self, values: int) -> None:
        self._values += values
        if self._values > ANSWER_VALUES:
            raise FastjsonError(f"more than {ANSWER_VALUES:,} values, references replaced")

    def _at(self, path: str) -> Json:
        value, at = self._root, 1
        while at < len(path):
            self._deadline.check()
            step = _STEP.match(path, at)
            try:
                if step is None or not path.startswith("$"):
                    raise KeyError(path)
                name = re.sub(r"\\(.)", r"\1", step[1]) if step[1] is not None else None
                value = value[int(step[2])] if name is None else _member(value, name)
            except (LookupError, TypeError, ValueError):
                raise FastjsonError(f"the reference {path} leads nowhere") from None
            at = step.end()
        return value


def _member(value: Json, name: str) -> Json:
    if isinstance(value, Pairs):
        return dict(value)[name]
    if not isinstance(value, dict):
        raise KeyError(name)
    return value[name]
