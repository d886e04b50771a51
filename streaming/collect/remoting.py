"""RocketMQ's frames: ``length | serialize type and header length | header | body``, big-endian.

(org.apache.rocketmq.remoting.protocol.RemotingCommand and RocketMQSerializable.) A server answers in its own configured
form, whatever the form of the request, so the type byte of the answer determines how it is read.
"""

import struct
from enum import IntEnum

import msgspec

from rebalance_model.observe.events.fields import Int32
from streaming.base.limits import FRAME_BYTES, REMARK_CHARACTERS, SKIPPED_FRAME_BYTES
from streaming.collect import fastjson
from streaming.collect.fastjson import FastjsonError

VERSION = 479
"""MQVersion.V5_3_3. From 401 (4.9.4) on the name server answers routes in standard JSON."""

_RESPONSE = 1  # bit 0 of the flag


class Serialize(IntEnum):
    """The form of a header (org.apache.rocketmq.remoting.protocol.SerializeType)."""

    JSON = 0
    ROCKETMQ = 1


# LanguageCode, by number; newer ones are read as OTHER.
_LANGUAGES = ("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO")


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


def encode(command: RemotingCommand, serialize: Serialize = Serialize.JSON) -> bytes:
    """Return the command as one frame, with its length."""
    header = _json_header(command) if serialize is Serialize.JSON else _binary_header(command)
    frame = struct.pack(">I", serialize << 24 | len(header)) + header + command.body
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
    if kind == Serialize.JSON:
        return _from_json(header, body)
    if kind == Serialize.ROCKETMQ:
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
    return msgspec.structs.replace(command, remark=_readable(command.remark), body=body)


def _leniently(header: bytes) -> RemotingCommand:
    """Return what can be read of a header: a broker forwards that of a client, whose answer alone it may cost.

    Raises:
        FrameError: it does not say to which request it belongs.
    """
    try:
        sent = fastjson.parse(header)
        known = {name: sent[name] for name in ("code", "opaque", "flag") if name in sent}
        remark = sent.get("remark")
        command = msgspec.convert(known, type=RemotingCommand, strict=False)
    except (FastjsonError, msgspec.ValidationError, AttributeError, TypeError) as error:
        raise FrameError(f"the JSON header can't be read: {error}") from None
    return msgspec.structs.replace(command, remark=remark if isinstance(remark, str) else None)


def _binary_header(command: RemotingCommand) -> bytes:
    language = _LANGUAGES.index(command.language)
    fixed = struct.pack(">hBhii", command.code, language, command.version, command.opaque, command.flag)
    fields = b"".join(
        struct.pack(">h", len(name.encode())) + name.encode() + _long_text(value)
        for name, value in (command.fields or {}).items()
    )
    return fixed + _long_text(command.remark or "") + struct.pack(">i", len(fields)) + fields


def _long_text(text: str) -> bytes:
    return struct.pack(">i", len(text.encode())) + text.encode()


def _from_binary(header: bytes, body: bytes) -> RemotingCommand:
    reader = _Reader(header)
    code, language, version, opaque, flag = reader.numbers(">hBhii")
    remark = reader.text(">i")
    fields = {}
    (length,) = reader.numbers(">i")
    end = reader.at + length
    if length < 0 or end > len(header):
        raise FrameError(f"{length} bytes of header fields in a header of {len(header)}")
    while reader.at < end:
        name = reader.text(">h")
        fields[name] = reader.text(">i")
    return RemotingCommand(
        code=code,
        language=_LANGUAGES[language] if language < len(_LANGUAGES) else "OTHER",
        version=version,
        opaque=opaque,
        flag=flag,
        remark=_readable(remark) or None,  # RocketMQSerializable: a text of length zero is null
        fields=fields or None,
        body=body,
    )


def _readable(remark: str | None) -> str | None:
    """Return the beginning of a remark."""
    return remark and remark[:REMARK_CHARACTERS]


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
