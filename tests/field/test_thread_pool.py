"""One pool of threads for all topics of a push consumer: a topic that hangs takes it, and the others wait.

apache/rocketmq#209, client-go#926: 20 threads hang in the topic Slow from 98 s on; messages of Fast never start.
"""

import msgspec
import pytest

from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.events import (
    AnyEvent,
    ConsumerRunningInfo,
    ConsumeStats,
    PullMessage,
    ThreadStack,
    UpdateConsumerOffset,
)
from tests.support.field import SOURCES, Change, Concluded, changed, changed_events, concluded, concluded_of

CASE, HUNG = "12-thread-pool", 1199
"""The case, and the commit at which its queues stand from 98 s on."""


def stalls(conclusions: Concluded) -> list[IncidentTransition]:
    """Return the last transition of each QUEUE_STALLED."""
    return list({t.incident_id: t for t in conclusions.transitions("QUEUE_STALLED")}.values())


def roots(conclusions: Concluded) -> list[IncidentTransition]:
    return [t for t in stalls(conclusions) if t.parent is None]


def rows_of(topic: str, mend) -> Change:
    """Change the rows of a topic: a function of an answer's row and the seconds."""

    def change(event: AnyEvent, at: float) -> AnyEvent:
        if isinstance(event, ConsumeStats | ConsumerRunningInfo):
            rows = tuple(mend(event, q, at) if q.mq.topic == topic else q for q in event.queues)
            return changed(event, queues=rows)
        if isinstance(event, PullMessage | UpdateConsumerOffset) and event.topic == topic:
            return mend(event, event, at)
        return event

    return change


def stopped_before(event: AnyEvent, row, at: float):
    """Let a topic stop 15 s before the others."""
    begun, stop = event.time - int(at * 1000), HUNG - 15
    if isinstance(event, ConsumeStats):
        return msgspec.structs.replace(row, consumer_offset=min(row.consumer_offset, stop))
    if isinstance(event, ConsumerRunningInfo):
        waits = max(0, int(at) - 83)
        stamp = min(row.consume_time, begun + 83_000)
        return msgspec.structs.replace(row, consume_time=stamp, cached_count=max(row.cached_count, waits))
    name = "offset" if isinstance(event, UpdateConsumerOffset) else "commit_offset"
    return changed(event, **{name: min(getattr(event, name), stop)})


def goes_on(event: AnyEvent, row, at: float):
    """Let a topic be consumed as before."""
    if isinstance(event, ConsumeStats):
        return msgspec.structs.replace(row, consumer_offset=row.broker_offset - 3)
    if isinstance(event, ConsumerRunningInfo):
        return msgspec.structs.replace(row, consume_time=event.time - 200, cached_count=0)
    if isinstance(event, UpdateConsumerOffset):
        return changed(event, offset=max(event.offset, 1100 + int(at) - 3))
    return changed(event, commit_offset=event.first_offset)


def from_400_s(event: AnyEvent, row, at: float):
    return goes_on(event, row, at) if at >= 400 else row


@pytest.mark.parametrize("source", SOURCES)
def test_an_exhausted_pool_is_one_incident_with_its_queues_as_children(source):
    conclusions = concluded(CASE, source)
    assert {t.sub_cause for t in stalls(conclusions)} == {"POOL_EXHAUSTED"}
    [root] = roots(conclusions)
    assert [t.parent for t in stalls(conclusions) if t is not root] == [root.incident_id] * 7
    evidence = msgspec.json.decode(root.evidence)
    assert evidence["pool_topics"] == "Fast, Slow"
    assert evidence["pool_holder"] is None  # they stopped at the same time: nothing tells them apart


@pytest.mark.parametrize("topic", ["Slow", "Fast"])
@pytest.mark.parametrize("source", SOURCES)
def test_the_topic_that_stopped_first_has_the_threads(source, topic):
    found = concluded_of(changed_events(CASE, source, rows_of(topic, stopped_before)))
    [root] = roots(found)
    assert (root.topic, root.sub_cause) == (topic, "POOL_EXHAUSTED")
    assert msgspec.json.decode(root.evidence)["pool_holder"] == topic


@pytest.mark.parametrize("source", SOURCES)
def test_a_topic_that_hangs_while_another_goes_on_has_not_taken_the_pool(source):
    """The near miss: four queues hang at a message each; Fast finds threads."""
    conclusions = concluded_of(changed_events(CASE, source, rows_of("Fast", goes_on)))
    assert {(t.topic, t.sub_cause) for t in stalls(conclusions)} in (
        {("Slow", "LISTENER_HUNG")},
        {("Slow", "LISTENER_BLOCKED")},
    )
    assert len(roots(conclusions)) == 4


def test_fewer_messages_than_threads_have_not_taken_the_pool():
    def few(event: AnyEvent, at: float) -> AnyEvent:
        is_answer = isinstance(event, ConsumerRunningInfo)
        return changed(event, properties=event.properties | {"consumeThreadMax": "5000"}) if is_answer else event

    assert {t.sub_cause for t in stalls(concluded_of(changed_events(CASE, "poll", few)))} == {"LISTENER_HUNG"}


def test_threads_that_take_whole_batches_need_as_many_messages():
    def batches(event: AnyEvent, at: float) -> AnyEvent:
        is_answer = isinstance(event, ConsumerRunningInfo)
        return (
            changed(event, properties=event.properties | {"consumeMessageBatchMaxSize": "5000"}) if is_answer else event
        )

    assert {t.sub_cause for t in stalls(concluded_of(changed_events(CASE, "poll", batches)))} == {"LISTENER_BATCH"}


def test_a_client_s_threads_and_stacks_are_evidence():
    def dumped(event: AnyEvent, at: float) -> AnyEvent:
        if not isinstance(event, ConsumerRunningInfo):
            return event
        stack = ThreadStack(name="ConsumeMessageThread_1", state="RUNNABLE", frames=("com.acme.Slow.consume",))
        return changed(
            event,
            properties=event.properties | {"consumeThreadMax": "20"},
            stacks=(stack,) * 20 if 140 < at < 150 else (),
        )

    [root] = roots(concluded_of(changed_events(CASE, "poll", dumped)))
    evidence = msgspec.json.decode(root.evidence)
    assert (evidence["pool_threads"], evidence["threads_in_listener"]) == (20, 20)


@pytest.mark.parametrize("source", SOURCES)
def test_all_are_resolved_when_the_pool_is_free_again(source):
    found = concluded_of(changed_events(CASE, source, rows_of("Slow", from_400_s), rows_of("Fast", from_400_s)))
    assert {t.transition for t in stalls(found)} == {"RESOLVED"}
    assert not found.open_at_end()


@pytest.mark.parametrize("source", ["poll", "both"])
def test_a_queue_that_stays_behind_is_an_incident_of_its_own(source):
    """Fast goes on from 400 s on: Slow still hangs, now with threads of its own."""
    conclusions = concluded_of(
        changed_events(CASE, source, rows_of("Fast", from_400_s), rows_of("Slow", stopped_before))
    )
    assert {(t.topic, t.transition) for t in stalls(conclusions) if t.topic == "Fast"} == {("Fast", "RESOLVED")}
    assert {t.sub_cause for t in stalls(conclusions) if t.topic == "Slow"} == {"LISTENER_HUNG"}
    assert len([t for t in roots(conclusions) if t.topic == "Slow"]) == 4


@pytest.mark.parametrize("topic", ["Slow", "Fast"])
def test_of_topics_that_stand_since_one_answer_the_first_is_the_root(topic):
    """It stopped 3 s before the other: the client's stamps tell that, and the broker's offsets, each 10 s, do not."""

    def stopped_3_s_before(event: AnyEvent, row, at: float):
        stamp = event.time - int(at * 1000) + 95_000
        if isinstance(event, ConsumerRunningInfo):
            waits = max(0, int(at) - 95)
            return changed(row, consume_time=min(row.consume_time, stamp), cached_count=max(row.cached_count, waits))
        return changed(row, consumer_offset=min(row.consumer_offset, HUNG - 3)) if at > 90 else row

    found = concluded_of(changed_events(CASE, "poll", rows_of(topic, stopped_3_s_before)))
    [root] = roots(found)
    assert (root.topic, msgspec.json.decode(root.evidence)["pool_holder"]) == (topic, topic)


def test_by_hook_a_topic_without_messages_does_not_wait_for_a_thread():
    """The near miss: all messages of Fast are consumed before 50 s, and no more are sent to it."""

    def idle(event: AnyEvent, row, at: float):
        if at < 50:
            return event
        if isinstance(event, UpdateConsumerOffset):
            return changed(event, offset=1149)
        return changed(event, first_offset=1149, last_offset=1149, commit_offset=1149)

    found = concluded_of(changed_events(CASE, "hook", rows_of("Fast", idle)))
    assert {(t.topic, t.sub_cause) for t in stalls(found)} == {("Slow", "LISTENER_BLOCKED")}
