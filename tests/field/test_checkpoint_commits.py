"""Readers that pull by themselves and commit at checkpoints: quiet while they read, found when they stop.

rocketmq-externals#230, #229; rocketmq-flink, SeaTunnel: commits every 300 s, one message a second in each queue.
"""

import msgspec
import pytest

from rebalance_model.observe.events import (
    AnyEvent,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    HeartBeat,
    PullMessage,
    RpcError,
    UpdateConsumerOffset,
)
from rebalance_model.observe.policy import Policy
from tests.support.field import SOURCES, Change, Concluded, changed, changed_events, concluded, concluded_of, numbered

LITE, PULL = "08-checkpoint-commits", "17b-mq-pull-checkpoint"
MINE = ("QUEUE_STALLED", "ORDERED_QUEUE_STUCK", "LAG_GROWTH", "PULL_EXPIRED")
FIRST = 1099
"""The commit of each queue at the start; one message a second follows."""


def rows(event: AnyEvent, **fields: object) -> AnyEvent:
    """Return an answer with other values in each of its queues."""
    return changed(event, queues=tuple(msgspec.structs.replace(q, **fields) for q in event.queues))


def committing_every(seconds: int) -> Change:
    """Let commits come at another interval, by polls; by hook those that are left."""

    def change(event: AnyEvent, at: float) -> AnyEvent | None:
        if isinstance(event, ConsumeStats):
            return rows(event, consumer_offset=FIRST + int(at // seconds) * seconds)
        is_late = isinstance(event, UpdateConsumerOffset) and round(at) % seconds
        return None if is_late else event

    return change


def with_commits_every(events: list[AnyEvent], seconds: int) -> list[AnyEvent]:
    """Return a hook's events with commits at a shorter interval."""
    start = events[0].time
    known = [e for e in events if isinstance(e, UpdateConsumerOffset)]
    others = [e for e in events if not isinstance(e, UpdateConsumerOffset)]
    models = {(e.topic, e.queue_id): e for e in known}
    added = [
        changed(e, time=start + at * 1000, offset=FIRST + at)
        for at in range(seconds, 1000, seconds)
        for e in models.values()
    ]
    return numbered([*others, *added])


def stops(begin: float, end: float = 1e9) -> Change:
    """Let the application hang from `begin` until `end`: nothing is handed over, pulled or committed."""

    def change(event: AnyEvent, at: float) -> AnyEvent | None:
        if not begin <= at < end:
            return event
        if isinstance(event, ConsumerRunningInfo):
            since = event.time - int((at - begin) * 1000)
            full = {"cached_count": 1001, "cached_min": FIRST + int(begin)}
            return rows(event, consume_time=since, **full)
        if isinstance(event, ConsumeStats):
            done = FIRST + int(begin // 300) * 300
            return rows(event, consumer_offset=done, pull_offset=FIRST + int(begin))
        return None if isinstance(event, PullMessage | UpdateConsumerOffset) else event

    return change


def without_pull_offset(event: AnyEvent, at: float) -> AnyEvent:
    """Let the broker be older than 5.x."""
    del at
    return rows(event, pull_offset=-1) if isinstance(event, ConsumeStats) else event


def pushing(event: AnyEvent, at: float) -> AnyEvent:
    """Let the members be push consumers."""
    del at
    if isinstance(event, ConsumerConnection | HeartBeat):
        return changed(event, consume_type="CONSUME_PASSIVELY")
    if isinstance(event, ConsumerRunningInfo):
        return changed(event, properties=event.properties | {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"})
    return event


def mine(conclusions: Concluded) -> list[tuple[str, str]]:
    """Return transition and sub-cause of the incidents about progress, in the order of time, each once."""
    return list(dict.fromkeys((t.transition, f"{t.code} {t.sub_cause}") for t in conclusions.transitions(*MINE)))


def opened_at(conclusions: Concluded) -> float:
    """Return the seconds from the start until the first of these incidents opened."""
    return conclusions.seconds(conclusions.transitions(*MINE)[0])


@pytest.mark.parametrize("case", [LITE, PULL])
@pytest.mark.parametrize("source", SOURCES)
def test_a_reader_that_commits_every_300_s_is_quiet(case, source):
    found = concluded(case, source)
    assert (mine(found), found.group().health) == ([], "OK")


@pytest.mark.parametrize("case", [LITE, PULL])
@pytest.mark.parametrize("source", SOURCES)
def test_a_reader_that_commits_every_600_s_is_quiet(case, source):
    found = concluded_of(changed_events(case, source, committing_every(600)))
    assert (mine(found), found.group().health) == ([], "OK")


@pytest.mark.parametrize("case", [LITE, PULL])
def test_a_reader_that_commits_every_60_s_is_quiet(case):
    assert mine(concluded_of(changed_events(case, "poll", committing_every(60)))) == []
    assert mine(concluded_of(with_commits_every(changed_events(case, "hook"), 60))) == []


@pytest.mark.parametrize("source", ["poll", "both"])
def test_a_lite_pull_reader_at_a_4_9_broker_is_quiet(source):
    assert mine(concluded_of(changed_events(LITE, source, without_pull_offset))) == []


@pytest.mark.parametrize("case", [LITE, PULL])
@pytest.mark.parametrize("source", SOURCES)
def test_a_reader_that_hangs_is_found_and_resolved(case, source):
    """It hangs 30 s after a checkpoint, with a full cache, and goes on 150 s later."""
    conclusions = concluded_of(changed_events(case, source, stops(330, 480)))
    assert mine(conclusions) == [
        ("OPENED", "QUEUE_STALLED READER_STOPPED"),
        ("RESOLVED", "QUEUE_STALLED READER_STOPPED"),
    ]
    assert 90 <= opened_at(conclusions) - 330 <= 135
    assert conclusions.group().health == "OK"


def test_a_lite_pull_reader_that_hangs_at_a_4_9_broker_is_found():
    found = concluded_of(changed_events(LITE, "poll", without_pull_offset, stops(330)))
    assert mine(found)[0] == ("OPENED", "QUEUE_STALLED READER_STOPPED")


def test_a_reader_at_the_end_of_an_idle_topic_is_quiet():
    """The near miss: nothing is sent after 330 s; what was read waits for the next checkpoint, for long."""

    def idle(event: AnyEvent, at: float) -> AnyEvent:
        if at < 330 or not isinstance(event, ConsumeStats | ConsumerRunningInfo):
            return event
        if isinstance(event, ConsumerRunningInfo):
            return rows(event, cached_count=0, consume_time=event.time - int((at - 330) * 1000))
        return rows(event, broker_offset=FIRST + 330, consumer_offset=FIRST + 300, pull_offset=FIRST + 330)

    assert mine(concluded_of(changed_events(LITE, "poll", idle))) == []
    assert mine(concluded_of(changed_events(LITE, "poll", idle, without_pull_offset))) == []
    assert mine(concluded_of(changed_events(PULL, "poll", idle))) == []


@pytest.mark.parametrize("source", SOURCES)
def test_a_push_consumer_whose_commit_stands_is_found_as_before(source):
    """Its pulls go on, and its listener hangs on one message."""
    [first, *_] = mine(concluded_of(changed_events(LITE, source, pushing)))
    assert first[0] == "OPENED"
    assert first[1] in {"QUEUE_STALLED MESSAGE_HELD", "QUEUE_STALLED LISTENER_BLOCKED"}


@pytest.mark.parametrize("case", [LITE, PULL])
@pytest.mark.parametrize("source", SOURCES)
def test_a_reader_that_never_commits_is_a_warning_after_long(case, source):
    conclusions = concluded_of(
        changed_events(case, source, committing_every(10_000)), Policy(uncommitted_after=700_000)
    )
    if source == "hook":  # the broker's hook has seen no commit: it does not know that messages wait
        assert mine(conclusions) == []
        return
    assert mine(conclusions) == [("OPENED", "QUEUE_STALLED NOT_COMMITTED")]
    assert 700 <= opened_at(conclusions) <= 720


def test_where_nothing_shows_whether_a_reader_reads_it_is_unknown_for_long():
    """DefaultMQPullConsumer reports no queue, and brokers before 5.x no pull offset."""
    events = changed_events(PULL, "poll", committing_every(10_000), without_pull_offset)
    assert mine(concluded_of(events)) == []
    found = concluded_of(events, Policy(uncommitted_after=700_000))
    assert mine(found) == [("OPENED", "QUEUE_STALLED UNDETERMINED")]


def refused(event: AnyEvent, at: float) -> AnyEvent | None:
    """Let the broker refuse every pull from 330 s on; the application has nothing to commit then."""
    if at < 330:
        return event
    if isinstance(event, PullMessage):
        return changed(event, code=16, first_offset=FIRST + 330, last_offset=FIRST + 330)
    if isinstance(event, ConsumeStats):
        return rows(event, consumer_offset=FIRST + 300, pull_offset=FIRST + 330)
    return None if isinstance(event, UpdateConsumerOffset) else event


@pytest.mark.parametrize("source", ["hook", "both"])
def test_a_reader_whose_pulls_are_refused_has_that_cause(source):
    """It pulls on, but reads nothing: that is known as soon as the broker has refused its pulls for 45 s."""
    found = concluded_of(changed_events(PULL, source, refused))
    assert mine(found)[0] == ("OPENED", "QUEUE_STALLED PULL_REFUSED")
    assert 390 <= opened_at(found) <= 405


@pytest.mark.parametrize("source", ["poll", "both"])
def test_a_reader_that_is_frozen_is_unresponsive(source):
    """It answers no request, and pulls and commits nothing."""

    def frozen(event: AnyEvent, at: float) -> AnyEvent | None:
        if at < 330 or not isinstance(event, ConsumerRunningInfo):
            return event
        error = RpcError(code=207, remark="timeout")
        return changed(event, error=error, orderly=None, queues=None, properties={}, subscriptions=())

    found = concluded_of(changed_events(LITE, source, stops(330), frozen))
    assert {name for what, name in mine(found) if what == "OPENED"} >= {"QUEUE_STALLED OWNER_UNRESPONSIVE"}
    assert "QUEUE_STALLED READER_STOPPED" not in {name for _, name in mine(found)}
