"""The committed examples say what a source may send; the decoder must agree with each of them."""

import base64
import json

import msgspec
import pytest

from rebalance_model.observe.decoding import VALUE_BYTES_MAX, RejectedError, decode
from rebalance_model.observe.events import AnyEvent, key_of
from schemas.json_schema import FOLDER

NOW = 1_795_260_000_000
"""A transport's stamp after all examples."""
EXAMPLES = FOLDER / "examples"
TYPES = {event.__struct_config__.tag for event in AnyEvent.__args__}


def lines(folder: str) -> list[tuple[str, bytes]]:
    """Each line with its place."""
    files = sorted((EXAMPLES / folder).glob("*.jsonl"))
    return [
        (f"{file.stem}:{number}", line)
        for file in files
        for number, line in enumerate(file.read_bytes().splitlines(), start=1)
    ]


ACCEPTED = lines("accepted")
REJECTED = [(f"{place} {json.loads(line)['why']}", json.loads(line)) for place, line in lines("rejected")]


@pytest.mark.parametrize("line", [line for _, line in ACCEPTED], ids=[place for place, _ in ACCEPTED])
def test_an_accepted_example_is_accepted_from_files_and_from_kafka(line):
    event = decode(line, key=None, stamp=NOW, keyed=False)

    assert event.time == json.loads(line)["time"]
    key = key_of(event).encode() or None
    assert decode(line, key=key, stamp=NOW, keyed=True) == event
    assert decode(msgspec.json.encode(event), key=key, stamp=NOW, keyed=True) == event


@pytest.mark.parametrize("example", [example for _, example in REJECTED], ids=[name for name, _ in REJECTED])
def test_a_rejected_example_is_rejected_for_its_reason(example):
    value = base64.b64decode(example["base64"]) if "base64" in example else example.get("value")
    value = value.encode() if isinstance(value, str) else value
    key = example["key"].encode() if "key" in example else None

    with pytest.raises(RejectedError) as rejected:
        decode(value, key=key, stamp=example.get("stamp", NOW), keyed=example.get("keyed", False))

    assert rejected.value.reason == example["reason"]
    assert rejected.value.detail


def test_every_type_has_an_accepted_example():
    assert {json.loads(line)["type"] for _, line in ACCEPTED} == TYPES


def test_every_reason_has_a_rejected_example():
    reasons = {example["reason"] for _, example in REJECTED}

    assert reasons == {
        *("empty", "malformed", "bare_cr", "invalid_utf8", "unknown_type", "invalid"),
        *("future_time", "null_key", "wrong_key"),
    }


@pytest.mark.parametrize(("size", "accepted"), [(VALUE_BYTES_MAX, True), (VALUE_BYTES_MAX + 1, False)])
def test_the_limit_of_a_value_is_exact(size, accepted):
    tick = next(line for _, line in ACCEPTED if b'"TICK"' in line)
    value = tick + b" " * (size - len(tick))

    if accepted:
        assert decode(value, key=None, stamp=NOW, keyed=False).BROADCAST
    else:
        with pytest.raises(RejectedError, match=f"too_large: {size} bytes, the limit is {VALUE_BYTES_MAX}"):
            decode(value, key=None, stamp=NOW, keyed=False)


@pytest.mark.parametrize(
    ("value", "reason"),
    [(b"[" * 100_000, "invalid"), (b'{"type":"TICK","x":' + b"[" * 100_000, "malformed: nested too deeply")],
    ids=["array", "unknown field"],
)
def test_endless_nesting_is_rejected_and_nothing_worse(value, reason):
    with pytest.raises(RejectedError, match=reason):
        decode(value, key=None, stamp=NOW, keyed=False)
