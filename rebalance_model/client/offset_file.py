"""The file of a BROADCASTING consumer's offsets, as fastjson writes it (OffsetSerializeWrapper, MixAll.string2File).

``<rocketmq.client.localOffsetStoreDir>/<client id>/<group>/offsets.json``, and the former content beside it as
``.bak``. The keys of its one table are JSON objects, which JSON does not allow.
"""

import json
from dataclasses import dataclass

import msgspec

from rebalance_model.entities import MessageQueue, queue_order


class OffsetFileError(Exception):
    """Neither the file nor its backup can be read (MQClientException)."""


class _Key(msgspec.Struct, rename="camel"):
    """A MessageQueue as Java's bean names its fields; null names are left out."""

    queue_id: int
    broker_name: str = ""
    topic: str = ""


@dataclass(slots=True)
class OffsetFile:
    """The file's text and its backup's; None where there is no file."""

    content: str | None = None
    backup: str | None = None

    def read(self) -> dict[MessageQueue, int]:
        """The offsets of the file, else of its backup; none where both are empty or missing.

        Raises:
            OffsetFileError: the backup is needed and can't be read either.
        """
        if self.content:
            try:
                return parse_offsets(self.content)
            except ValueError:
                pass
        if not self.backup:
            return {}
        try:
            return parse_offsets(self.backup)
        except ValueError as error:
            raise OffsetFileError(str(error)) from error

    def write(self, offsets: dict[MessageQueue, int]) -> None:
        """Replace the content; the former one becomes the backup."""
        if self.content is not None:
            self.backup = self.content
        self.content = format_offsets(offsets)


def format_offsets(offsets: dict[MessageQueue, int]) -> str:
    """The text that Java writes (``toJson(true)``), in the queues' order instead of a hash table's."""
    if not offsets:
        return '{\n\t"offsetTable":{}\n}'
    entries = ",\n".join(f"\t\t{_format_key(mq)}:{offsets[mq]}" for mq in sorted(offsets, key=queue_order))
    return f'{{\n\t"offsetTable":{{\n{entries}\n\t}}\n}}'


def parse_offsets(text: str) -> dict[MessageQueue, int]:
    """Read what any release of RocketMQ writes: pretty or not, keys as objects or as strings that hold one.

    Raises:
        ValueError: the text is something else.
    """
    reader = _Reader(text)
    reader.expect("{")
    if reader.value() != "offsetTable":
        reader.fail("offsetTable")
    reader.expect(":")
    reader.expect("{")
    offsets: dict[MessageQueue, int] = {}
    while not reader.skip("}"):
        if offsets:
            reader.expect(",")
        key = reader.value()
        queue = msgspec.json.decode(key, type=_Key) if isinstance(key, str) else msgspec.convert(key, _Key)
        reader.expect(":")
        offset = msgspec.convert(reader.value(), int)
        offsets[MessageQueue(queue.topic, queue.broker_name, queue.queue_id)] = offset
    reader.expect("}")
    return offsets


def _format_key(queue: MessageQueue) -> str:
    fields = {"brokerName": queue.broker, "queueId": queue.queue_id, "topic": queue.topic}
    body = ",\n".join(f'\t\t\t"{name}":{json.dumps(value, ensure_ascii=False)}' for name, value in fields.items())
    return f"{{\n{body}\n\t\t}}"


class _Reader:
    """A place in a text; between punctuation the standard JSON decoder reads the values."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def skip(self, mark: str) -> bool:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        found = self._text.startswith(mark, self._at)
        self._at += len(mark) if found else 0
        return found

    def expect(self, mark: str) -> None:
        if not self.skip(mark):
            self.fail(mark)

    def fail(self, mark: str) -> None:
        msg = f"no offset file: {mark!r} expected at {self._at}"
        raise ValueError(msg)

    def value(self) -> object:
        self.skip("")
        found: tuple[object, int] = json.JSONDecoder().raw_decode(self._text, self._at)
        self._at = found[1]
        return found[0]
