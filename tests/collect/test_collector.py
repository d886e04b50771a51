"""The collector as a whole, against a server that stands for a cluster."""

import asyncio

import pytest

from rebalance_model.observe.events import ConsumerConnection, ConsumerRunningInfo, Tick
from streaming.base.errors import UserError
from streaming.base.settings import load_settings
from streaming.collect.collector import RoundSchedule, collect, until_tick
from streaming.collect.requests import ReadCode
from streaming.log.rows import partition_of
from tests.support.counted_cluster import CLUSTER, CountedCluster

GROUPS = [f"group-{number}" for number in range(12)]
PARTITIONS = 4


class Membership:
    """A collector's membership with given partitions; an error in their place is what Kafka answers."""

    def __init__(self, partitions):
        self._partitions = partitions

    def partitions(self):
        if isinstance(self._partitions, UserError):
            raise self._partitions
        return frozenset(self._partitions)

    def holds(self, partition):
        return partition in self._partitions


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Begin the round at once: those that share the groups wait for the next interval."""
    monkeypatch.setattr(RoundSchedule, "wait", lambda *_: 0.0)


def collected(partitions):
    """Return the events of one round of a collector with these partitions."""
    events = []
    with CountedCluster(GROUPS) as cluster:
        collector = {"name_servers": [cluster.address], "interval_ms": 60_000, "deadline_ms": 59_000}
        settings = load_settings(collector=collector, source={"partitions": PARTITIONS})
        shares = Membership(partitions)
        asyncio.run(collect(settings, events.extend, rounds=1, shares=shares, report=lambda _: None))
    return events, cluster


def test_collectors_divide_the_groups_by_their_partitions():
    asked = []
    for mine in ({0, 1}, {2, 3}):
        events, cluster = collected(mine)
        groups = {event.group for event in events if isinstance(event, ConsumerRunningInfo)}
        assert groups == {group for group in GROUPS if partition_of(f"{CLUSTER}/{group}", PARTITIONS) in mine}
        assert events[-1].end
        asked += [one.client_id for one in cluster.asked]
    assert sorted(asked) == sorted(one for members in cluster.members.values() for one in members)


def test_a_collector_without_partitions_polls_brokers_and_ticks():
    events, cluster = collected(())
    assert cluster.asked == []
    assert isinstance(events[-1], Tick)


def test_a_membership_that_kafka_refuses_is_one_sentence():
    with pytest.raises(UserError, match=r"^grant it$"):
        collected(UserError("grant it"))


def test_a_round_begins_at_its_interval_whatever_has_not_ended(monkeypatch):
    monkeypatch.undo()  # of `at_once`
    begun, ended = [], []

    class Slow(CountedCluster):
        """Answers nothing about the members of one group."""

        def frame(self, question):
            if question.code == ReadCode.GET_CONSUMER_CONNECTION_LIST and question.fields["consumerGroup"] == "slow":
                return b""
            if question.code == ReadCode.GET_BROKER_CLUSTER_INFO:
                begun.append(question)
            return super().frame(question)

    events = []
    with Slow(["good", "slow"]) as cluster:
        collector = {"name_servers": [cluster.address], "interval_ms": 1_000, "deadline_ms": 3_500}
        asyncio.run(collect(load_settings(collector=collector), events.extend, rounds=3, report=ended.append))
    assert len(ended) == 3
    answered = [event for event in events if isinstance(event, ConsumerConnection) and event.group == "good"]
    late = [event for event in events if isinstance(event, ConsumerConnection) and event.group == "slow"]
    assert len(answered) == 3
    assert answered[-1].time < late[0].time
    assert len(late) == 1  # it is not begun again before it has ended


@pytest.mark.parametrize("now", [100.0, 100.2, 100.34, 100.36, 100.8499, 100.85, 100.8501, 100.999])
def test_a_tick_is_sent_right_before_the_job_begins_a_batch(now):
    left = until_tick(now)
    assert 0.5 <= left <= 1.5  # about one a second
    assert (now + left) % 1 == pytest.approx(0.85)
