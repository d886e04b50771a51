"""Every call of a client to a real broker is in the tables once, whichever process is killed on the way.

Raw clients send locks, unlocks, heartbeats and commits, all different, to a broker with the hook, and record the
answers. Shipper, Kafka and the Spark job are killed meanwhile, and restarted. The short form is `test_whole_path`:
there a standby takes over from the job, which is killed within a batch, and then loses a Python worker.
"""

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Event

import msgspec
import pyarrow.parquet as pq
import pytest
from kafka import KafkaConsumer, TopicPartition

from checkpoints.manifest import ARCHIVE, OPERATOR
from rebalance_model.entities import INT64_MAX
from rebalance_model.observe import events
from rebalance_model.observe.events.decoding import decode
from rebalance_model.observe.policy import Policy
from schemas.arrow import in_epoch_ms
from schemas.tables import DERIVED
from streaming.log.kafka import create_topic
from streaming.log.kafka_properties import client_of
from streaming.pipeline.operator import ShardRow
from streaming.tables.reader import ReadModel
from tests.live.commands import Command, Kafka
from tests.support import hooked
from tests.support.plain import as_json, tables_of
from tests.support.tables import has_rows, read_rows
from tests.support.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.spark]

PARTITIONS = 2
TOPIC = "calls"
GROUPS = ("shared", "shared", "own")
"""The group of each client."""
DIGITS, BASE = 3, 20
"""A lock's queues are the digits of its number: each lock is of other queues than any before it, and of few."""
PAUSE_SECONDS = 0.2
STEADY_SECONDS, KILLS = 60, 16
START_AGAIN = ("Python worker failed to connect back", "does not answer", "Nothing listens at")
"""The job's errors if the machine is too busy to start a Python worker in ten seconds, and while Kafka is unavailable.
Then it is started again, as by a service manager."""
STARTS_MAX = 10
SPOOLED_SECONDS_MAX = 200
BATCH_SECONDS_MAX = 400
"""Spark starts in 15 s, on a machine that does nothing else."""


class Maker:
    """One client with one connection. It waits for each answer, so it knows what it did, and in which order."""

    def __init__(self, address, number):
        self._client = hooked.Client(address)
        self._number = number
        self.group, self.client_id = GROUPS[number], f"192.0.2.{number}@7"
        self.channel = self._client.channel
        self.calls = []

    def work(self, stop, pause_seconds):
        with self._client:
            for step in range(1, BASE**DIGITS):
                if stop.wait(pause_seconds):
                    return
                self._make(step)
        raise AssertionError("no lock is left that is unlike all before it")

    def _make(self, step):
        digits = [step // BASE**place % BASE + place * BASE for place in range(DIGITS)]
        queues = tuple(self._number * BASE * DIGITS + digit for digit in digits)
        body = hooked.locks(self.client_id, self.group, *queues)
        beat = hooked.heartbeat(self.client_id, self.group, heartbeatFingerprint=step)
        answers = [
            self._client.ask(hooked.HEART_BEAT, body=beat),
            self._client.ask(hooked.LOCK, body=body),
            self._client.ask(hooked.UPDATE_OFFSET, hooked.commit(self.group, self._number, step)),
            self._client.ask(hooked.UNLOCK, body=body),
        ]
        assert [answer.code for answer in answers] == [0, 0, 0, 0]
        made = [("HEART_BEAT", step), ("LOCK_BATCH_MQ", queues), ("UPDATE_CONSUMER_OFFSET", step)]
        self.calls += [*made, ("UNLOCK_BATCH_MQ", queues)]


def call_of(event):
    """An event as its client knows it."""
    if isinstance(event, events.HeartBeat):
        return "HEART_BEAT", event.heartbeat_fingerprint
    if isinstance(event, events.LockBatchMq):
        assert set(event.granted) == set(event.requested)
        return "LOCK_BATCH_MQ", _ids(event.requested)
    if isinstance(event, events.UnlockBatchMq):
        return "UNLOCK_BATCH_MQ", _ids(event.queues)
    assert isinstance(event, events.UpdateConsumerOffset)
    return "UPDATE_CONSUMER_OFFSET", event.offset


def _ids(queues):
    return tuple(sorted(queue.queue_id for queue in queues))


class Pipeline:
    """From a broker's spool through Kafka and Spark into the tables; each part can be killed."""

    def __init__(self, folder, settings_in, kafka=None, trigger_seconds=2, archive_seconds=2, **more):
        """Prepare it.

        Args:
            folder: of all that it writes.
            settings_in: returns settings with a root.
            kafka: a running one, which it can kill and start; None: an open one of its own.
            trigger_seconds: of the job's operator.
            archive_seconds: of the job's archive, which, too, is then killed within its batches.
            more: settings of its commands: SECTION__NAME and a value each.
        """
        self.settings = settings_in(folder / "root", partitions=PARTITIONS)
        self.policy = Policy()
        self.spool = folder / "spool"
        self.spool.mkdir()
        self._folder = folder
        self.kafka = kafka or Kafka(folder / "kafka")
        self.values = {
            "SOURCE__BOOTSTRAP_SERVERS": self.kafka.bootstrap,
            **more,
            "RUNTIME__ROOT": self.settings.runtime.root,
            "SOURCE__KIND": "kafka",
            "SOURCE__TOPIC": TOPIC,
            "SOURCE__PARTITIONS": PARTITIONS,
            "JOB__TRIGGER_SECONDS": trigger_seconds,
            "JOB__ARCHIVE_TRIGGER_SECONDS": archive_seconds,
        }
        self.shipper = Command(folder, self.values, "collect", "spool", self.spool)
        self.job = Command(folder, self.values, "run")

    def broker_settings(self, stack):
        """Return further settings of the broker; what they need runs until the stack ends."""
        return {}

    @contextmanager
    def running(self):
        """All of it, until the end of the block."""
        with ExitStack() as stack, ThreadPoolExecutor() as pool:
            for part in (self.kafka, self.shipper, self.job):
                stack.enter_context(part)
            kafka = pool.submit(self.kafka.start)
            self.start_broker(stack)
            kafka.result()
            create_topic(self.kafka.administrator, TOPIC, PARTITIONS, replication=1, retention_ms=3_600_000)
            self.shipper.start()
            self.job.start()
            yield

    def start_broker(self, stack):
        """Start the broker with its topic and its groups; it ends with the stack."""
        self.broker = stack.enter_context(hooked.broker(self._folder, spool=self.spool, **self.broker_settings(stack)))
        with hooked.Client(self.broker.address) as client:
            client.make("Orders", *sorted(set(GROUPS)))

    def kill_shipper(self):
        self.shipper.kill()
        self.shipper.start()

    def kill_kafka(self):
        self.kafka.kill()
        self.kafka.start()

    def await_batch(self, words):
        """Wait until the job reports a batch."""
        for _ in range(STARTS_MAX):
            self.job.wait_for((words, *START_AGAIN), BATCH_SECONDS_MAX)
            if not self._wants_a_new_start():
                return
            self.job.ended()
            self.job.start()
        raise AssertionError(self.job.said())

    def _wants_a_new_start(self):
        return any(words in self.job.said_now() for words in START_AGAIN)

    def kill_job(self, choice):
        """Wherever it is; answers how many of its two queries had begun a batch and not ended it."""
        self.await_batch("batch")
        time.sleep(choice.uniform(0, 2.5))
        self.job.kill()
        cut = sum(self.is_within_batch(query) for query in (OPERATOR, ARCHIVE))
        self.job.start()
        return cut

    def is_within_batch(self, query):
        """Return whether a query of the killed job had begun a batch and not ended it."""
        begun, ended = (
            {path.name for path in (self.settings.runtime.checkpoints / query / kind).glob("[0-9]*")}
            for kind in ("offsets", "commits")
        )
        return begun > ended

    @contextmanager
    def making(self, pause_seconds=PAUSE_SECONDS):
        """Clients make calls, with pauses, until the end of the block, and until all of them are in the spool."""
        stop = Event()
        makers = [Maker(self.broker.address, number) for number in range(len(GROUPS))]
        with ThreadPoolExecutor() as pool:
            working = [pool.submit(maker.work, stop, pause_seconds) for maker in makers]
            try:
                yield makers
            finally:
                stop.set()
        for work in working:
            work.result()
        now = _now()
        until(lambda: self._has_written_all_until(now), SPOOLED_SECONDS_MAX, lambda: "the hook's writer is behind")

    def _has_written_all_until(self, moment):
        """Return whether the newest file, which no shipper deletes, has a later tick."""
        try:
            lines = max(self.spool.glob("*/*.jsonl")).read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:  # it was the newest a moment ago
            return False
        return any(b'"TICK"' in line and msgspec.json.decode(line)["time"] > moment for line in lines)

    def finish(self):
        """Everything that was made, into the tables, by a new start of the job."""
        self._ship_the_rest()
        self.job.kill()
        for _ in range(STARTS_MAX):
            code = self.job.start("--available-now").ended(BATCH_SECONDS_MAX)
            if not self._wants_a_new_start():
                break
        assert code == 0, self.job.said_now()
        assert "Traceback" not in self.shipper.said() + self.job.said()

    def finish_running(self):
        """Everything that was made, into the tables, by the job that runs."""
        self._ship_the_rest()
        log, tables = self.log(), self.settings.runtime.tables
        sizes = {table: len(rows) for table, rows in tables_of(log, self.policy, keyed=True).items()}
        sizes["telemetry"] = sum(map(len, log))

        def has_all():
            if not self.job.is_running:
                assert self._wants_a_new_start(), self.job.said_now()
                self.job.start()
            return has_rows(tables, sizes)

        until(has_all, BATCH_SECONDS_MAX, self.job.said_now)
        assert self.job.interrupt() == 0, self.job.said_now()
        assert "Traceback" not in self.shipper.said() + self.job.said()

    def _ship_the_rest(self):
        self.shipper.kill()
        assert self.shipper.start("--once").ended() == 0, self.shipper.said_now()

    def log(self):
        """The rows of each partition of the topic."""
        places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        rows = [[] for _ in places]
        consumer = client_of(
            KafkaConsumer, self.kafka.administrator, auto_offset_reset="earliest", enable_auto_commit=False
        )
        try:
            consumer.assign(places)
            left = sum(consumer.end_offsets(places).values())
            while left > 0:
                for place, some in consumer.poll(timeout_ms=5_000).items():
                    rows[place.partition] += [ShardRow(one.offset, one.timestamp, one.key, one.value) for one in some]
                    left -= len(some)
        finally:
            consumer.close()
        return rows


def check(pipeline, makers):
    """Every call once and in order in the view, every row of the log in the archive, and what follows from them.

    Returns how many rows of the log were repetitions.
    """
    log, tables = pipeline.log(), pipeline.settings.runtime.tables
    with ReadModel(tables) as model:
        archived = model.rows("SELECT t.partition, t.offset, t.value FROM telemetry t ORDER BY t.partition, t.offset")
        seen = model.rows("SELECT t.value FROM telemetry_events t ORDER BY t.partition, t.offset")
        [refused] = model.rows("SELECT count(*) AS rows FROM telemetry_rejected")
    assert refused["rows"] == 0
    assert [(row["partition"], row["offset"], row["value"].encode()) for row in archived] == [
        (partition, row.offset, row.value) for partition, rows in enumerate(log) for row in rows
    ]
    logged = [decode(row["value"].encode(), key=None, stamp=INT64_MAX, keyed=False) for row in seen]
    of_hook = [event for event in logged if event.source_id.startswith(f"hook-{hooked.NAME}-")]
    for seqs in hooked.numbers(of_hook).values():
        assert seqs == list(range(1, len(seqs) + 1))  # as they came, nothing left out, nothing twice
    for maker in makers:
        assert maker.calls
        assert [call_of(event) for event in logged if getattr(event, "channel", "") == maker.channel] == maker.calls
    expected = tables_of(log, pipeline.policy, keyed=True)
    derived = {table: sorted(map(as_json, _rows(tables / table))) for table in DERIVED}
    assert derived == {table: expected.get(table, []) for table in DERIVED}
    assert derived["assignment_history"]
    broadcasts = sum(event.BROADCAST for event in logged)
    return len(archived) - len(logged) - broadcasts * (PARTITIONS - 1)


def _now():
    return time.time_ns() // 1_000_000


def _rows(table):
    return read_rows(table.parent, table.name)


def seconds_to_row(table, since):
    """Return how old each row was when the commit that brought it was made, by the table's own log; in seconds, sorted.

    Of rows of what happened from ``since`` (epoch ms) on.
    """
    ages = []
    for entry in sorted((table / "_delta_log").glob("*.json")):
        actions = [msgspec.json.decode(line) for line in entry.read_bytes().splitlines()]
        [committed] = [action["commitInfo"]["timestamp"] for action in actions if "commitInfo" in action]
        for added in (action["add"]["path"] for action in actions if "add" in action):
            times = in_epoch_ms(pq.read_table(table / added, columns=["time"]))["time"].to_pylist()
            ages += [(committed - moment) / 1000 for moment in times if moment >= since]
    return sorted(ages)


@pytest.mark.prove
@pytest.mark.parametrize("seed", [1])
def test_what_clients_did_is_in_the_tables_once_after_many_kills_at_random(
    settings_in, tmp_path, seed, record_property
):
    choice = random.Random(seed)
    kills, cut = Counter(), 0
    pipeline = Pipeline(tmp_path, settings_in)
    with pipeline.running():
        with pipeline.making() as makers:
            pipeline.await_batch("operator batch 3")
            steady_since = _now()
            time.sleep(STEADY_SECONDS)
            ages = seconds_to_row(pipeline.settings.runtime.tables / "assignment_history", steady_since)
            while kills.total() < KILLS:
                who = choice.choices(("shipper", "kafka", "job"), weights=(5, 2, 3))[0]
                time.sleep(choice.uniform(0, 4))
                if who == "job":
                    cut += pipeline.kill_job(choice)
                else:
                    getattr(pipeline, f"kill_{who}")()
                kills[who] += 1
        pipeline.finish()
        repeated = check(pipeline, makers)
    calls = sum(len(maker.calls) for maker in makers)
    record_property("killed, batches cut off", f"{dict(kills)}, {cut}")
    record_property("calls, each once and in order; repeated rows", f"{calls:,}; {repeated:,}")
    p50, p99 = (ages[int(len(ages) * share)] for share in (0.5, 0.99))
    record_property("event to committed row, undisturbed", f"{len(ages):,} rows, p50 {p50:.1f} s, p99 {p99:.1f} s")
