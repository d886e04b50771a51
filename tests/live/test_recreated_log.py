"""A log that is deleted and created again is refused with a sentence: its rows are neither skipped nor mixed in."""

import json
import shutil
import time

import pytest
from kafka.admin import KafkaAdminClient

from streaming.base.errors import UserError
from streaming.log.files import FilePublisher
from streaming.log.kafka import KafkaPublisher, create_topic, offsets_of, partition_count
from streaming.log.kafka_client import client_of
from streaming.log.rows import publish
from tests.live.commands import Command, Kafka
from tests.support.tables import read_rows
from tests.support.telemetry import telemetry
from tests.support.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.spark]

PARTITIONS = 2
SECONDS = 300
FEW, MORE = list(telemetry(2, 4)), list(telemetry(2, 40))
GONE = "that the checkpoints were made with is gone: restore it"
REFUSED = "is not the one that the checkpoints were made with: it was created again"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    with Kafka(tmp_path_factory.mktemp("kafka")).start() as kafka:
        yield kafka


class Topic:
    """A topic of the test."""

    kind = "kafka"

    def __init__(self, kafka, _):
        self.name = f"telemetry-{time.time_ns()}"
        self._kafka = kafka
        self.settings = {"SOURCE__BOOTSTRAP_SERVERS": kafka.bootstrap, "SOURCE__TOPIC": self.name}

    def create(self, partitions=PARTITIONS):
        create_topic(self._kafka.administrator, self.name, partitions, replication=1, retention_ms=3_600_000)

    def delete(self):
        admin = client_of(KafkaAdminClient, self._kafka.administrator)
        admin.delete_topics([self.name])
        admin.close()
        until(lambda: partition_count(self._kafka.administrator, self.name) is None, SECONDS)

    def write(self, events):
        with KafkaPublisher(self._kafka.administrator, self.name, PARTITIONS) as publisher:
            publish(publisher, events)


class Folder:
    """A file log of the test."""

    kind = "files"

    def __init__(self, _, tmp_path):
        self.path = tmp_path / "log"
        self.settings = {"SOURCE__KIND": "files", "SOURCE__PATH": self.path}

    def create(self):
        self.path.mkdir()

    def delete(self):
        shutil.rmtree(self.path)

    def write(self, events):
        with FilePublisher(self.path, PARTITIONS) as publisher:
            publish(publisher, events)


@pytest.fixture(params=[Topic, pytest.param(Folder, marks=pytest.mark.prove)], ids=["kafka", "files"])
def log(request, tmp_path):
    kafka = request.getfixturevalue("kafka") if request.param is Topic else None
    log = request.param(kafka, tmp_path)
    log.create()
    return log


@pytest.fixture
def job(log, tmp_path):
    given = {"RUNTIME__ROOT": tmp_path / "root", "SOURCE__PARTITIONS": PARTITIONS, "JOB__TRIGGER_SECONDS": 0.2}
    given |= {"JOB__ARCHIVE_TRIGGER_SECONDS": 0.2}
    with Command(tmp_path, given | log.settings, "run") as job:
        yield job


def archived(tmp_path):
    return len(read_rows(tmp_path / "root" / "tables", "telemetry"))


def test_a_start_on_a_log_that_was_created_again_is_refused(log, job, tmp_path):
    """It has grown past what was read of the former one: the offsets alone do not show it."""
    log.write(FEW)
    assert job.start("--available-now").ended(SECONDS) == 0, job.said()
    read = archived(tmp_path)
    manifest = tmp_path / "root" / "checkpoints" / "generation.json"
    without_ids = json.loads(manifest.read_bytes())
    del without_ids["basis"]["log"]  # as an earlier release made it: the next start takes the ids
    manifest.write_text(json.dumps(without_ids))
    log.write(FEW)
    assert job.start("--available-now").ended(SECONDS) == 0, job.said()
    assert archived(tmp_path) == 2 * read
    log.delete()
    log.create()
    log.write(MORE)
    assert job.start("--available-now").ended(SECONDS) == 1, job.said_now()
    assert REFUSED in job.said_now()
    assert "Traceback" not in job.said()
    assert archived(tmp_path) == 2 * read


@pytest.mark.prove  # in short: `pipeline.test_log_watch`
def test_a_log_that_is_created_again_under_a_running_job_ends_it(log, job, tmp_path):
    log.write(FEW)
    job.start().wait_for("archive batch", SECONDS)
    log.delete()
    log.create()
    log.write(MORE)
    assert job.ended(SECONDS) == 1, job.said_now()
    assert REFUSED in job.said_now() or GONE in job.said_now(), "it may look between the two"
    assert "Traceback" not in job.said_now()


@pytest.mark.prove  # in short: `pipeline.test_log_watch`
def test_a_log_that_is_deleted_under_a_running_job_ends_it(log, job, tmp_path):
    log.write(FEW)
    job.start().wait_for("archive batch", SECONDS)
    log.delete()
    assert job.ended(SECONDS) == 1, job.said_now()
    assert GONE in job.said_now()
    assert "Traceback" not in job.said_now()


def test_a_writer_goes_on_in_a_topic_that_was_created_again(kafka, tmp_path):
    topic = Topic(kafka, tmp_path)
    topic.create()
    with KafkaPublisher(kafka.administrator, topic.name, PARTITIONS) as publisher:
        publish(publisher, FEW)
        publisher.flush()
        sent = offsets_of(kafka.administrator, topic.name)
        topic.delete()
        topic.create()
        publish(publisher, FEW)
        publisher.flush()
        assert offsets_of(kafka.administrator, topic.name) == sent


@pytest.mark.parametrize(("partitions", "sentence"), [(0, "has no topic"), (1, "has 1 partitions, not 2")])
def test_a_writer_whose_topic_is_gone_or_smaller_says_so(kafka, tmp_path, partitions, sentence):
    topic = Topic(kafka, tmp_path)
    topic.create()

    def write_into_another():
        with KafkaPublisher(kafka.administrator, topic.name, PARTITIONS, resend_after_ms=3_000) as publisher:
            publish(publisher, FEW)
            publisher.flush()
            topic.delete()
            if partitions:
                topic.create(partitions)
            publish(publisher, FEW)
            publisher.flush()

    with pytest.raises(UserError, match=sentence):
        write_into_another()
