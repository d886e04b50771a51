"""A BROADCASTING consumer's offset file, written and read by the model and by the real LocalFileOffsetStore."""

from pathlib import Path
from typing import Any

import jpype
import pytest

from rebalance_model.entities import MessageQueue
from simulation.rocketmq.client.offset_file import OffsetFile, OffsetFileError, format_offsets, parse_offsets

OFFSETS = {MessageQueue("T", "b", 0): 0, MessageQueue("T", "b", 1): 2**31 - 1, MessageQueue('é"\\', "a", 0): -1}
GOOD = format_offsets({MessageQueue("T", "b", 0): 7})
OTHER = format_offsets({MessageQueue("U", "b", 3): 8})
TOO_LARGE = format_offsets({MessageQueue("T", "b", 0): 2**31})
ENTRY = '{"brokerName":"b","queueId":0,"topic":"T"}:'
CONTENTS = [
    None,
    "",
    GOOD,
    TOO_LARGE,
    "garbage",
    GOOD[:40],
    "[]",
    "{}",
    " ",
    '{"offsetTable":{}}',
    '{"offsetTable":null}',
]
CONTENTS += [
    '{"offsetTable":{}} x',
    f'{{"a":[1],"offsetTable":{{{ENTRY}5}},"b":null}}',
    f'{{"offsetTable":{{{ENTRY}"5"}}}}',
]


@pytest.fixture
def folder(jvm, request) -> Path:
    home = Path(str(jpype.JClass("java.lang.System").getProperty("user.home")))
    made = home / ".rocketmq_offsets" / request.node.name.partition("[")[0] / "G"
    made.mkdir(parents=True, exist_ok=True)
    return made


def java_store(folder: Path) -> Any:
    instance = jpype.JClass("sun.misc.Unsafe").class_.getDeclaredField("theUnsafe")
    instance.setAccessible(True)
    factory_class = jpype.JClass("org.apache.rocketmq.client.impl.factory.MQClientInstance")
    factory = instance.get(None).allocateInstance(factory_class.class_)
    client_id = factory_class.class_.getDeclaredField("clientId")
    client_id.setAccessible(True)
    client_id.set(factory, folder.parent.name)
    return jpype.JClass("org.apache.rocketmq.client.consumer.store.LocalFileOffsetStore")(factory, folder.name)


def java_queue(queue: MessageQueue) -> Any:
    return jpype.JClass("org.apache.rocketmq.common.message.MessageQueue")(queue.topic, queue.broker, queue.queue_id)


def java_load(folder: Path) -> Any:
    store = java_store(folder)
    try:
        store.load()
    except jpype.JClass("org.apache.rocketmq.client.exception.MQClientException"):
        return "unreadable"
    return {
        MessageQueue(str(e.getKey().getTopic()), str(e.getKey().getBrokerName()), int(e.getKey().getQueueId())): int(
            e.getValue()
        )
        for e in store.cloneOffsetTable(None).entrySet()
    }


def entries(text: str) -> tuple[str, list[str]]:
    """Return the frame and the sorted entries, since Java's order is that of a hash table."""
    head, _, rest = text.partition("\n\t\t{")
    return head, sorted(entry.strip("\n\t},") for entry in rest.split("\t\t{"))


def test_both_write_the_same_file_and_read_the_others(folder):
    store = java_store(folder)
    queues = jpype.JClass("java.util.HashSet")()
    for queue, offset in OFFSETS.items():
        store.updateOffset(java_queue(queue), offset, False)
        queues.add(java_queue(queue))
    store.persistAll(queues)
    written = (folder / "offsets.json").read_text("utf-8")
    assert entries(written) == entries(format_offsets(OFFSETS))
    assert parse_offsets(written) == OFFSETS
    (folder / "offsets.json").write_text(format_offsets(OFFSETS), "utf-8")
    assert java_load(folder) == OFFSETS


def test_a_file_without_offsets_equals_javas(folder):
    queues = jpype.JClass("java.util.HashSet")()
    queues.add(java_queue(MessageQueue("T", "b", 0)))
    java_store(folder).persistAll(queues)
    assert (folder / "offsets.json").read_text("utf-8") == format_offsets({})
    assert java_load(folder) == parse_offsets(format_offsets({})) == {}


@pytest.mark.parametrize("content", CONTENTS)
def test_the_backup_is_read_exactly_when_java_reads_it(folder, content):
    for backup in (*CONTENTS[:5], OTHER):
        for text, name in ((content, "offsets.json"), (backup, "offsets.json.bak")):
            (folder / name).unlink(missing_ok=True)
            if text is not None:
                (folder / name).write_text(text, "utf-8")
        try:
            offsets: Any = OffsetFile(content, backup).read()
        except OffsetFileError:
            offsets = "unreadable"
        assert offsets == java_load(folder), f"backup {backup!r}"
