"""Several collectors divide the groups by a real Kafka: no client is asked twice, also when one joins, leaves or dies.

Counted where the requests arrive, by a server that stands for a cluster; and with a real cluster, whose telemetry is
then folded as the job does.
"""

import json
import signal
import time
from collections import defaultdict
from itertools import dropwhile, groupby, pairwise

import msgspec
import pytest

from rebalance_model.observe.effects import GroupSnapshot, IncidentTransition
from rebalance_model.observe.events import ConsumerRunningInfo
from rebalance_model.observe.events.decoding import decode
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.rules.coverage import Coverage
from streaming.log.kafka import create_topic
from streaming.log.rows import partition_of
from streaming.log.shares import SESSION_SECONDS
from tests.live.commands import Command
from tests.live.lab_kafka import values_of
from tests.support.counted_cluster import CountedCluster
from tests.support.folding import Fold
from tests.support.kafka_records import kafka_records

pytestmark = pytest.mark.live
PARTITIONS = 8
INTERVAL_SECONDS = 4
GROUPS = [f"group-{number:02}" for number in range(24)]
TAKEN_OVER_SECONDS = SESSION_SECONDS + 3 + 2 * INTERVAL_SECONDS
"""Kafka notices the death, assigns the partitions, and the next round begins; and the round before the death."""
STALL_SECONDS = 10
"""A busy machine may stand still."""


@pytest.fixture
def topic(kafka):
    name = f"shares-{time.time_ns()}"
    create_topic(kafka.administrator, name, PARTITIONS, replication=1, retention_ms=3_600_000)
    return name


@pytest.fixture
def collectors(kafka, topic, tmp_path):
    """Two collectors of a cluster that counts their requests."""
    with CountedCluster(GROUPS) as cluster:
        settings = kafka.settings | {"COLLECTOR__NAME_SERVERS": f'["{cluster.address}"]'}
        a, b = (collector(tmp_path, name, settings, topic) for name in ("a", "b"))
        with a, b:
            yield cluster, a, b


def collector(root, name, settings, topic):
    """Return a collector that shares the groups with the others of its topic; `settings` lead it to the servers."""
    folder = root / name
    folder.mkdir()
    settings = settings | {
        "COLLECTOR__INTERVAL_MS": INTERVAL_SECONDS * 1000,
        "COLLECTOR__DEADLINE_MS": INTERVAL_SECONDS * 1000 - 100,
        "COLLECTOR__SHARE": "true",
        "COLLECTOR__INSTANCE": name,
        "SOURCE__TOPIC": topic,
        "SOURCE__PARTITIONS": PARTITIONS,
    }
    return Command(folder, settings, "collect", "poll")


def rounds(seconds_or_count):
    time.sleep(seconds_or_count * INTERVAL_SECONDS)


def has(collector, partitions):
    """Wait until the collector has just polled the groups of this number of partitions."""
    collector.wait_for_last(f"partitions={partitions} ", " groups=", 200)


def longest_pause(cluster, since):
    """Return the longest time for which a client was not asked."""
    times = defaultdict(list)
    for one in cluster.asked:
        if one.time >= since:
            times[one.client_id].append(one.time)
    return max(later - earlier for all_times in times.values() for earlier, later in pairwise(all_times))


def check_nobody_is_asked_twice(asked):
    """Check that no round of a client has two collectors, and that there are no more requests than rounds.

    A collector that the machine stops in a round asks the rest of it in the next one, which it then leaves out.

    Args:
        asked: (seconds, client, collector) of each request.
    """
    collectors, times = defaultdict(set), defaultdict(list)
    for seconds, client_id, collector in asked:
        collectors[client_id, int(seconds // INTERVAL_SECONDS)].add(collector)
        times[client_id].append(seconds)
    assert [place for place, found in collectors.items() if len(found) > 1] == []
    assert [one for one, all_times in times.items() if len(all_times) > rounds_between(all_times)] == []


def rounds_between(times):
    """Return the number of rounds from the first to the last of these times."""
    return int(max(times) // INTERVAL_SECONDS) - int(min(times) // INTERVAL_SECONDS) + 1


@pytest.mark.usefixtures("kafka_alone")
def test_a_killed_collectors_groups_are_polled_by_the_other(collectors):
    cluster, a, b = collectors
    a.start()
    has(a, PARTITIONS)
    b.start()
    has(b, PARTITIONS // 2)
    has(a, PARTITIONS // 2)
    rounds(2)
    began = time.time() - INTERVAL_SECONDS
    b.kill()
    has(a, PARTITIONS)
    rounds(1)
    pause = longest_pause(cluster, began)
    assert INTERVAL_SECONDS < pause <= TAKEN_OVER_SECONDS + STALL_SECONDS
    b.start()
    has(b, PARTITIONS // 2)
    rounds(1)
    began = time.time() - INTERVAL_SECONDS
    assert a.interrupt() == 0  # it leaves, and the other one need not wait for its session to end
    has(b, PARTITIONS)
    rounds(1)
    assert longest_pause(cluster, began) <= 4 * INTERVAL_SECONDS
    assert b.interrupt() == 0
    check_nobody_is_asked_twice([(one.time, one.client_id, one.port) for one in cluster.asked])
    assert {one.client_id for one in cluster.asked} == {one for names in cluster.members.values() for one in names}


@pytest.mark.prove
@pytest.mark.usefixtures("kafka_alone")
def test_a_frozen_collector_does_not_go_on_when_another_has_its_groups(collectors):
    cluster, a, b = collectors
    a.start()
    b.start()
    has(a, PARTITIONS // 2)
    has(b, PARTITIONS // 2)
    for seconds in (SESSION_SECONDS / 2, SESSION_SECONDS + 5):
        a.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        a.send_signal(signal.SIGCONT)
        rounds(4)
    has(a, PARTITIONS // 2)
    assert (a.interrupt(), b.interrupt()) == (0, 0)
    check_nobody_is_asked_twice([(one.time, one.client_id, one.port) for one in cluster.asked])


@pytest.mark.prove
def test_a_groups_series_goes_on_when_another_collector_takes_over(
    lab, lab_settings, kafka, topic, tmp_path, record_property
):
    group = lab_settings.lab.groups["orders"].group
    a, b = (collector(tmp_path, name, values_of(lab), topic) for name in ("a", "b"))
    with a, b:
        a.start()
        has(a, PARTITIONS)
        rounds(6)  # the job knows its sources after 20 s
        b.start()
        has(b, PARTITIONS // 2)
        rounds(3)
        dies, lives = (a, b) if polls(a, f"lab/{group}") else (b, a)
        killed = time.time_ns() // 1_000_000
        dies.kill()
        has(lives, PARTITIONS)
        rounds(5)
        lives.kill()  # an end of all collectors would be reported
    effects, asked = [], []
    for records in kafka_records(kafka.connection, topic, PARTITIONS).values():
        fold = Fold(Policy(poll_interval=INTERVAL_SECONDS * 1000, snapshot_interval=INTERVAL_SECONDS * 1000))
        for record in records:
            event = decode(record.value, key=record.key, stamp=record.timestamp, keyed=True)
            effects += fold.push(event, record.timestamp)
            if isinstance(event, ConsumerRunningInfo):
                asked.append((event.asked / 1000, event.client_id, event.source_id))
        followed = {state.group: state.collector for state in fold.shard.timeline.groups()}
        assert set(followed.values()) <= {"lab/a" if lives is a else "lab/b"}
    check_nobody_is_asked_twice(asked)  # in real rounds, too
    assert [effect for effect in effects if isinstance(effect, IncidentTransition)] == []
    record_property("nobody reported the group for", f"{check_the_gap_is_known(effects, group, killed)} ms")


def polls(collector, key):
    """Return whether the collector has the partition of a group."""
    line = [line for line in collector.said_now().splitlines() if "partitions of this collector" in line][-1]
    return partition_of(key, PARTITIONS) in json.loads(line.partition("partitions=")[2])


def check_the_gap_is_known(effects, group, killed):
    """While nobody polled the group, its rows say so, and not that all is well; return for how long."""
    of_group = [row for row in effects if isinstance(row, GroupSnapshot) and row.group == group]
    since = [row for row in of_group if row.time > killed - 2_000]  # silent since its last tick
    rows = list(dropwhile(lambda row: row.health == "OK", since))
    covered = [msgspec.json.decode(row.coverage, type=Coverage) for row in rows]
    said = [(row.health, known.polls) for row, known in zip(rows, covered, strict=True)]
    assert [one for one, _ in groupby(said)] == [("UNKNOWN", False), ("OK", True)]
    assert "QUEUE_UNASSIGNED" in covered[0].silent_rules
    gap_ms = next(row.time for row in rows if row.health == "OK") - rows[0].time
    assert gap_ms <= (TAKEN_OVER_SECONDS + STALL_SECONDS) * 1000
    return gap_ms
