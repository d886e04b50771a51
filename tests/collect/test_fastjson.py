import json
import math
import time

import pytest

from streaming.base.limits import ANSWER_DEPTH, ANSWER_SECONDS, ANSWER_VALUES
from streaming.collect.fastjson import FastjsonError, Pairs, items, parse
from tests.support.proportion import takes_proportional_time

QUEUE = '{"brokerName":"b","queueId":0,"topic":"T"}'


def test_standard_json_is_read():
    value = {"a": [1, 2.5, None, True, {"b": "ü\\ \u2028"}], "": {}}
    assert parse(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{0:123,1:456}", [(0, 123), (1, 456)]),
        ("{" + QUEUE + ":{}}", [({"brokerName": "b", "queueId": 0, "topic": "T"}, {})]),
        ('{"t":{ ' + QUEUE + " : 1 , " + QUEUE + ":2 } }", {"t": [(json.loads(QUEUE), 1), (json.loads(QUEUE), 2)]}),
        ('{"T@G":{0:12},"U@G":{"0":7}}', {"T@G": [(0, 12)], "U@G": {"0": 7}}),
        ('[{0:"a"},{"x":{-1:[]}}]', [[(0, "a")], {"x": [(-1, [])]}]),
        ('{{"k":{1:2}}:3}', [({"k": [(1, 2)]}, 3)]),
    ],
)
def test_keys_may_be_objects_and_bare_numbers(text, value):
    assert parse(text.encode()) == value


def test_a_string_may_look_like_the_dialect():
    assert parse(b'{"a":"{0:1}","b":"{{}:2}"}') == {"a": "{0:1}", "b": "{{}:2}"}


def test_a_control_character_in_a_string_is_kept_as_fastjson_writes_it():
    assert parse(b'{"remark":"a\tb"}') == {"remark": "a\tb"}


def test_a_reference_is_replaced_by_its_target():
    body = b'{"a":[{"x":1},{"$ref":"$.a[0]"}],"b":{"%RETRY%G.1":{"y":2}},"c":{0:{"$ref":"$.b.\\\\%RETRY\\\\%G\\\\.1"}}}'
    assert parse(body) == {"a": [{"x": 1}, {"x": 1}], "b": {"%RETRY%G.1": {"y": 2}}, "c": [(0, {"y": 2})]}


def test_a_reference_key_beside_other_keys_is_an_ordinary_key():
    assert parse(b'{"a":{"$ref":"$.b","c":1}}') == {"a": {"$ref": "$.b", "c": 1}}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{0:1",
        b"{0 1}",
        b"{a:1}",
        b'{{"a":1}}',
        b"{0:1}x",
        b'{"a":{"$ref":"$.b"}}',
        b'{"a":{"$ref":".."}}',
        b'{"a":{"$ref":"$.a"}}',
        b"{" * 100_000,
        b'{"a":' * 100_000,
        b"[{" * 100_000,
    ],
)
def test_text_outside_the_dialect_is_refused(body):
    with pytest.raises(FastjsonError):
        parse(body)


def test_the_pairs_of_an_object_come_in_either_form():
    assert list(items({"a": 1})) == [("a", 1)]
    assert list(items(Pairs([(0, 1)]))) == [(0, 1)]
    assert list(items(None)) == []
    with pytest.raises(FastjsonError, match="expected an object, got list"):
        items([1])


def test_an_answer_is_read_in_proportion_to_its_queues():
    row = '{"brokerName":"broker-a","queueId":%d,"topic":"Orders"}:{"commitOffset":38,"droped":false,%s}'
    rest = ",".join(f'"field{number}":1795255707834' for number in range(12))

    def read(queues):
        body = ('{"mqTable":{' + ",".join(row % (number, rest) for number in range(queues)) + "}}").encode()
        assert [key["queueId"] for key, _ in parse(body)["mqTable"]] == list(range(queues))

    assert takes_proportional_time(read, 2_048)


def test_the_time_for_an_object_does_not_depend_on_what_follows():
    """Copies of the rest, 8 MB for each of these 20,000 objects, would take longer than the deadline."""
    rows = ",".join(f'{{"queueId":{number}}}:{{"offset":{number}}}' for number in range(10_000))
    body = f'{{"mqTable":{{{rows}}},"stack":"{"x" * 8_000_000}"}}'
    assert len(parse(body.encode())["mqTable"]) == 10_000


def chain(length, uses):
    """Return an object in which each value refers to the next one, so many times."""
    value = {f"a{n}": [{"$ref": f"$.a{n + 1}"}] * uses for n in range(length)} | {f"a{length}": 1}
    return json.dumps(value, separators=(",", ":")).encode()


def test_a_chain_of_references_takes_no_more_than_its_text():
    began = time.thread_time()
    with pytest.raises(FastjsonError, match="references replaced"):
        parse(chain(length=24, uses=2))
    assert time.thread_time() - began < 0.1
    assert parse(chain(length=10, uses=2))["a9"] == [1, 1]


def test_references_through_references_are_limited_in_depth():
    assert parse(chain(length=20, uses=1))["a19"] == [1]
    with pytest.raises(FastjsonError, match="deep"):
        parse(chain(length=ANSWER_DEPTH, uses=1))


@pytest.mark.parametrize("within", [b"%s", b"{0:%s}", b'{"x":{"$ref":"$.y"},"y":%s}', b'{"x":{0:1},"y":%s}'])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b"{0:", b"}")])
def test_what_nests_deeper_than_any_answer_is_refused(within, opening, closing):
    """Also what the C scanner reads by itself: it goes as deep as Python's stack."""
    parse(within % (opening * 20 + b"1" + closing * 20))
    for depth in (ANSWER_DEPTH + 1, 900, 20_000):
        with pytest.raises(FastjsonError):
            parse(within % (opening * depth + b"1" + closing * depth))


def test_more_values_than_any_answer_are_refused_before_they_are_made():
    began = time.thread_time()
    for body in (b"[" + b"[]," * ANSWER_VALUES + b"[]]", b"{" + b"0:1," * ANSWER_VALUES + b"0:1}"):
        with pytest.raises(FastjsonError, match="more than"):
            parse(body)
    assert time.thread_time() - began < 0.2


def test_text_that_has_to_be_scanned_again_and_again_has_a_deadline(monkeypatch):
    monkeypatch.setattr("streaming.collect.fastjson.ANSWER_SECONDS", 0.05)
    began = time.thread_time()
    with pytest.raises(FastjsonError, match="takes more than"):
        parse(b"[" * 60 + b"[]," * 100_000 + b"{0:1}" + b"]" * 60)
    assert time.thread_time() - began < ANSWER_SECONDS


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"mqTable":},"a":1}', {"mqTable": {}, "a": 1}),  # as the C++ client writes a table without rows
        (b'{,"a":1}', {"a": 1}),  # as a .NET client begins without a table
        (b"{0:1,,1:2}", [(0, 1), (1, 2)]),
        (b"[1,,2,]", [1, 2]),
        (b'{"a":"\xff\xfeb","c":1}', {"a": "\ufffd\ufffdb", "c": 1}),
        (rb'{"a":"\ud800b","\udfff":["\ud83d\ude00"]}', {"a": "\ufffdb", "\ufffd": ["\U0001f600"]}),
        (b'{"a":' + b"9" * 5_000 + b',"c":' + b"9" * 400 + b"}", {"a": math.inf, "c": int("9" * 400)}),
    ],
)
def test_what_clients_write_that_is_no_json_is_read_as_it_is_meant(body, value):
    assert parse(body) == value


def test_a_number_of_too_many_digits_is_refused_as_a_key():
    for body in (
        b"{" + b"9" * 5_000 + b":1}",
        b'{"a":{"$ref":"$[' + b"9" * 5_000 + b']"}}',
    ):
        with pytest.raises(FastjsonError):
            parse(body)
