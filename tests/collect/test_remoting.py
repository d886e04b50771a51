import json
import struct

import pytest

from streaming.base.limits import REMARK_CHARACTERS, SKIPPED_FRAME_BYTES
from streaming.collect.remoting import FrameError, RemotingCommand, decode, frame_length
from tests.support.binary_frames import FORMS, frame_in

# Written by RemotingCommand.encode of RocketMQ 5.3.3 for GET_CONSUMER_LIST_BY_GROUP, group G.
JSON_HEADER = (
    b'{"code":38,"extFields":{"consumerGroup":"G"},"flag":0,"language":"JAVA","opaque":1,'
    b'"serializeTypeCurrentRPC":"JSON","version":477}'
)
JSON_FRAME = bytes.fromhex("0000008600000082") + JSON_HEADER
BINARY_FRAME = bytes.fromhex(
    "0000002d01000029002600 01dd00000001000000000000000000000014000d636f6e73756d657247726f75700000000147"
)
QUESTION = RemotingCommand(code=38, language="JAVA", version=477, opaque=1, fields={"consumerGroup": "G"})


@pytest.mark.parametrize("frame", [JSON_FRAME, BINARY_FRAME])
def test_a_frame_of_java_is_decoded(frame):
    assert frame_length(frame[:4]) == len(frame) - 4
    read = decode(frame[4:])
    assert (read.code, read.opaque, read.is_response, read.remark, read.body) == (38, 1, False, None, b"")


@pytest.mark.parametrize(("form", "frame"), [("JSON", JSON_FRAME), ("ROCKETMQ", BINARY_FRAME)])
def test_a_request_is_encoded_to_the_bytes_of_java(form, frame):
    assert frame_in(form, QUESTION) == frame


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_is_the_same_in_both_serializations(form):
    answer = RemotingCommand(
        code=206, language="GO", version=493, opaque=2**31 - 1, flag=1, remark="ü", fields={"k": "v"}, body=b"\0\xff"
    )
    read = decode(frame_in(form, answer)[4:])
    assert (read.code, read.opaque, read.remark, read.body) == (206, 2**31 - 1, "ü", b"\0\xff")
    assert read.is_response


def test_a_json_header_may_have_unknown_fields_and_nulls():
    header = json.dumps({"code": 0, "opaque": 3, "flag": 1, "remark": None, "extFields": None, "new": [1]}).encode()
    read = decode(struct.pack(">I", len(header)) + header + b"body")
    assert (read.code, read.opaque, read.remark, read.fields, read.body) == (0, 3, None, None, b"body")


def test_an_unknown_language_code_is_accepted():
    frame = bytearray(BINARY_FRAME[4:])
    frame[6] = 99
    assert decode(bytes(frame)).code == 38


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b"", "no header"),
        (b"\0\0\0", "no header"),
        (bytes.fromhex("00000005") + b"{}", "a header of 5 bytes"),
        (bytes.fromhex("02000002") + b"{}", "unknown serialize type 2"),
        (bytes.fromhex("00000002") + b"{}", "JSON header"),
        (bytes.fromhex("00000002") + b"\xff\xff", "JSON header"),
        (BINARY_FRAME[4:21] + b"\x7f" + BINARY_FRAME[22:], "a text of"),
        (bytes.fromhex("01000003") + b"\0\0\0", "ends too early"),
    ],
)
def test_invalid_bytes_are_refused_with_the_reason(frame, why):
    with pytest.raises(FrameError, match=why):
        decode(frame)


@pytest.mark.parametrize("length", [-1, 0, 3, SKIPPED_FRAME_BYTES + 1])
def test_an_invalid_frame_length_is_refused(length):
    with pytest.raises(FrameError, match="expected 4 to"):
        frame_length(struct.pack(">i", length))


@pytest.mark.parametrize(
    "header",
    [
        b'{"code":0,"opaque":1,"x":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'{"code":0,"opaque":1,"x":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001,
        b'{"code":' + b"9" * 40 + b',"opaque":1}',
        b'{"code":0,"opaque":2147483648}',
    ],
)
def test_a_header_that_nests_deeply_or_has_huge_numbers_is_refused(header):
    with pytest.raises(FrameError, match="can't be read"):
        decode(struct.pack(">I", len(header)) + header)


@pytest.mark.parametrize(
    ("header", "remark"),
    [
        (rb'{"code":1,"opaque":7,"flag":1,"remark":"\ud800!"}', "\ufffd!"),
        (b'{"code":1,"opaque":7,"flag":1,"remark":"\xff!"}', "\ufffd!"),
        (b'{"code":1,"opaque":7,"flag":1,"remark":{"a":1},"version":"x"}', None),
        (b'{"code":1,"opaque":7,"flag":1,"extFields":{"a":[1]},"language":7,"remark":"why"}', "why"),
        (b'{"code":1,"opaque":7,"flag":1,"extFields":"x","remark":"a\nb"}', "a\nb"),
    ],
)
def test_a_clients_header_that_a_broker_forwards_costs_its_own_answer(header, remark):
    """It would otherwise end the connection to the broker, and with it the requests about all other groups."""
    answer = decode(struct.pack(">I", len(header)) + header + b"body")
    assert (answer.code, answer.opaque, answer.is_response, answer.remark) == (1, 7, True, remark)


def test_a_binary_remark_that_is_not_utf8_is_read():
    frame = bytearray(frame_in("ROCKETMQ", RemotingCommand(code=1, opaque=7, flag=1, remark="abc"))[4:])
    frame[frame.index(b"abc")] = 0xFF
    assert decode(bytes(frame)).remark == "\ufffdbc"


@pytest.mark.parametrize("form", FORMS)
def test_of_a_remark_only_the_beginning_is_kept(form):
    frame = frame_in(form, RemotingCommand(code=1, opaque=1, remark="x" * 1_000_000))
    assert decode(frame[4:]).remark == "x" * REMARK_CHARACTERS
