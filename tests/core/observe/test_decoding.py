"""The committed examples say what a source may send; the decoder must agree with each of them."""

import base64
import json

import msgspec
import pytest

from rebalance_model.observe.events import AnyEvent, key_of
from rebalance_model.observe.events.decoding import DEPTH_MAX, VALUE_BYTES_MAX, RejectedError, decode
from schemas.json_schema import FOLDER
from tests.support.proportion import takes_proportional_time

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


TICK = next(line for _, line in ACCEPTED if b'"TICK"' in line)


def tick_with(field: bytes) -> bytes:
    return TICK.removesuffix(b"}") + b',"unknown":' + field + b"}"


@pytest.mark.parametrize(
    "value",
    [b"[" * 100_000, b'{"type":"TICK","x":' + b"[" * 100_000, tick_with(b'{"a":' * 900 + b"1" + b"}" * 900)],
    ids=["array", "unknown field", "closed"],
)
def test_endless_nesting_is_rejected_and_nothing_worse(value):
    with pytest.raises(RejectedError, match=f"malformed: nested more than {DEPTH_MAX} deep"):
        decode(value, key=None, stamp=NOW, keyed=False)


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")], ids=["lists", "objects"])
def test_the_limit_of_depth_is_exact_and_the_same_anywhere_on_the_stack(opening, closing):
    """The operator and the archive must agree, however deep in the stack they decode."""

    def accepted(depth: int, below: int = 0) -> bool:
        if below:
            return accepted(depth, below - 1)
        try:
            decode(tick_with(opening * depth + b"1" + closing * depth), key=None, stamp=NOW, keyed=False)
        except RejectedError:
            return False
        return True

    for below in (0, 700):
        assert accepted(DEPTH_MAX - 1, below)
        assert not accepted(DEPTH_MAX, below)


def test_brackets_side_by_side_or_in_strings_do_not_nest():
    text = b'"' + b'[{\\"' * 100 + b'"'
    wide = b"[" + b"[{}]," * 1_000 + b'{"a":[1,2,"]"]}]'
    for field in (b"[" + text + b"," + wide + b"]", wide):
        assert decode(tick_with(field), key=None, stamp=NOW, keyed=False).BROADCAST


@pytest.mark.parametrize("part", [b'\\"', b'"', b"[]", b"[", b"]["], ids=["escapes", "quotes", "pairs", "open", "back"])
def test_to_look_for_depth_takes_time_in_proportion(part):
    def look(size):
        with pytest.raises(RejectedError):
            decode(b"[" * 40 + b'"' + part * (size // len(part)), key=None, stamp=NOW, keyed=False)

    assert takes_proportional_time(look, 900_000)
