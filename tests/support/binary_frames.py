import struct

from streaming.collect.remoting import encode

FORMS = ("JSON", "ROCKETMQ")
_LANGUAGES = ("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO")


def frame_in(form, command):
    """Return a command as one frame, as a server with this serializeTypeConfig sends it."""
    if form == "JSON":
        return encode(command)
    head = command.code, _LANGUAGES.index(command.language), command.version, command.opaque, command.flag
    fields = b"".join(_text(">h", name) + _text(">i", value) for name, value in (command.fields or {}).items())
    header = struct.pack(">hBhii", *head) + _text(">i", command.remark or "") + struct.pack(">i", len(fields)) + fields
    frame = struct.pack(">I", 1 << 24 | len(header)) + header + command.body
    return struct.pack(">I", len(frame)) + frame


def _text(length, text):
    return struct.pack(length, len(text.encode())) + text.encode()
