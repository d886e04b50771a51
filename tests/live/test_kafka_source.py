"""The job over a real Kafka finds what it finds over files, and names what is wrong with the topic."""

import json
from collections.abc import Iterable

import msgspec
import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from rebalance_model.observe.policy import Policy
from schemas.tables import DERIVED
from streaming.base.errors import UserError
from streaming.log.files import FilePublisher
from streaming.log.kafka import KafkaPublisher, create_topic, offsets_of
from streaming.log.kafka_properties import client_of, connection_of
from streaming.log.rows import encode, publish
from streaming.pipeline import job
from streaming.pipeline.sources import check_source
from tests.live.commands import Kafka
from tests.support.plain import as_json, derived_rows
from tests.support.tables import read_rows
from tests.support.telemetry import telemetry

pytestmark = [pytest.mark.live, pytest.mark.spark]

PARTITIONS = 3
TOPIC = "kafka-source"


@pytest.fixture
def settings_of_topic(kafka, settings_in, tmp_path, monkeypatch):
    """Return a function that returns the settings of a job over a topic of that Kafka."""
    for name, value in kafka.settings.items():
        monkeypatch.setenv(f"REBALANCE_WATCH_{name}", value)
    return lambda topic, **source: settings_in(tmp_path, kind="kafka", topic=topic, **source)


@pytest.fixture
def settings(kafka, settings_of_topic):
    """A job over a topic of its own, cut into several micro-batches."""
    create_topic(kafka.administrator, TOPIC, PARTITIONS, replication=1, retention_ms=3_600_000)
    return settings_of_topic(TOPIC, partitions=PARTITIONS, rows_per_batch=1_500)


@pytest.fixture
def open_settings(settings_in, tmp_path):
    """Return settings over a Kafka that is not secured."""
    with Kafka(tmp_path / "kafka").start() as open_kafka:
        create_topic(open_kafka.administrator, TOPIC, PARTITIONS, replication=1, retention_ms=3_600_000)
        source = {"bootstrap_servers": open_kafka.bootstrap, "partitions": PARTITIONS, "rows_per_batch": 1_500}
        yield settings_in(tmp_path / "root", kind="kafka", topic=TOPIC, **source)


@pytest.mark.prove  # in short: `test_whole_path`, which folds the topic's rows, too
def test_kafka_leads_to_the_same_rows_as_files(spark, open_settings, tmp_path):
    del spark  # the job takes the session that is there, whose JVM knows no secured Kafka
    settings = open_settings
    events = list(telemetry(12, 40))
    with KafkaPublisher(connection_of(settings), TOPIC, PARTITIONS) as kafka:
        publish(kafka, events[:1000])
    send_without_key(settings, encode(events[0]))
    with KafkaPublisher(connection_of(settings), TOPIC, PARTITIONS) as kafka:
        publish(kafka, events[1000:])
    with FilePublisher(tmp_path / "log", PARTITIONS) as files:
        publish(files, events)

    batches = job.run_available_now(settings, Policy())

    assert sum(batch.query == "operator" for batch in batches) > 1
    found = {table: without_stamps(rows(settings, table)) for table in DERIVED}
    by_files = derived_rows(tmp_path / "log", PARTITIONS, Policy())
    assert found == {table: without_stamps(map(msgspec.json.decode, lines)) for table, lines in by_files.items()}
    assert [row["reason"] for row in rows(settings, "telemetry_rejected")] == ["null_key"]
    sent = sum(PARTITIONS if event.BROADCAST else 1 for event in events)
    assert len({(row["partition"], row["offset"]) for row in rows(settings, "telemetry")}) == sent


@pytest.mark.usefixtures("kafka_alone")
def test_a_topic_that_does_not_fit_is_refused_with_what_to_do(settings, settings_of_topic):
    assert settings.source.partitions == PARTITIONS
    for wrong, sentence in (
        ({"topic": TOPIC, "partitions": 5}, "has 3 partitions of the topic kafka-source, not 5"),
        ({"topic": "not-there"}, "has no partitions of the topic not-there, not 8: create it with"),
    ):
        with pytest.raises(UserError, match=sentence):
            check_source(settings_of_topic(**wrong))


@pytest.mark.usefixtures("kafka_alone")
def test_rows_that_kafka_deleted_before_they_were_read_are_said(kafka, settings):
    with KafkaPublisher(connection_of(settings), TOPIC, PARTITIONS) as publisher:
        publish(publisher, telemetry(3, 5))
    at = read_until(settings, 0)
    check_source(settings)

    admin = client_of(KafkaAdminClient, kafka.administrator)
    admin.delete_records({TopicPartition(TOPIC, 0): at + 1})
    admin.close()
    with pytest.raises(UserError, match=rf"that the job had not read \(partition 0, {at} to {at}\): they are lost"):
        check_source(settings)

    read_until(settings, 1_000_000)
    with pytest.raises(UserError, match="it was created again, or this is another Kafka"):
        check_source(settings)


@pytest.mark.usefixtures("kafka_alone")
def test_a_topic_that_its_producers_stamp_is_refused(kafka, settings_of_topic):
    admin = client_of(KafkaAdminClient, kafka.administrator)
    admin.create_topics({"by-hand": {"num_partitions": 8, "replication_factor": 1}})
    admin.wait_for_topics(["by-hand"])
    admin.close()
    with pytest.raises(UserError, match="LogAppendTime, or create a new one"):
        check_source(settings_of_topic("by-hand"))


def without_stamps(stamped: Iterable[dict[str, object]]) -> list[str]:
    """Rows in a form that compares, but for the log's own stamps: Kafka's, or the files'."""
    return sorted(as_json({name: value for name, value in row.items() if name != "known_at"}) for row in stamped)


def read_until(settings, more: int) -> int:
    """Write the operator's checkpoint as if it had read the first partition until its begin and some rows more."""
    offsets = offsets_of(connection_of(settings), TOPIC)
    read = {partition: begin + more * (partition == 0) for partition, (begin, _) in offsets.items()}
    for folder, text in (("offsets", f"v1\n{{}}\n{json.dumps({TOPIC: read})}\n"), ("commits", "v1\n{}")):
        file = settings.runtime.checkpoints / "operator" / folder / "0"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return read[0]


def send_without_key(settings, value: bytes) -> None:
    producer = client_of(KafkaProducer, connection_of(settings))
    producer.send(TOPIC, value=value, partition=0).get(timeout=30)
    producer.close()


def rows(settings, table: str) -> list[dict[str, object]]:
    return read_rows(settings.runtime.tables, table)
