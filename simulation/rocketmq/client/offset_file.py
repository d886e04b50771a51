"""The file of a BROADCASTING consumer's offsets, as fastjson writes it (OffsetSerializeWrapper, MixAll.string2File).

``<rocketmq.client.localOffsetStoreDir>/<client id>/<group>/offsets.json``, and the former content beside it as
``.bak``. The keys of its one table are JSON objects, which JSON does not allow.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from rebalance_model.dialect import RELEASE_5, Dialect
from rebalance_model.entities import MessageQueue, queue_order
from rebalance_model.errors import ModelError


class OffsetFileError(ModelError):
    """A failure to read both the file and its backup (MQClientException)."""


class _Key(msgspec.Struct, rename="camel"):
    """A MessageQueue as Java's bean names its fields; null names are left out."""

    queue_id: int
    broker_name: str = ""
    topic: str = ""


@dataclass(slots=True)
class OffsetFile:
    """The text of the file and of its backup; None if there is no file."""

    content: str | None = None
    backup: str | None = None
    dialect: Dialect = RELEASE_5

    def read(self) -> dict[MessageQueue, int]:
        """Return the offsets of the file, else those of its backup; empty if both are empty or missing.

        Raises:
            OffsetFileError: the backup is needed and can't be read either.
        """
        if self.content:
            with suppress(ValueError):
                return parse_offsets(self.content, self.dialect)
        try:
            return parse_offsets(self.backup, self.dialect) if self.backup else {}
        except ValueError as error:
            raise OffsetFileError(str(error)) from error

    def write(self, offsets: dict[MessageQueue, int]) -> None:
        """Replace the content; the previous content becomes the backup."""
        if self.content is not None:
            self.backup = self.content
        self.content = format_offsets(offsets)


def format_offsets(offsets: dict[MessageQueue, int]) -> str:
    """Return the text that Java writes (``toJson(true)``), ordered by queue instead of by hash."""
    entries = ",\n\t\t".join(f"{_format_key(mq)}:{offsets[mq]}" for mq in sorted(offsets, key=queue_order))
    return f'{{\n\t"offsetTable":{{\n\t\t{entries}\n\t}}\n}}'


def parse_offsets(text: str, dialect: Dialect = RELEASE_5) -> dict[MessageQueue, int]:
    """Read the text that Java writes, pretty-printed or not; fields beside the table are ignored.

    Raises:
        ValueError: the text is something else, or an offset is beyond what the release can read.
    """
    reader = _Reader(text)
    offsets: dict[MessageQueue, int] = {}
    for field in reader.fields():
        if field == "offsetTable" and not reader.skip("null"):
            for key in reader.fields():
                queue, offset = msgspec.convert(key, _Key), msgspec.convert(reader.value(), int, strict=False)
                if offset > dialect.local_offset_max:
                    msg = f"int overflow, value {offset}"
                    raise ValueError(msg)
                offsets[MessageQueue(queue.topic, queue.broker_name, queue.queue_id)] = offset
        elif field != "offsetTable":
            reader.value()
    reader.end()
    return offsets


def _format_key(queue: MessageQueue) -> str:
    fields = {"brokerName": queue.broker, "queueId": queue.queue_id, "topic": queue.topic}
    body = ",\n".join(f'\t\t\t"{name}":{json.dumps(value, ensure_ascii=False)}' for name, value in fields.items())
    return f"{{\n{body}\n\t\t}}"


class _Reader:
    """A position in a text; values between punctuation are read by the standard JSON decoder."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def fields(self) -> Iterator[object]:
        """Yield the keys of an object, of any type; the caller reads each value before it requests the next key."""
        self._expect("{")
        if self.skip("}"):
            return
        while True:
            key = self.value()
            self._expect(":")
            yield key
            if not self.skip(","):
                break
        self._expect("}")

    def skip(self, mark: str) -> bool:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        found = self._text.startswith(mark, self._at)
        self._at += len(mark) if found else 0
        return found

    def value(self) -> object:
        self.skip("")
        found: tuple[object, int] = json.JSONDecoder().raw_decode(self._text, self._at)
        self._at = found[1]
        return found[0]

    def end(self) -> None:
        self.skip("")
        if self._at != len(self._text):
            self._expect("the end")

    def _expect(self, mark: str) -> None:
        if not self.skip(mark):
            msg = f"no offset file: {mark!r} expected at {self._at}"
            raise ValueError(msg)
