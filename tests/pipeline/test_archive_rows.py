"""Rows of the log in the archive, without Spark."""

import base64
import datetime as dt
import json

import pyarrow as pa
import pytest

from rebalance_model.observe.events.decoding import VALUE_BYTES_MAX
from schemas.json_schema import FOLDER
from schemas.rows import RejectedRow, TelemetryRow
from streaming.log.files import offset_of
from streaming.pipeline.archive_rows import ACCEPTED, REJECTED, LogRow, Transport, archive_row, archived

FILES, KAFKA = Transport(None), Transport("telemetry")
STAMP = 1_795_260_000_000
TICK = b'{"type":"TICK","time":1795255680000,"cluster":"c","source":"poll","source_id":"p@1","seq":3}'
GROUP = (
    b'{"type":"UNREGISTER_CLIENT","time":1795255680000,"cluster":"c","broker":"b","broker_id":1,"source":"hook",'
    b'"source_id":"h@1","seq":9,"group":"g","client_id":"x","channel":""}'
)


def log(rows: list[LogRow]) -> pa.RecordBatch:
    """Rows as `streaming.pipeline.sources` gives them."""
    types = {"partition": pa.int32(), "offset": pa.int64(), "key": pa.binary(), "value": pa.binary(),
             "stamp": pa.int64()}  # fmt: skip
    return pa.RecordBatch.from_pylist([row._asdict() for row in rows], pa.schema(list(types.items())))


def test_an_event_of_a_group_fills_every_column():
    assert archive_row(LogRow(2, 7, b"c/g", GROUP, STAMP), KAFKA) == TelemetryRow(
        date=dt.date(2026, 11, 21), type="UNREGISTER_CLIENT", time=1_795_255_680_000, cluster="c", broker="b",
        broker_id=1, source="hook", source_id="h@1", seq=9, group="g", key="c/g", value=GROUP.decode(), partition=2,
        offset=7, ingest_time=STAMP,
    )  # fmt: skip


def test_files_and_kafka_give_the_same_row():
    assert archive_row(LogRow(2, 7, None, GROUP, STAMP), FILES) == archive_row(
        LogRow(2, 7, b"c/g", GROUP, STAMP), KAFKA
    )


def test_a_broadcast_has_no_group_and_an_empty_key():
    row = archive_row(LogRow(0, 0, None, TICK, STAMP), KAFKA)

    assert isinstance(row, TelemetryRow)
    assert (row.group, row.key, row.broker) == (None, "", "")


@pytest.mark.parametrize("value", [TICK + b"\r", b" " + TICK, TICK.replace(b'"c"', '"ü→支"'.encode())])
def test_an_accepted_value_is_kept_byte_for_byte(value):
    row = archive_row(LogRow(0, 0, None, value, STAMP), FILES)

    assert isinstance(row, TelemetryRow)
    assert row.value.encode() == value


@pytest.mark.parametrize(
    "line",
    [line for file in sorted((FOLDER / "examples" / "rejected").glob("*")) for line in file.read_bytes().splitlines()],
)
def test_a_rejected_row_is_kept_whole_with_its_reason(line):
    example = json.loads(line)
    value = base64.b64decode(example["base64"]) if "base64" in example else example.get("value")
    row = LogRow(3, 5, example["key"].encode() if "key" in example else None,
                 value.encode() if isinstance(value, str) else value, example.get("stamp", STAMP))  # fmt: skip

    kept = archive_row(row, KAFKA if example.get("keyed") else FILES)

    assert isinstance(kept, RejectedRow)
    assert (kept.reason, kept.key, kept.value) == (example["reason"], row.key, row.value)
    assert (kept.partition, kept.offset, kept.ingest_time) == (3, 5, row.stamp)


def test_a_value_over_the_limit_is_kept_whole():
    value = TICK + b" " * VALUE_BYTES_MAX

    kept = archive_row(LogRow(0, 0, None, value, STAMP), FILES)

    assert (kept.reason, kept.value) == ("too_large", value)


def test_a_rejected_row_says_where_it_came_from():
    in_file, in_topic = (archive_row(LogRow(3, offset_of(12, 4), None, b"?", STAMP), at) for at in (FILES, KAFKA))

    assert in_file.origin == "partition=3/00000000000000000012.jsonl line 5"
    assert in_topic.origin == "topic telemetry"


def test_a_stamp_of_the_far_future_does_not_stop_the_archive():
    """A producer of a topic without LogAppendTime stamps what it likes; the event then passes the check of its time."""
    late = TICK.replace(b"1795255680000", b"253402300799999")

    row = archive_row(LogRow(0, 0, None, late, 2**63 - 1), KAFKA)

    assert (row.date, row.time) == (dt.date(9999, 12, 31), 253_402_300_799_999)


def test_each_row_of_the_log_is_one_of_the_two():
    rows = [LogRow(0, 0, None, TICK, STAMP), LogRow(0, 1, None, b"?", STAMP), LogRow(0, 2, None, GROUP, STAMP)]

    (batch,) = archived([log(rows)], FILES)

    accepted, rejected = batch.column("accepted"), batch.column("rejected")
    assert (accepted.type, rejected.type) == (ACCEPTED, REJECTED)
    assert [row and row["offset"] for row in accepted.to_pylist()] == [0, None, 2]
    assert [row and row["value"] for row in rejected.to_pylist()] == [None, b"?", None]


def test_an_empty_batch_stays_empty():
    (batch,) = archived([log([])], FILES)

    assert batch.num_rows == 0
    assert batch.schema.types == [ACCEPTED, REJECTED]
