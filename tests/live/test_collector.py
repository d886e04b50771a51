"""The collector against a real RocketMQ cluster, and the log in a real Kafka."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter, defaultdict
from itertools import islice, pairwise
from statistics import median

import pytest

from rebalance_model.observe.events import (
    Answer,
    BrokerStatus,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeTimeSpan,
    GroupEvent,
    Tick,
    TopicRoute,
    TopicStats,
    key_of,
)
from rebalance_model.observe.events.decoding import decode
from streaming.log.files import files_of
from tests.live.commands import said
from tests.live.lab_kafka import values_of
from tests.support.folding import folded
from tests.support.kafka_records import kafka_records
from tests.support.recordings import recorded_rows

pytestmark = pytest.mark.live
PARTITIONS = 8
INTERVAL_MS, DEADLINE_MS = 4_000, 3_900
"""Real clients on a busy machine take their time."""


class Collector:
    """Our commands with the addresses of the lab, a topic and a root of the test's own."""

    def __init__(self, lab, root, kafka):
        self.topic = f"test-{time.time_ns()}"
        self.kafka = kafka
        self._values = values_of(lab) | {
            "RUNTIME__ROOT": root,
            "COLLECTOR__INTERVAL_MS": INTERVAL_MS,
            "COLLECTOR__DEADLINE_MS": DEADLINE_MS,
            "SOURCE__TOPIC": self.topic,
            "SOURCE__PARTITIONS": PARTITIONS,
        }

    def said(self, *arguments, **changes):
        """Run a command in this process; return its output, or the sentence that it ends with."""
        return " ".join(said(self._values | changes, *arguments).split())

    def polled(self, path, rounds=2):
        """Return the events of some rounds, which it records in a file."""
        output = self.said("collect", "poll", "--rounds", rounds, "--to", path)
        assert "Traceback" not in output
        return _recorded(path)

    def started(self, *arguments, **changes):
        """Start a command as a process."""
        given = {f"REBALANCE_WATCH_{name}": str(value) for name, value in (self._values | changes).items()}
        return subprocess.Popen(
            [sys.executable, "-m", "streaming.cli", *map(str, arguments)],
            env=os.environ | given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def records(self):
        """Return everything in the topic, by partition."""
        return kafka_records(self.kafka.connection, self.topic, PARTITIONS)


@pytest.fixture
def collector(lab, kafka, tmp_path):
    return Collector(lab, tmp_path, kafka)


@pytest.fixture(scope="module")
def groups(lab_settings):
    """The groups of the lab by their names."""
    return {group.group: group for group in lab_settings.lab.groups.values()}


def _ended(process, seconds=120):
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    return process.returncode, output


def _recorded(path):
    """The events of a recording, each checked as the job checks it."""
    now_ms = time.time_ns() // 1_000_000
    return [decode(line, key=None, stamp=now_ms, keyed=False) for line in path.read_bytes().splitlines()]


def _of(events, kind, group=None):
    return [event for event in events if isinstance(event, kind) and (group is None or event.group == group)]


@pytest.mark.timeout(1_200)  # it starts the lab
def test_two_rounds_report_members_queues_and_offsets(lab, collector, groups, tmp_path):
    events = collector.polled(tmp_path / "r.jsonl")
    assert {event.group for event in events if isinstance(event, GroupEvent)} == set(groups)
    statuses = [event for event in events if isinstance(event, BrokerStatus)]
    assert [event.error for event in statuses] == [None, None]
    assert all(event.asked - 1_000 <= event.now <= event.answered for event in statuses)  # one machine, one clock
    assert all(event.asked <= event.answered <= event.time for event in events if isinstance(event, Answer))
    for name, group in groups.items():
        members = sorted(member.client_id for member in lab.status() if member.group == name and member.client_id)
        for route in _of(events, TopicRoute, name):
            assert [queue.queue_id for queue in route.queues] == list(range(group.queues))
            assert route.topic == group.topic
        for connection in _of(events, ConsumerConnection, name):
            assert [one.client_id for one in connection.connections] == members
        last = {event.client_id: event for event in _of(events, ConsumerRunningInfo, name)}
        assert sorted(last) == members
        assert {event.orderly for event in last.values()} == {group.ordered}
        assert {event.strategy for event in last.values()} == {"AllocateMessageQueueAveragely"}
        owned = Counter(row.mq for event in last.values() for row in event.queues if row.mq.topic == group.topic)
        assert sorted(queue.queue_id for queue in owned) == list(range(group.queues))
        stats = _of(events, ConsumeStats, name)
        assert len(stats) == 2
        assert sum(row.broker_offset for row in stats[1].queues) > 0
        spans = _of(events, ConsumeTimeSpan, name)
        assert {(event.topic, event.error) for event in spans} == {(row.mq.topic, None) for row in stats[1].queues}
        delays = [row.delay_time for event in spans for row in event.queues if row.mq.topic == group.topic]
        assert delays
        assert all(0 <= delay < 60_000 for delay in delays)
    _check_order(events, groups)


def _check_order(events, groups):
    """One source: time never falls, no hole in any sequence, routes before members before offsets before clients."""
    assert len({event.source_id for event in events}) == 1
    assert all(earlier.time <= later.time for earlier, later in pairwise(events))
    sequences = defaultdict(list)
    for event in events:
        sequences[key_of(event)].append(event.seq)
    assert all(seqs == list(range(1, len(seqs) + 1)) for seqs in sequences.values())
    order = [TopicRoute, ConsumerConnection, ConsumeStats, ConsumerRunningInfo]
    for name in groups:
        kinds = [
            type(event)
            for event in _of(events, GroupEvent, name)
            if not isinstance(event, ConsumeTimeSpan | TopicStats)
        ]
        first_round = kinds[: 3 + groups[name].consumers]
        assert [order.index(kind) for kind in first_round] == sorted(order.index(kind) for kind in first_round)
    assert isinstance(events[-1], Tick)
    assert [event.end for event in events if isinstance(event, Tick)][-2:] == [False, True]
    ticks = [event.time for event in events if isinstance(event, Tick)]
    assert median(later - earlier for earlier, later in pairwise(ticks)) < INTERVAL_MS / 2  # also while a round runs


def test_a_message_without_further_attempts_is_a_dead_letter_incident(lab, collector, tmp_path):
    """The topic is created with the first one: before, the broker answers that there is none."""
    events = collector.polled(tmp_path / "before.jsonl", rounds=1)
    record = lab.fault("dead-letter", client="audit-rejecting")
    try:
        events += collector.polled(tmp_path / "after.jsonl", rounds=1)
    finally:
        lab.cure("dead-letter")
    of_group = [event for event in _of(events, TopicStats, record.group) if event.is_dead_letters]
    assert {event.topic for event in of_group} == {f"%DLQ%{record.group}"}
    assert {event.error for event in of_group} == {None}
    before, after = ([(row.mq.queue_id, row.max_offset) for row in event.queues] for event in of_group)
    assert (before, after) == ([], [(0, 1)])
    [opened] = [one for one in folded(events) if getattr(one, "code", "") == "MESSAGES_DEAD_LETTERED"]
    evidence = json.loads(opened.evidence)
    assert (opened.group, opened.transition) == (record.group, "OPENED")
    assert (evidence["added"], evidence["offsets"]) == (1, f"{of_group[0].broker} 0..0")


def test_a_frozen_client_is_an_event_and_the_others_answer_meanwhile(lab, collector, groups, tmp_path):
    record = lab.fault("freeze")
    try:
        answers = _of(collector.polled(tmp_path / "r.jsonl"), ConsumerRunningInfo, record.group)
    finally:
        lab.cure("freeze")
    frozen = [event for event in answers if event.client_id == record.client_id]
    assert [event.error.code for event in frozen] == [207]  # asked once, and not again while that was under way
    assert frozen[0].time - frozen[0].asked > 9_000
    others = [event for event in answers if event.client_id != record.client_id]
    assert len(others) == 2 * (groups[record.group].consumers - 1)
    assert all(event.error is None for event in others)
    assert all(event.time - event.asked < frozen[0].time - frozen[0].asked for event in others)


def test_kafka_and_files_hold_the_same_rows_in_the_same_order(collector, tmp_path):
    recording = tmp_path / "r.jsonl.gz"
    assert "errors=" in collector.said("collect", "poll", "--rounds", "2", "--to", recording)
    assert "created" in collector.said("topic", "create")
    assert "already exists" in collector.said("topic", "create")
    assert f"has {PARTITIONS} partitions, not 4" in collector.said("topic", "create", SOURCE__PARTITIONS=4)
    for kind in ("files", "kafka"):
        assert "Traceback" not in collector.said("replay", recording, "--to", kind)
    expected = defaultdict(list)
    for row in (row for line in recorded_rows(recording, PARTITIONS) for row in line):
        expected[row.partition].append((row.key, row.value))
    assert len(expected) == PARTITIONS  # the broadcasts are in every one
    records = collector.records()
    for partition in range(PARTITIONS):
        assert [(record.key, record.value) for record in records[partition]] == expected[partition]
        assert {record.timestamp_type for record in records[partition]} == {1}  # LogAppendTime
        in_files = [row.value for file in files_of(tmp_path / "log", partition) for row in _raw(file)]
        assert in_files == [value for _, value in expected[partition]]


def _raw(file):
    """The lines of a log file, as rows of one partition."""
    return [line[0] for line in recorded_rows(file, 1)]


@pytest.mark.parametrize("output", ["files", "kafka"])
def test_an_interrupt_ends_it_cleanly_with_everything_sent(collector, tmp_path, output):
    assert "created" in collector.said("topic", "create")
    process = collector.started("collect", "poll", SOURCE__KIND=output)
    rounds = list(islice((line for line in process.stdout if "errors=" in line), 2))
    assert len(rounds) == 2, "it has ended"  # a busy client may not answer: an error of its round
    process.send_signal(signal.SIGINT)
    code, printed = _ended(process)
    assert (code, "Traceback" in printed) == (0, False), printed
    if output == "kafka":
        records = collector.records()
        rows = [[record.value for record in records[partition]] for partition in range(PARTITIONS)]
    else:
        logs = [files_of(tmp_path / "log", partition) for partition in range(PARTITIONS)]
        rows = [[row.value for file in files for row in _raw(file)] for files in logs]
    for values in rows:
        last = json.loads(values[-1])
        assert (last["type"], last.get("end")) == ("TICK", True)
        assert sum(b'"BROKER_STATUS"' in value for value in values) >= 2


def test_two_clusters_of_one_name_are_polled_beside_one_that_hangs(lab, collector, groups, tmp_path):
    """The lab twice, under two names; a third entry accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as hangs:
        entries = [
            {"name_servers": [lab.name_server]},
            {"name_servers": [lab.name_server], "names": {"lab": "other"}},
            {"name_servers": [f"127.0.0.1:{hangs.getsockname()[1]}"]},
        ]
        given = {"COLLECTOR__CLUSTERS": json.dumps(entries)}
        collector.said("collect", "poll", "--rounds", "2", "--to", tmp_path / "r.jsonl", **given)
    events = _recorded(tmp_path / "r.jsonl")
    assert len({event.source_id for event in events}) == 1
    for cluster in ("lab", "other"):
        own = [event for event in events if event.cluster == cluster]
        assert {event.group for event in own if isinstance(event, GroupEvent)} == set(groups)
        assert [event.error for event in own if isinstance(event, BrokerStatus)] == [None, None]
        starts = [event.asked for event in own if isinstance(event, BrokerStatus)]
        assert starts[1] - starts[0] < 2 * INTERVAL_MS  # no round is left out for the one that hangs
        assert own[-1].end


def test_two_clusters_of_one_name_without_another_are_a_sentence(lab, collector, tmp_path):
    entries = json.dumps([{"name_servers": [lab.name_server]}] * 2)
    refusal = collector.said("collect", "poll", "--to", tmp_path / "r.jsonl", COLLECTOR__CLUSTERS=entries)
    assert "Two entries of collector.clusters have a cluster lab" in refusal


def test_a_name_server_that_is_not_there_is_a_sentence(collector, tmp_path):
    process = collector.started(
        "collect", "poll", "--to", tmp_path / "r.jsonl", COLLECTOR__NAME_SERVERS='["127.0.0.1:1"]'
    )
    code, output = _ended(process)
    assert code == 4  # a server does not answer
    assert "No name server of 127.0.0.1:1 answers" in " ".join(output.split())
    assert "Traceback" not in output
    assert not (tmp_path / "r.jsonl").exists()
