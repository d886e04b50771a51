"""A collector ends soon after SIGTERM, also while its Kafka accepts connections and answers nothing."""

import signal

import pytest

from streaming.lab.processes import send
from streaming.log.kafka import create_topic
from tests.live.commands import Command
from tests.support.counted_cluster import CountedCluster
from tests.support.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("kafka_alone")]

TOPIC = "ends"


def test_a_collector_whose_kafka_hangs_ends_after_its_grace_period(kafka, tmp_path):
    """Without one it waits for the acknowledgement of its last rows for a minute."""
    create_topic(kafka.administrator, TOPIC, 2, replication=1, retention_ms=3_600_000)
    with CountedCluster(["orders-group"]) as cluster:
        settings = kafka.settings | {"SOURCE__TOPIC": TOPIC, "SOURCE__PARTITIONS": 2}
        settings |= {"RUNTIME__ROOT": tmp_path / "root", "COLLECTOR__NAME_SERVERS": f'["{cluster.address}"]'}
        settings |= {"COLLECTOR__INTERVAL_MS": 1_000, "COLLECTOR__DEADLINE_MS": 900}
        with Command(tmp_path, settings, "collect", "poll") as collector:
            collector.start().wait_for("round", 200)
            send(kafka.process, signal.SIGSTOP)
            try:
                asked = len(cluster.asked)
                until(lambda: len(cluster.asked) > asked, 60)  # of a round whose rows Kafka does not acknowledge
                collector.send_signal(signal.SIGTERM)
                assert collector.ended() == 128 + signal.SIGTERM, collector.said()
            finally:
                send(kafka.process, signal.SIGCONT)
        assert "not ended 8 s after a signal" in collector.said()
        assert "Traceback" not in collector.said()
