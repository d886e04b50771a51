"""Every example of the contract is decoded, or refused for the reason that it names."""

import base64
import json
from pathlib import Path

import pytest

from rebalance_model.observe.decoding import VALUE_BYTES_MAX, RejectedError, decode
from rebalance_model.observe.events import key_of

EXAMPLES = Path(__file__).parents[3] / "schemas" / "examples"
STAMP = 1_893_456_000_000
"""Later than any example's time."""


def lines(folder: str) -> list[bytes]:
    return [line for file in sorted((EXAMPLES / folder).glob("*")) for line in file.read_bytes().splitlines()]


@pytest.mark.parametrize("line", lines("accepted"))
def test_an_accepted_example_is_an_event(line):
    event = decode(line, key=None, stamp=STAMP, keyed=False)
    assert event.time == json.loads(line)["time"]
    key = key_of(event).encode()
    assert decode(line, key=key or None, stamp=STAMP, keyed=True) == event


@pytest.mark.parametrize("line", lines("rejected"))
def test_a_rejected_example_is_refused_for_its_reason(line):
    example = json.loads(line)
    value = base64.b64decode(example["base64"]) if "base64" in example else example.get("value")
    value = value.encode() if isinstance(value, str) else value
    key = example["key"].encode() if "key" in example else None
    with pytest.raises(RejectedError) as refused:
        decode(value, key=key, stamp=example.get("stamp", STAMP), keyed=example.get("keyed", False))
    assert refused.value.reason == example["reason"]
    assert refused.value.detail


def test_a_value_over_the_limit_is_refused():
    with pytest.raises(RejectedError, match=f"too_large: 1000001 bytes, the limit is {VALUE_BYTES_MAX}"):
        decode(b" " * (VALUE_BYTES_MAX + 1), key=None, stamp=STAMP, keyed=False)


def test_a_value_that_is_nested_too_deeply_is_refused():
    depth = 100_000
    value = b'{"type": "TICK", "more": ' + b"[" * depth + b"]" * depth + b"}"
    with pytest.raises(RejectedError, match="malformed: nested too deeply"):
        decode(value, key=None, stamp=STAMP, keyed=False)
