"""Lite-pull consumers in the simulation: what they send, answer and commit."""

import itertools

from rebalance_model.observe.events import (
    ConsumerRunningInfo,
    HeartBeat,
    PullMessage,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)
from simulation.cluster import START
from simulation.truth import Consumed
from tests.support.simulated import shares, simulate, small


def readers(*steps, until, **group):
    """Two lite-pull consumers of eight queues, each of which gets a message every 1.33 s."""
    made = {"name": "g", "called": "c", "topics": ["Orders"], "consumers": 2, "lite_pull": True, **group}
    return simulate(small(*steps, groups=[made]), until=until)


def consumed(run):
    """Return the number of messages that were consumed, of each queue."""
    ends = {}
    for one in run.cluster.world.truth.records:
        if isinstance(one, Consumed):
            ends[one.queue.queue_id] = max(one.last_offset + 1, ends.get(one.queue.queue_id, 0))
    return ends


def commits(run, queue_id):
    """Return the seconds at which the committed offset of a queue changed."""
    seconds, last = [], None
    for event in run.of(UpdateConsumerOffset):
        if event.queue_id == queue_id and event.offset != last:
            last = event.offset
            seconds.append((event.time - START) / 1000)
    return seconds


def test_they_divide_the_queues_and_declare_that_they_pull_by_themselves():
    run = readers(until=60.0)
    assert shares(run.cluster) == {"c-1": [0, 1, 2, 3], "c-2": [4, 5, 6, 7]}
    assert {event.consume_type for event in run.of(HeartBeat)} == {"CONSUME_ACTIVELY"}
    assert {one.topic for event in run.of(HeartBeat) for one in event.subscriptions} == {"Orders"}  # no retry topic
    answer = run.of(ConsumerRunningInfo)[-1]
    assert (answer.orderly, len(answer.queues)) == (False, 4)
    assert answer.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
    assert "consumeTimeout" not in answer.properties
    assert {event.topic for event in run.of(QueryConsumerOffset)} == {"Orders"}
    assert all(count >= 40 for count in consumed(run).values())


def test_they_commit_every_5_s_and_no_pull_carries_a_commit():
    run = readers(until=60.0)
    times = commits(run, 0)
    assert all(4.9 < after - before < 10.1 for before, after in itertools.pairwise(times[1:]))
    assert {event.commit_offset for event in run.of(PullMessage)} == {-1}


def test_at_checkpoints_they_commit_rarely_and_read_on():
    run = readers(until=200.0, commit_interval_ms=60_000)
    assert len(commits(run, 0)) <= 5
    answers = [one for one in run.of(ConsumerRunningInfo) if one.time > START + 40_000]
    assert all(one.time - row.consume_time < 3_000 for one in answers for row in one.queues)
    assert all(row.cached_count <= 1 for one in answers for row in one.queues)
    assert run.incidents() == set()


def test_a_reader_that_hangs_pulls_on_and_commits_nothing():
    run = readers({"at": 60, "do": "hang", "who": "c-1", "lasts": 150}, until=205.0)
    answer = [one for one in run.of(ConsumerRunningInfo) if one.client_id.endswith("c-1")][-1]
    assert all(row.cached_count > 90 for row in answer.queues)
    assert all(answer.time - row.consume_time > 130_000 for row in answer.queues)
    assert all(answer.time - row.pull_time < 3_000 for row in answer.queues)
    assert max(commits(run, 0)) < 70
    assert run.incidents() == {"QUEUE_STALLED READER_STOPPED"}
    run.cluster.run_until(240)
    assert all(count > 165 for count in consumed(run).values())


def test_a_message_that_is_refused_is_tried_again_until_it_is_accepted():
    run = readers({"at": 60, "do": "poison", "who": "c-1", "queue": 0, "lasts": 30}, until=85.0)
    assert consumed(run)[0] < 50
    run.cluster.run_until(120)
    assert consumed(run)[0] > 85


def test_a_reader_that_leaves_has_committed_up_to_its_last_checkpoint():
    """Its messages since then are read again."""
    run = readers({"at": 100, "do": "leave", "who": "c-1"}, until=130.0, commit_interval_ms=60_000)
    assert shares(run.cluster) == {"c-2": list(range(8))}
    pulls = [event for event in run.of(PullMessage) if event.queue_id == 0 and event.time > START + 100_000]
    assert 40 <= min(event.first_offset for event in pulls) <= 60


def test_readers_go_on_after_their_broker_has_restarted():
    run = readers({"at": 60, "do": "stop-broker", "broker": "broker-a", "lasts": 10}, until=130.0)
    pulls = [event for event in run.of(PullMessage) if event.time > START + 75_000]
    assert {event.queue_id for event in pulls} == set(range(8))
    assert all(count > 85 for count in consumed(run).values())
