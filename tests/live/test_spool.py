"""`rebalance-watch collect spool` into a real Kafka, while it or Kafka is killed."""

import gzip
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from streaming.log.files import files_of
from streaming.log.kafka import create_topic
from tests.live.commands import Kafka, said
from tests.live.lab_kafka import values_of
from tests.support.kafka_records import kafka_records
from tests.support.recordings import recorded_rows
from tests.support.spool_writer import SpoolWriter, check_delivery
from tests.support.waiting import until

pytestmark = pytest.mark.live
PARTITIONS = 3
SECONDS_MAX = 200


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory):
    """A Kafka that a test may kill."""
    with Kafka(tmp_path_factory.mktemp("kafka")).start() as kafka:
        yield kafka


@pytest.fixture
def topic():
    return f"spool-{time.time_ns()}"


def make(kafka, topic):
    create_topic(kafka.administrator, topic, PARTITIONS, replication=1, retention_ms=3_600_000)


@pytest.fixture
def command(topic, tmp_path):
    """Return a function that starts a shipper; its output goes to a file, so that it never waits for a reader."""
    values = {"RUNTIME__ROOT": tmp_path / "root", "SOURCE__TOPIC": topic, "SOURCE__PARTITIONS": PARTITIONS}
    started = []

    def start(settings, *arguments):
        given = {f"REBALANCE_WATCH_{name}": str(value) for name, value in (values | settings).items()}
        with (tmp_path / "said.txt").open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "streaming.cli", "collect", "spool", *arguments],
                env=os.environ | given,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait(120)


@contextmanager
def writing(writers, *, seed):
    """Lines come, files roll and instances start anew, until the end of the block."""
    stop = Event()
    choice = random.Random(seed)

    def write():
        while not stop.wait(0.01):
            writer = choice.choice(writers)
            writer.write(choice.randint(1, 20))
            action = choice.random()
            if action < 0.1:
                writer.roll()
            elif action < 0.2:
                writer.write_half()
            elif action < 0.21:
                writer.reboot()

    thread = Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def read_back(kafka, topic):
    """Return the values of each partition."""
    records = kafka_records(kafka.administrator, topic, PARTITIONS)
    return [[record.value for record in records[partition]] for partition in range(PARTITIONS)]


def behind(roots):
    """Return whether a file other than the newest of its folder is left, or the shipper is removing a folder."""
    try:
        return any(len(list(folder.glob("*.jsonl"))) > 1 for root in roots for folder in root.iterdir())
    except FileNotFoundError:
        return True


def stands(path, since):
    """Return whether a file was last changed then; one that is gone since it was listed has changed."""
    try:
        return path.stat().st_mtime_ns == since
    except FileNotFoundError:
        return False


def finish(command, settings, folders):
    """Ship what is left; the ended incarnations' last lines too, which are old by now."""
    for folder in folders:
        for file in folder.rglob("*.jsonl"):
            os.utime(file, (time.time() - 60,) * 2)
    assert command(settings, *folders, "--once").wait(200) == 0


@pytest.mark.usefixtures("kafka_alone")
@pytest.mark.parametrize("kills_wanted", [3, pytest.param(20, marks=pytest.mark.prove)])
def test_a_shipper_killed_again_and_again_loses_and_doubles_nothing(
    kafka, topic, command, tmp_path, kills_wanted, record_property
):
    make(kafka, topic)
    roots = [tmp_path / "a", tmp_path / "b"]
    writers = [SpoolWriter(roots[number % 2], f"hook-broker-{number}") for number in range(4)]
    choice = random.Random(1)
    kills = 0
    with writing(writers, seed=2):
        while kills < kills_wanted:
            before = (tmp_path / "said.txt").stat().st_size if kills else 0
            positions = {path: path.stat().st_mtime_ns for root in roots for path in root.rglob(".shipped")}
            process = command(kafka.settings, *roots)
            while all(stands(path, positions.get(path)) for root in roots for path in list(root.glob("*/.shipped"))):
                assert process.poll() is None, (tmp_path / "said.txt").read_text()[before:]
                time.sleep(0.05)
            time.sleep(choice.uniform(0, 0.6))
            process.kill()
            process.wait()
            kills += 1
    finish(command, kafka.settings, roots)
    values = read_back(kafka, topic)
    check_delivery(writers, values)
    assert {folder for root in roots for folder in root.iterdir()} == {writer.folder for writer in writers}
    lines = sum(len(lines) for writer in writers for lines in writer.lines.values())
    record_property("kills, lines each once", f"{kills}, {lines}")


@pytest.mark.prove  # in short: `test_whole_path`, whose shipper waits for a Kafka that is killed
def test_while_kafka_is_away_it_waits_and_then_sends_everything(own_kafka, topic, command, tmp_path):
    make(own_kafka, topic)
    settings = {"SOURCE__BOOTSTRAP_SERVERS": own_kafka.bootstrap}
    root = tmp_path / "a"
    writers = [SpoolWriter(root, f"hook-broker-{number}") for number in range(2)]
    output = tmp_path / "said.txt"
    with writing(writers, seed=3):
        process = command(settings, root)
        until(lambda: any(root.glob("*/.shipped")), SECONDS_MAX)
        own_kafka.kill()
        until(lambda: "waiting for Kafka" in output.read_text(), SECONDS_MAX)
        own_kafka.start()
    until(lambda: not behind([root]), SECONDS_MAX)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0, output.read_text()
    assert "Traceback" not in output.read_text()
    finish(command, settings, [root])
    check_delivery(writers, read_back(own_kafka, topic))


def test_poll_takes_spools_along_into_the_log_and_into_a_recording(lab, tmp_path):
    root = tmp_path / "spool"
    writer = SpoolWriter(root, "hook-broker-z")
    given = {"RUNTIME__ROOT": tmp_path / "root", "SOURCE__KIND": "files", "SOURCE__PARTITIONS": PARTITIONS}

    def poll(*arguments):
        output = said(values_of(lab) | given, "collect", "poll", "--once", "--spool", root, *arguments)
        assert "errors=" in output, output  # of a round that was done; a busy client may not answer

    recording = tmp_path / "r.jsonl"
    writer.write(30)
    writer.roll()
    poll("--to", recording)
    writer.write(20)
    writer.roll()
    poll()
    rows = [row for rows in recorded_rows(recording, PARTITIONS) for row in rows if b'"end":true' not in row.value]
    values = [[row.value for row in rows if row.partition == partition] for partition in range(PARTITIONS)]
    for partition in range(PARTITIONS):
        for file in files_of(tmp_path / "root" / "log", partition):
            values[partition] += gzip.decompress(file.read_bytes()).splitlines()
    polled = [[value for value in some if b'"source":"poll"' in value] for some in values]
    assert all(any(b'"TICK"' in value for value in some) for some in polled)
    check_delivery([writer], [[value for value in some if b'"source":"hook"' in value] for some in values])
    assert not behind([root])
