"""A log that is deleted and created again is refused with a sentence: its rows are neither skipped nor mixed in."""

import json
import shutil
import time
from contextlib import contextmanager

import pytest
from kafka.admin import KafkaAdminClient

from checkpoints.generation import claimed
from checkpoints.manifest import MANIFEST
from rebalance_model.observe.policy import Policy
from streaming.base.errors import UserError
from streaming.base.place import tables_of
from streaming.base.settings import load_settings
from streaming.log.files import FilePublisher
from streaming.log.kafka import KafkaPublisher, create_topic, offsets_of, partition_count
from streaming.log.kafka_properties import client_of
from streaming.log.rows import publish
from streaming.pipeline.job import _basis
from tests.live.commands import Command, said
from tests.support.tables import read_rows
from tests.support.telemetry import telemetry
from tests.support.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("kafka_alone")]

PARTITIONS = 2
SECONDS = 300
FEW, MORE = list(telemetry(2, 4)), list(telemetry(2, 40))
GONE = "that the checkpoints were made with is gone: restore it"
REFUSED = "is not the one that the checkpoints were made with: it was created again"


class Topic:
    """A topic of the test."""

    kind = "kafka"

    def __init__(self, kafka, _):
        self.name = f"telemetry-{time.time_ns()}"
        self._kafka = kafka
        self.settings = kafka.settings | {"SOURCE__KIND": self.kind, "SOURCE__TOPIC": self.name}

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


@pytest.fixture(params=[Topic, Folder], ids=["kafka", "files"])
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


@contextmanager
def claimed_by(settings):
    """Claim checkpoints and tables as each start of the job does, without a query."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in settings.items():
            environment.setenv(f"REBALANCE_WATCH_{name}", str(value))
        loaded = load_settings()
    basis = _basis(loaded, Policy())
    with claimed(loaded.runtime.checkpoints, tables_of(loaded), basis):
        yield loaded.runtime.checkpoints / MANIFEST


def test_a_start_on_a_topic_that_was_created_again_is_refused_at_once(kafka, tmp_path):
    """The former ids are unknown at first, as an earlier release left them: the next start takes them."""
    topic = Topic(kafka, tmp_path)
    topic.create()
    topic.write(FEW)
    given = topic.settings | {"RUNTIME__ROOT": tmp_path / "root", "SOURCE__PARTITIONS": PARTITIONS}
    with claimed_by(given) as manifest:
        pass
    forget_ids(manifest)
    with claimed_by(given):
        topic.write(FEW)
    topic.delete()
    topic.create()
    topic.write(MORE)
    before = manifest.read_bytes()
    refusal = said(given, "run", "--available-now")  # before Spark starts
    assert REFUSED in refusal
    assert "\n" not in refusal
    assert manifest.read_bytes() == before


def forget_ids(manifest):
    without_ids = json.loads(manifest.read_bytes())
    assert without_ids["basis"].pop("log")["log"]
    manifest.write_text(json.dumps(without_ids))


def archived(tmp_path):
    return len(read_rows(tmp_path / "root" / "tables", "telemetry"))


@pytest.mark.spark
@pytest.mark.prove  # in short: the test above
def test_a_start_on_a_log_that_was_created_again_is_refused(log, job, tmp_path):
    """It has grown past what was read of the former one: the offsets alone do not show it."""
    log.write(FEW)
    assert job.start("--available-now").ended(SECONDS) == 0, job.said()
    read = archived(tmp_path)
    forget_ids(tmp_path / "root" / "checkpoints" / MANIFEST)
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


@pytest.mark.spark
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


@pytest.mark.spark
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
