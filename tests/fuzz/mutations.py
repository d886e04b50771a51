"""Mutations of real samples, which get further than random bytes: most mutants still parse."""

import random
import re
from collections.abc import Sequence
from typing import TypeAlias

from hypothesis import strategies as st

BYTES_MAX = 100_000
_PLACES = st.integers(0, 0xFFFF)
Operation: TypeAlias = tuple[str, int, int]
"""A kind, and two numbers that choose the places."""
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|\b(?:true|false|null)\b', re.DOTALL)
"""A value or a name in JSON, fastjson's dialect and TOML."""

HOSTILE = (
    b"0", b"-1", b"1", b"4096", b"32767", b"2147483647", b"2147483648", b"-2147483649", b"9223372036854775807",
    b"9223372036854775808", b"-9223372036854775809", b"9" * 5_000, b"0.5", b"-0.0", b"1e308", b"1e400", b"NaN", b"inf",
    b"1795255680000", b"253402300800000", b"null", b"true", b"false", b"[]", b"{}", b"[[]]", b'{"":0}', b"{0:1}",
    b'""', b'"0"', b'"-1"', b'"\\ud800"', b'"\\u0000"', b'"a\\nb"', b'"\xf0\x9f\x98\x80"', b'"%RETRY%"', b'"../.."',
    b'"*"', b'"[!"', b'"' + b"x" * 5_000 + b'"', b'"1d"', b'"99999999999999999999h"', b"1979-05-27T07:32:00Z",
    b"[" * 300 + b"]" * 300, b'{"a":' * 5_000, b"[" * 5_000, b"{{" * 200, b'{"$ref":"$"}', b'{"$ref":"$.a[0]"}',
    b'{"$ref":"@"}', b'{"$ref":".."}', b"\xff", b"\xc0\x80", b"\x00", b"\n", b"\r", b"\r\n", b"\\", b'"', b"{", b"}",
    b"[", b"]", b",", b":", b"\xef\xbb\xbf", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x00\x00\x00", b"%00",
)  # fmt: skip
"""Extreme numbers, other types, deep nesting, references, encodings that are none, ends of lines, lengths."""


def mutants(samples: Sequence[bytes], most: int = 3) -> st.SearchStrategy[bytes]:
    """Return a strategy for mutants of these samples, of so many operations at most."""
    return st.builds(lambda sample, steps: mutated(sample, steps, samples), st.sampled_from(samples), operations(most))


def operations(most: int = 3) -> st.SearchStrategy[Sequence[Operation]]:
    """Return a strategy for what `mutated` takes."""
    return st.lists(st.tuples(st.sampled_from(_OPERATIONS), _PLACES, _PLACES), min_size=1, max_size=most)


def operations_of(choice: random.Random, most: int = 3) -> Sequence[Operation]:
    """Return what `mutated` takes, by a generator of random numbers."""
    return [
        (choice.choice(_OPERATIONS), choice.randrange(0x10000), choice.randrange(0x10000))
        for _ in range(choice.randint(1, most))
    ]


def mutated(sample: bytes, steps: Sequence[Operation], samples: Sequence[bytes]) -> bytes:
    """Return a sample after some operations; ``samples``: where the parts of others come from."""
    for operation, one, other in steps:
        sample = _apply(sample, operation, one, other, samples)[:BYTES_MAX]
    return sample


_OPERATIONS = (
    "hostile", "hostile", "hostile", "borrow", "borrow", "near", "near", "flip", "cut", "copy", "insert", "torn",
    "many",
)  # fmt: skip


def _apply(  # noqa: PLR0911  one for each kind
    sample: bytes, operation: str, first: int, other: int, samples: Sequence[bytes]
) -> bytes:
    at, until = sorted((first * len(sample) >> 16, other * len(sample) >> 16))
    before, within, after = sample[:at], sample[at:until], sample[until:]
    match operation:
        case "flip":
            return before + bytes(byte ^ 1 << other % 8 for byte in within[:1]) + within[1:] + after
        case "cut":
            return before + after
        case "copy":
            return before + within + within + after
        case "many":
            return before + within[:200] * (other % 500) + after
        case "torn":
            return before
        case "insert":
            return before + HOSTILE[other % len(HOSTILE)] + within + after
        case _:
            return _with_token(sample, operation, first, other, samples)


def _with_token(sample: bytes, operation: str, first: int, other: int, samples: Sequence[bytes]) -> bytes:
    """Replace one value or name: by a hostile one, by one of any sample, or by a number near it."""
    tokens = [match.span() for match in _TOKEN.finditer(sample)]
    if not tokens:
        return sample
    begin, end = tokens[first % len(tokens)]
    if operation == "hostile":
        new = HOSTILE[other % len(HOSTILE)]
    elif operation == "borrow":
        theirs = _TOKEN.findall(samples[other % len(samples)])
        new = theirs[first * other % len(theirs)] if theirs else b""
    else:
        old = sample[begin:end]
        new = str(int(old) + (other - 0x8000)).encode() if re.fullmatch(rb"-?\d{1,4000}", old) else old[::-1]
    return sample[:begin] + new + sample[end:]
