"""Offsets in memory, at the broker and in a file."""

import pytest

from rebalance_model.dialect import RELEASE_4_9
from rebalance_model.entities import MessageQueue
from simulation.rocketmq.client.offset_file import OffsetFile, OffsetFileError, format_offsets, parse_offsets
from simulation.rocketmq.client.offset_store import LocalFileOffsetStore, ReadOffsetType
from tests.core.client.harness import Q0, Q1, client, journal, owner, run
from tests.differential.client_world import DOWN, NOT_FOUND, REFUSED

A, B = MessageQueue(*Q0), MessageQueue(*Q1)
MEMORY, STORE, BOTH = ReadOffsetType


def test_the_offset_in_memory_only_grows_if_requested_and_not_frozen():
    made = client()
    for offset, increase_only, expected in ((5, True, 5), (3, True, 5), (3, False, 3), (9, True, 9)):
        made.progress(Q0, offset, increase_only)
        assert made.read(Q0, "READ_FROM_MEMORY") == expected
    made.freeze(Q0, 4)
    for increase_only in (True, False):
        made.progress(Q0, 8, increase_only)
        assert made.read(Q0, "READ_FROM_MEMORY") == 4
    made.consumer.offset_store.remove_offset(A)
    made.consumer.offset_store.remove_offset(A)
    made.progress(Q0, 1, increase_only=True)
    assert made.read(Q0, "READ_FROM_MEMORY") == 1


def test_the_brokers_offset_is_cached():
    made = client()
    assert made.read(Q0, "READ_FROM_MEMORY") == -1
    assert made.read(Q0, "MEMORY_FIRST_THEN_STORE") == -1
    made.order("committed", Q0, 7)
    assert made.read(Q0, "MEMORY_FIRST_THEN_STORE") == 7
    made.order("committed", Q0, 6)
    assert made.read(Q0, "MEMORY_FIRST_THEN_STORE") == 7
    assert made.read(Q0, "READ_FROM_STORE") == 6
    assert made.read(Q0, "READ_FROM_MEMORY") == 6


@pytest.mark.parametrize(("answer", "now", "before"), [(NOT_FOUND, -1, -1), (REFUSED, -2, -1), (DOWN, -2, -2)])
def test_no_offset_and_no_answer_differ_more_clearly_than_in_4_9(answer, now, before):
    for made, expected in ((client(), now), (client(RELEASE_4_9), before)):
        made.order("committed", Q0, answer)
        assert made.read(Q0, "READ_FROM_STORE") == expected


def test_committing_all_forgets_other_queues_unsent():
    made = owner()
    made.progress(Q0, 1, increase_only=True)
    made.progress(("T", "b", 9), 2, increase_only=True)
    made.persist_all()
    made.persist(Q1)
    assert journal(made) == [["commit", "T/a/0", 1]]
    assert made.consumer.offset_store.clone_offset_table(None) == {A: 1}
    made.run_state(False)
    made.persist_all()
    assert journal(made) == []
    made.run_state(True)
    made.consumer.process_queue_table.clear()
    made.persist_all()
    assert made.consumer.offset_store.clone_offset_table(None) == {A: 1}


def test_the_table_of_one_topic():
    made = client()
    made.progress(Q0, 1, increase_only=True)
    made.progress(("U", "a", 0), 2, increase_only=True)
    store = made.consumer.offset_store
    assert store.clone_offset_table("T") == {A: 1}
    assert len(store.clone_offset_table(" ")) == len(store.clone_offset_table(None)) == 2


def test_a_file_keeps_what_others_wrote_and_its_former_self():
    file = OffsetFile()
    store = LocalFileOffsetStore(file)
    store.load()
    store.persist(A)
    store.persist_all(set())
    assert file == OffsetFile()
    store.update_offset(A, 5, increase_only=True)
    store.update_offset(B, 6, increase_only=True)
    store.persist(A)
    assert file == OffsetFile(format_offsets({A: 5}), None)
    store.persist_all({B})
    assert file == OffsetFile(format_offsets({A: 5, B: 6}), format_offsets({A: 5}))
    again = LocalFileOffsetStore(file)
    assert [run(again.read_offset(A, kind)) for kind in (MEMORY, BOTH, MEMORY)] == [-1, 5, 5]
    assert run(again.read_offset(MessageQueue("T", "x", 0), STORE)) == -1
    again.update_offset(A, 9, increase_only=True)
    assert [run(again.read_offset(A, kind)) for kind in (MEMORY, STORE, MEMORY)] == [9, 5, 5]
    again.load()
    assert again.clone_offset_table(None) == {A: 5, B: 6}


def test_a_file_that_can_not_be_read_is_left_alone():
    file = OffsetFile("{", "garbage")
    store = LocalFileOffsetStore(file)
    with pytest.raises(OffsetFileError):
        store.load()
    store.update_offset(A, 5, increase_only=True)
    store.persist(A)
    assert file == OffsetFile("{", "garbage")
    assert run(store.read_offset(A, STORE)) == -1
    assert run(store.read_offset(A, MEMORY)) == 5


def test_the_file_of_5_4_0_holds_32_bits():
    large = format_offsets({A: 2**31})
    with pytest.raises(OffsetFileError, match="int overflow, value 2147483648"):
        OffsetFile("", large).read()
    assert parse_offsets(large, RELEASE_4_9) == OffsetFile(large, None, RELEASE_4_9).read() == {A: 2**31}
    assert OffsetFile(None, large, RELEASE_4_9).read() == {A: 2**31}
    assert OffsetFile(format_offsets({A: 2**31 - 1})).read() == {A: 2**31 - 1}


def test_the_file_as_java_writes_it():
    name = MessageQueue('é"', "b", 1)
    assert format_offsets({name: 2, A: 1}) == (
        '{\n\t"offsetTable":{\n\t\t{\n\t\t\t"brokerName":"a",\n\t\t\t"queueId":0,\n\t\t\t"topic":"T"\n\t\t}:1,\n\t\t'
        '{\n\t\t\t"brokerName":"b",\n\t\t\t"queueId":1,\n\t\t\t"topic":"é\\""\n\t\t}:2\n\t}\n}'
    )
    assert format_offsets({}) == '{\n\t"offsetTable":{\n\t\t\n\t}\n}'


KEY = '{"brokerName":"a","queueId":0,"topic":"T"}'


@pytest.mark.parametrize(
    "text",
    [
        f'{{"offsetTable":{{{KEY}:5}}}}',
        f' {{ "x" : [1] , "offsetTable" : {{ {KEY} : "5" }} , "y" : null }}\n',
    ],
)
def test_files_of_other_forms(text):
    assert parse_offsets(text) == {A: 5}


@pytest.mark.parametrize("text", ["{}", '{"offsetTable":null}', '{"offsetTable":{}}'])
def test_files_without_offsets(text):
    assert parse_offsets(text) == {}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "'{' expected at 0"),
        ('{"offsetTable" 1}', "':' expected at 15"),
        ('{"offsetTable":{} 1}', "'}' expected at 18"),
        ("{} x", "'the end' expected at 3"),
        (f'{{"offsetTable":{{{KEY}:1.5}}}}', "int"),
        ('{"offsetTable":{{"topic":"T"}:1}}', "queueId"),
        ('{"x":', "Expecting value"),
    ],
)
def test_what_is_no_offset_file(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        parse_offsets(text)
