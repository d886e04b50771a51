import weakref
from collections import Counter

import msgspec
import pandas as pd
import pytest

from rebalance_model.observe.effects import TABLE_OF
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from streaming.base.errors import UserError
from streaming.base.process import without_collection
from streaming.log.files import offset_of
from streaming.pipeline import effects as effects_module
from streaming.pipeline.effects import by_table
from streaming.pipeline.operator import (
    ShardPosition,
    ShardRow,
    check_order,
    collect,
    fold,
    shard_keys,
    warn_of_contradictions,
)
from tests.support.telemetry import telemetry


def row(number: int, line: int, stamp: int) -> ShardRow:
    return ShardRow(offset_of(number, line), stamp, None, b"{}")


def test_chunks_in_any_order_become_rows_in_log_order():
    chunks = [
        pd.DataFrame({"partition": 2, "offset": [5, 6], "stamp": [9, 9], "key": [None, b"k"], "value": [b"e", b"f"]}),
        pd.DataFrame({"partition": 2, "offset": [3, 4], "stamp": [8, 8], "key": [None, None], "value": [b"c", None]}),
    ]
    partition, rows = collect(chunks)
    assert partition == 2
    assert rows == [(3, 8, None, b"c"), (4, 8, None, None), (5, 9, None, b"e"), (6, 9, b"k", b"f")]


def test_files_whose_mtimes_rise_with_their_numbers_are_in_order():
    check_order(0, [row(1, 0, 10), row(1, 1, 10), row(2, 0, 11)], ShardPosition(offset_of(0, 3), 9), keyed=False)


@pytest.mark.parametrize("mtime", [10, 9], ids=["equal", "reversed"])
@pytest.mark.parametrize("in_one_batch", [True, False])
def test_files_whose_mtimes_do_not_rise_are_refused(mtime, in_one_batch):
    before, after = row(1, 0, 10), row(2, 0, mtime)
    rows, last = ([before, after], None) if in_one_batch else ([after], ShardPosition(before.offset, before.stamp))
    with pytest.raises(UserError, match=r"partition 5 of the log, file 2 is not younger than file 1 .* --preserve"):
        check_order(5, rows, last, keyed=False)


def test_a_file_that_comes_after_a_later_one_is_refused():
    with pytest.raises(UserError, match="Partition 5 of the log returned offset"):
        check_order(5, [row(1, 0, 10)], ShardPosition(offset_of(2, 0), 9), keyed=False)


def test_kafka_stamps_may_be_equal_or_fall():
    check_order(
        0, [ShardRow(1, 10, None, b""), ShardRow(3, 10, None, b""), ShardRow(4, 9, None, b"")], None, keyed=True
    )


def test_what_is_no_event_is_skipped_and_the_rest_folded():
    events = [msgspec.json.encode(event) for event in telemetry(2, 20)]
    good = [ShardRow(2 * index, 2**60, None, value) for index, value in enumerate(events)]
    bad = [
        ShardRow(2 * index + 1, 2**60, None, value) for index, value in enumerate((b"", b"\xff", b'{"type":"?"}', None))
    ]
    alone = list(fold(Shard(None, GroupsInMemory(), Policy()), good, keyed=False))
    mixed = list(fold(Shard(None, GroupsInMemory(), Policy()), sorted([*good, *bad]), keyed=False))
    assert alone
    assert mixed == alone


def test_a_shard_is_freed_with_its_batch():
    """Garbage is collected after a task only: until then each shard of the task would keep its memory."""
    with without_collection():
        shard = Shard(None, GroupsInMemory(), Policy())
        list(fold(shard, [ShardRow(0, 2**60, None, msgspec.json.encode(next(telemetry(1, 1))))], keyed=False))
        kept = weakref.ref(shard)
        del shard
        assert kept() is None


def test_effects_keep_their_order_in_their_tables_and_none_is_too_large(monkeypatch):
    rows = [msgspec.json.encode(event) for event in telemetry(3, 20)]
    shard = Shard(None, GroupsInMemory(), Policy())
    effects = list(fold(shard, [ShardRow(at, 2**60, None, row) for at, row in enumerate(rows)], keyed=False))
    monkeypatch.setattr(effects_module, "COUNT_MAX", 7)
    packed = by_table(iter(effects))
    assert len(packed) > len({one.table for one in packed}) > 1
    assert all(0 < one.rows == one.lines.count(b"\n") <= 7 for one in packed)
    for table in {one.table for one in packed}:
        lines = b"".join(one.lines for one in packed if one.table == table)
        of_table = [effect for effect in effects if TABLE_OF[type(effect)] == table]
        assert lines == msgspec.json.Encoder().encode_lines(of_table)


def test_a_state_that_contradicts_itself_is_logged(caplog):
    shard = Shard(None, GroupsInMemory(), Policy())
    warn_of_contradictions(shard)
    shard.timeline.contradictions["c/g"] = "c/g: a member has no client view"
    warn_of_contradictions(shard)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "The state of group c/g: a member has no client view. Rows of the group may be wrong" in caplog.text


@pytest.mark.spark
@pytest.mark.parametrize(("shards", "states"), [(8, 2), (8, 3), (8, 8), (5, 4), (64, 16), (1, 1), (1024, 256)])
def test_shards_spread_evenly_over_the_state_partitions(spark, shards, states):
    keys = shard_keys(spark, shards, states)
    frame = spark.createDataFrame([(key,) for key in keys], "shard long").repartition(states, "shard")
    where = dict(frame.selectExpr("shard", "spark_partition_id()").collect())
    assert [where[key] for key in keys] == [shard % states for shard in range(shards)]


@pytest.mark.spark
def test_plain_shard_ids_would_not(spark):
    frame = spark.range(8).repartition(2, "id")
    assert sorted(Counter(row[0] for row in frame.selectExpr("spark_partition_id()").collect()).values()) == [3, 5]


@pytest.mark.spark
def test_a_shard_keeps_its_key_when_shards_are_added(spark):
    assert shard_keys(spark, 16, 2)[:8] == shard_keys(spark, 8, 2)
