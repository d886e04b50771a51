from pathlib import Path

import msgspec
import pytest
from kafka.partitioner.default import DefaultPartitioner

from rebalance_model.observe.events import ConsumeStats, Tick
from streaming.log.rows import encode, partition_of, rows_of

TICK = Tick(time=5, cluster="C", source="poll", source_id="p@1", seq=1)
STATS = ConsumeStats(time=5, cluster="C", source="poll", source_id="p@1", seq=1, broker="b", group="g", queues=())


class _Cluster:
    def __init__(self, partitions):
        self.partitions = partitions

    def topics(self):
        return {"t"}

    def partitions_for_topic(self, _):
        return set(range(self.partitions))

    available_partitions_for_topic = partitions_for_topic


# org.apache.kafka.common.utils.UtilsTest.testMurmur2, as signed 32-bit numbers
JAVA_MURMUR2 = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
}


@pytest.mark.parametrize("key", JAVA_MURMUR2)
def test_a_key_has_the_partition_that_the_java_client_gives_it(key):
    assert partition_of(key, 2**31) == JAVA_MURMUR2[key] & 0x7FFF_FFFF


@pytest.mark.parametrize("partitions", [1, 7, 8])
@pytest.mark.parametrize("key", ["DefaultCluster/orders-group", "C/ü", "x" * 300, *JAVA_MURMUR2])
def test_a_key_has_the_partition_that_a_kafka_producer_would_choose(key, partitions):
    chosen = DefaultPartitioner().partition("t", key, key.encode(), None, None, _Cluster(partitions))
    assert partition_of(key, partitions) == chosen


def test_a_broadcast_goes_without_a_key_to_every_partition_with_one_seq():
    rows = rows_of(TICK, encode(TICK), 3)
    assert [(row.partition, row.key) for row in rows] == [(0, None), (1, None), (2, None)]
    assert {msgspec.json.decode(row.value)["seq"] for row in rows} == {1}


def test_an_event_of_a_group_is_one_row_under_its_key():
    (row,) = rows_of(STATS, encode(STATS), 8)
    assert (row.partition, row.key) == (partition_of("C/g", 8), b"C/g")


def test_a_row_is_one_line(tmp_path: Path):
    event = msgspec.structs.replace(STATS, group="a\nb")
    assert b"\n" not in encode(event)
