"""A collector ends soon after SIGTERM, also while its Kafka accepts connections and answers nothing."""

import os
import signal

import pytest

from streaming.log.kafka import create_topic
from tests.live.commands import Command, Kafka
from tests.support.counted_cluster import CountedCluster

pytestmark = pytest.mark.live

TOPIC = "telemetry"


def test_a_collector_whose_kafka_hangs_ends_after_its_grace_period(tmp_path):
    """Without one it waits for the acknowledgement of its last rows for a minute."""
    with Kafka(tmp_path).start() as kafka, CountedCluster(["orders-group"]) as cluster:
        create_topic(kafka.administrator, TOPIC, 2, replication=1, retention_ms=3_600_000)
        settings = {"RUNTIME__ROOT": tmp_path / "root", "COLLECTOR__NAME_SERVERS": f'["{cluster.address}"]'}
        settings |= {"SOURCE__BOOTSTRAP_SERVERS": kafka.bootstrap, "SOURCE__TOPIC": TOPIC, "SOURCE__PARTITIONS": 2}
        with Command(tmp_path, settings, "collect", "poll") as collector:
            collector.start().wait_for("round", 200)
            os.kill(kafka.process.pid, signal.SIGSTOP)
            try:
                collector.send_signal(signal.SIGTERM)
                assert collector.ended() == 128 + signal.SIGTERM, collector.said()
            finally:
                os.kill(kafka.process.pid, signal.SIGCONT)
        assert "not ended 8 s after a signal" in collector.said()
        assert "Traceback" not in collector.said()
