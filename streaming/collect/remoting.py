"""RocketMQ's frames: ``length | serialize type and header length | header | body``, big-endian.

(org.apache.rocketmq.remoting.protocol.RemotingCommand and RocketMQSerializable.) A server answers in its own configured
form, whatever the form of the request, so the type byte of the answer determines how it is read.
"""

import struct

import msgspec

from rebalance_model.observe.events.fields import Int32
from streaming.base.limits import FRAME_BYTES, REMARK_CHARACTERS, SKIPPED_FRAME_BYTES
from streaming.collect import fastjson
from streaming.collect.fastjson import FastjsonError

VERSION = 479
"""MQVersion.V5_3_3. From 401 (4.9.4) on the name server answers routes in standard JSON."""

_RESPONSE = 1  # bit 0 of the flag


_JSON, _ROCKETMQ = 0, 1
"""The forms of a header (org.apache.rocketmq.remoting.protocol.SerializeType)."""


class FrameError(ValueError):
    """Bytes that are not a frame of RocketMQ's protocol."""


class RemotingCommand(msgspec.Struct, frozen=True, kw_only=True, rename={"fields": "extFields"}):
    """A request or a response: the header, its fields named as in JSON, and the body."""

    code: Int32
    opaque: Int32
    flag: Int32 = 0
    language: str = "OTHER"
    version: Int32 = 0
    remark: str | None = None
    fields: dict[str, str] | None = None
    body: bytes = b""

    @property
    def is_response(self) -> bool:
        """Return whether the command is an answer, not a request that a server sends to its clients."""
        return bool(self.flag & _RESPONSE)


def encode(command: RemotingCommand) -> bytes:
    """Return the command as one frame, with its length."""
    header = _json_header(command)
    frame = struct.pack(">I", _JSON << 24 | len(header)) + header + command.body
    return struct.pack(">I", len(frame)) + frame


def frame_length(prefix: bytes) -> int:
    """Return the number of bytes that follow the first four of a frame, which may be too many for an answer.

    Raises:
        FrameError: the length is impossible.
    """
    (length,) = struct.unpack(">i", prefix)
    if not 4 <= length <= SKIPPED_FRAME_BYTES:
        raise FrameError(f"a frame of {length} bytes: expected 4 to {FRAME_BYTES}")
    return int(length)


def decode(frame: bytes) -> RemotingCommand:
    """Read one frame, without its four bytes of length; of the remark, the beginning.

    Raises:
        FrameError: its lengths or its types are invalid.
    """
    if len(frame) < 4:
        raise FrameError(f"a frame of {len(frame)} bytes has no header")
    (head,) = struct.unpack_from(">I", frame)
    length = head & 0xFF_FFFF
    if length > len(frame) - 4:
        raise FrameError(f"a header of {length} bytes in a frame of {len(frame)}")
    header, body = frame[4 : 4 + length], frame[4 + length :]
    kind = head >> 24
    if kind == _JSON:
        return _from_json(header, body)
    if kind == _ROCKETMQ:
        return _from_binary(header, body)
    raise FrameError(f"unknown serialize type {kind}")


def _json_header(command: RemotingCommand) -> bytes:
    header = {
        "code": command.code,
        "extFields": command.fields or {},
        "flag": command.flag,
        "language": command.language,
        "opaque": command.opaque,
        "remark": command.remark,
        "serializeTypeCurrentRPC": "JSON",
        "version": command.version,
    }
    return msgspec.json.encode({name: value for name, value in header.items() if value is not None})


def _from_json(header: bytes, body: bytes) -> RemotingCommand:
    try:
        command = msgspec.json.decode(header, type=RemotingCommand, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        command = _leniently(header)
    return msgspec.structs.replace(command, remark=command.remark and command.remark[:REMARK_CHARACTERS], body=body)


def _leniently(header: bytes) -> RemotingCommand:
    """Return what can be read of a header: a broker forwards that of a client, whose answer alone it may cost."""
    try:
        sent = fastjson.parse(header)
        known = {name: sent[name] for name in ("code", "opaque", "flag") if name in sent}
        remark = sent.get("remark")
        command = msgspec.convert(known, type=RemotingCommand, strict=False)
    except (FastjsonError, msgspec.ValidationError, AttributeError, TypeError) as error:
        raise FrameError(f"the JSON header can't be read: {error}") from None
    return msgspec.structs.replace(command, remark=remark if isinstance(remark, str) else None)


def _from_binary(header: bytes, body: bytes) -> RemotingCommand:
    """Return what is used of an answer: its language, version and fields are not read."""
    reader = _Reader(header)
    code, _, _, opaque, flag = reader.numbers(">hBhii")
    remark = reader.text(">i")[:REMARK_CHARACTERS] or None  # RocketMQSerializable: a text of length zero is null
    return RemotingCommand(code=code, opaque=opaque, flag=flag, remark=remark, body=body)


class _Reader:
    """Reads numbers and texts from a binary header."""

    def __init__(self, header: bytes) -> None:
        self.at = 0
        self._header = header

    def numbers(self, form: str) -> tuple[int, ...]:
        try:
            read = struct.unpack_from(form, self._header, self.at)
        except struct.error as error:
            raise FrameError(f"the binary header ends too early: {error}") from None
        self.at += struct.calcsize(form)
        return read

    def text(self, form: str) -> str:
        (length,) = self.numbers(form)
        if not 0 <= length <= len(self._header) - self.at:
            raise FrameError(f"a text of {length} bytes in a header of {len(self._header)}")
        self.at += length
        return self._header[self.at - length : self.at].decode(errors="replace")
