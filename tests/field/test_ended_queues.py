"""Queues that the cluster no longer has end: removed queues, deleted topics, and topics that members have left."""

import msgspec
import pytest

from rebalance_model.observe.events import (
    AnyEvent,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    PullMessage,
    RpcError,
    Tick,
    TopicRoute,
)
from rebalance_model.observe.group.ended_queues import WHY
from rebalance_model.observe.group_observer import GROUP_ENDED
from rebalance_model.observe.policy import Policy
from tests.support import field
from tests.support.field import Change, Concluded, changed, concluded, concluded_of, events_of
from tests.support.folding import Fold
from tests.support.trace import Trace, holding

TOPIC = "Orders"
NO_TOPIC = RpcError(code=17, remark="No topic route info in name server for the topic: Orders")
UNREACHABLE = RpcError(code=-1, remark="connect to 10.0.0.5:9876 failed")


def concluded_with(name: str, source: str, *changes: Change) -> Concluded:
    """Return what is concluded of a case with changes."""
    return concluded_of(field.changed_events(name, source, *changes))


def route(begin: float, end: float, error: RpcError | None = None, queues: int | None = None) -> Change:
    """Let the name server answer otherwise from `begin` until `end`: by an error, or with this many queues."""
    answers: dict[str, tuple] = {}

    def change(event: AnyEvent, at: float) -> AnyEvent:
        if not isinstance(event, TopicRoute) or event.topic != TOPIC:
            return event
        answers.setdefault("queues", event.queues or ())
        if not begin <= at < end:
            return event
        shown = None if error is not None else answers["queues"][:queues]
        return changed(event, queues=shown, error=error)

    return change


def stats_without(begin: float, end: float, *queue_ids: int) -> Change:
    """Let the broker leave out queues of the topic, or all of them, from its offsets."""

    def change(event: AnyEvent, at: float) -> AnyEvent:
        if not isinstance(event, ConsumeStats) or not begin <= at < end:
            return event
        left = [q for q in event.queues or () if q.mq.topic != TOPIC or (queue_ids and q.mq.queue_id not in queue_ids)]
        return changed(event, queues=tuple(left))

    return change


def unreadable_rows(begin: float, end: float) -> Change:
    """Let a row of the broker's offsets be unreadable."""

    def change(event: AnyEvent, at: float) -> AnyEvent:
        is_meant = isinstance(event, ConsumeStats) and begin <= at < end
        return changed(event, unreadable=("Orders:x: queueId is no number",)) if is_meant else event

    return change


def resolutions(conclusions: Concluded) -> dict[str, str | None]:
    """Return why each incident of a queue was resolved, by its subject."""
    return {
        t.subject: t.resolution for t in conclusions.transitions() if t.transition == "RESOLVED" and t.topic == TOPIC
    }


def stranded(conclusions: Concluded) -> list[tuple[str, str, int]]:
    """Return transition, sub-cause and number of messages of MESSAGES_STRANDED."""
    return [
        (t.transition, t.sub_cause, msgspec.json.decode(t.evidence)["messages"])
        for t in conclusions.transitions("MESSAGES_STRANDED")
    ]


def open_codes(conclusions: Concluded) -> list[str]:
    """Return the codes of open incidents that no other one explains."""
    return [t.code for t in conclusions.open_at_end() if t.parent is None]


@pytest.mark.parametrize("source", ["poll", "both"])
def test_stalls_of_removed_queues_end_and_messages_are_named_once(source):
    """#316, #204, #1465: 8 queues become 4; the listener of the others hung before."""
    conclusions = concluded("01-queues-removed", source)
    assert set(resolutions(conclusions).values()) == {WHY["QUEUE_REMOVED"]}
    [(transition, cause, messages)] = stranded(conclusions)
    assert (transition, cause) == ("OPENED", "QUEUE_REMOVED")
    assert messages >= 4 * 130
    assert open_codes(conclusions) == ["MESSAGES_STRANDED"]
    assert conclusions.queues()["Orders@broker-a:4"].status_reason == WHY["QUEUE_REMOVED"]


@pytest.mark.parametrize("source", ["poll", "both"])
def test_a_moving_backlog_of_removed_queues_blames_nobody(source):
    found = concluded("01b-queues-removed-lag", source)
    assert stranded(found) == [("OPENED", "QUEUE_REMOVED", 4 * 503)]
    assert open_codes(found) == ["MESSAGES_STRANDED"]


@pytest.mark.parametrize("left", [0, 3])
def test_removed_queues_without_a_backlog_are_no_incident(left):
    """The near miss: the topic shrinks after everything was consumed, but for what its readers had received."""

    def consumed(event: AnyEvent, at: float) -> AnyEvent:
        if not isinstance(event, ConsumeStats):
            return event
        behind = [left if at > 150 and q.mq.topic == TOPIC else 0 for q in event.queues or ()]
        rows = [
            msgspec.structs.replace(q, consumer_offset=q.broker_offset - one, pull_offset=q.broker_offset)
            for q, one in zip(event.queues or (), behind, strict=True)
        ]
        return changed(event, queues=tuple(rows))

    found = concluded_with("01b-queues-removed-lag", "poll", consumed)
    assert found.transitions() == []
    assert found.queues()["Orders@broker-a:7"].status_reason == WHY["QUEUE_REMOVED"]


def test_restored_queues_are_no_longer_stranded():
    answers: list[ConsumeStats] = []

    def restored(event: AnyEvent, at: float) -> AnyEvent:
        """From 400 s on the broker lists the queues again, as before they were removed."""
        if isinstance(event, ConsumeStats) and at < 200:
            answers[:] = [event]
        return changed(event, queues=answers[0].queues) if isinstance(event, ConsumeStats) and at >= 400 else event

    found = concluded_with("01b-queues-removed-lag", "poll", route(400, 1000, queues=8), restored)
    assert [t for t, *_ in stranded(found)] == ["OPENED", "RESOLVED"]
    assert found.queues()["Orders@broker-a:4"].status_reason != WHY["QUEUE_REMOVED"]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((route(200, 1000, queues=8), stats_without(200, 1000, 4, 5, 6, 7)), id="offsets-alone"),
        pytest.param((route(250, 1000, queues=8),), id="for-50-s"),
        pytest.param((route(200, 1000, UNREACHABLE),), id="name-server-away"),
        pytest.param((route(200, 250, NO_TOPIC), route(250, 1000, queues=8)), id="name-server-restarted"),
        pytest.param((unreadable_rows(0, 1000),), id="offsets-unreadable-in-part"),
    ],
)
def test_what_one_source_omits_or_for_a_short_time_has_not_ended(changes):
    conclusions = concluded_with("01-queues-removed", "poll", *changes)
    assert set(resolutions(conclusions).values()) <= {None}
    assert stranded(conclusions) == []
    assert conclusions.queues()["Orders@broker-a:4"].status_reason not in WHY.values()


@pytest.mark.parametrize("queues", [0, 2])
def test_a_partial_route_ends_nothing(queues):
    """A name server that lost the broker, or has an older number of queues: the broker still has them."""
    found = concluded_with("27-name-servers-down", "poll", route(200, 500, queues=queues))
    assert stranded(found) == []
    assert {q.status_reason for q in found.queues().values()}.isdisjoint(WHY.values())


@pytest.mark.parametrize("source", ["poll", "both"])
def test_name_servers_that_are_down_end_nothing(source):
    found = concluded("27-name-servers-down", source)
    assert {t.code for t in found.transitions()} <= {"DUPLICATE_CONSUMPTION"}
    assert found.group().health == "OK"


@pytest.mark.parametrize("name", ["01-queues-removed", "01b-queues-removed-lag"])
def test_incidents_of_a_deleted_topic_are_resolved_with_that_reason(name):
    """The topic's messages are gone with it: none is stranded."""
    conclusions = concluded_with(name, "poll", route(200, 1000, NO_TOPIC), stats_without(200, 1000))
    assert set(resolutions(conclusions).values()) <= {WHY["TOPIC_DELETED"]}
    assert len(resolutions(conclusions)) == (4 if name == "01-queues-removed" else 0)
    assert stranded(conclusions) == []
    assert open_codes(conclusions) == ["TOPIC_NOT_FOUND"]  # its members go on subscribing it
    assert conclusions.queues()["Orders@broker-a:0"].status_reason == WHY["TOPIC_DELETED"]


def test_a_deleted_topic_whose_pulls_are_refused_has_not_ended():
    """Its clients go on: they keep the last route that they knew."""

    def refused(event: AnyEvent, at: float) -> AnyEvent:
        return changed(event, code=17) if isinstance(event, PullMessage) and at >= 200 else event

    found = concluded_with("01-queues-removed", "both", route(200, 1000, NO_TOPIC), stats_without(200, 1000), refused)
    assert "PULL_REFUSED" in open_codes(found)
    assert found.queues()["Orders@broker-a:0"].status_reason not in WHY.values()


def test_a_topic_that_exists_again_is_watched_again():
    changes = route(200, 400, NO_TOPIC), stats_without(200, 400), route(400, 1000, queues=4)
    found = concluded_with("01-queues-removed", "poll", *changes)
    assert found.queues()["Orders@broker-a:0"].status_reason not in WHY.values()


@pytest.mark.parametrize("source", ["poll", "hook", "both"])
def test_a_topic_that_all_members_left_is_one_warning(source):
    """#2737: "Orders" became "Order" in a release."""
    conclusions = concluded("25-topic-no-longer-subscribed", source)
    [(transition, cause, messages)] = stranded(conclusions)
    assert (transition, cause) == ("OPENED", "NOT_SUBSCRIBED")
    assert messages >= 12
    assert open_codes(conclusions) == ["MESSAGES_STRANDED"]
    [one] = conclusions.transitions("MESSAGES_STRANDED")
    evidence = msgspec.json.decode(one.evidence)
    assert evidence["queue_names"] == "Orders@broker-a:0,1,2,3"
    assert (evidence["last_owned_at"] - conclusions.start) / 1000 == pytest.approx(200, abs=3)
    assert conclusions.queues()["Orders@broker-a:0"].status == "UNKNOWN"


def test_a_topic_that_is_subscribed_again_at_once_was_not_left():
    """The near miss: the release is rolled back within a minute."""

    def rolled_back(event: AnyEvent, at: float) -> AnyEvent:
        if not isinstance(event, ConsumerConnection | ConsumerRunningInfo) or at < 250:
            return event
        return changed(
            event,
            subscriptions=tuple(
                msgspec.structs.replace(s, topic=TOPIC) if s.topic == "Order" else s for s in event.subscriptions
            ),
        )

    found = concluded_with("25-topic-no-longer-subscribed", "poll", rolled_back)
    assert stranded(found) == []


@pytest.mark.parametrize("begin", [0, 300])
def test_a_deployment_is_no_alarm_about_a_topic_that_was_left_before(begin):
    """Without members the broker's offsets list every topic ever consumed, also one that this job never saw in use."""
    rows: list[ConsumeStats] = []

    def deployed(event: AnyEvent, at: float) -> AnyEvent | None:
        if isinstance(event, ConsumeStats) and at < 200:
            rows[:] = [event]
        if at < begin:
            return None
        if not 400 <= at < 520:
            return event
        if isinstance(event, ConsumerRunningInfo):
            return None
        if isinstance(event, ConsumerConnection):
            return changed(event, connections=(), subscriptions=(), consume_type="", message_model="")
        if isinstance(event, ConsumeStats):
            grown = [
                msgspec.structs.replace(q, broker_offset=q.broker_offset + int(at)) if q.mq.topic == TOPIC else q
                for q in rows[0].queues or ()
            ]
            return changed(event, queues=tuple(grown))
        return event

    conclusions = concluded_with("25-topic-no-longer-subscribed", "poll", deployed)
    opened_before = [("OPENED", "NOT_SUBSCRIBED", 12)] if begin == 0 else []
    assert stranded(conclusions) == opened_before
    others = [t for t in conclusions.transitions() if t.code != "TOPIC_NOT_FOUND"]  # of "Order"
    assert len(others) == len(opened_before)


@pytest.mark.parametrize("minutes", [5, 40])
def test_a_deleted_groups_incidents_end_when_it_is_forgotten(minutes):
    """deleteSubGroup: no broker lists the group any more, so the collector ticks and asks nothing about it."""
    fold = Fold(Policy(group_memory=20 * 60_000))
    events = [event for event in events_of("01-queues-removed", "poll") if event.time < 1_800_000_190_000]
    effects = [effect for event in events for effect in fold.push(event)]
    last = [event for event in events if isinstance(event, Tick)][-1]
    for second in range(1, minutes * 60):
        effects += fold.push(changed(last, time=last.time + 1000 * second, seq=last.seq + second))
    fold.cut()
    conclusions = Concluded(effects, events[0].time)
    if minutes == 5:
        assert set(open_codes(conclusions)) == {"QUEUE_STALLED"}
    else:
        assert (set(resolutions(conclusions).values()), open_codes(conclusions)) == ({GROUP_ENDED}, [])
        assert [key for key in fold.groups if "orders-group" in key and "progress" not in key] == []


@pytest.mark.parametrize(("model", "said"), [("CLUSTERING", ["OPENED"]), ("BROADCASTING", [])])
def test_offsets_of_a_group_that_was_broadcast_to_show_nothing_that_waits(model, said):
    """Its members kept their offsets themselves; now a proxy lists clients, and the topic loses queues."""
    trace, waits = Trace(message_model=model), dict.fromkeys(range(4), (200, 100))
    for at in range(0, 50, 10):
        trace.poll(at, {"a": holding(0, 1, 2, 3)}, waits)
    for at in range(50, 200, 10):
        trace.poll(at, {}, waits if at < 100 else {0: (200, 100)}, route=4 if at < 100 else 1).proxy(at + 0.1, "x")
    assert [what for _, what, _ in trace.incidents("MESSAGES_STRANDED")] == said
