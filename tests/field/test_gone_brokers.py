"""A broker that was taken out of the cluster is forgotten; one that is down, for however long, is not soon.

A name server forgets a stopped broker at once, and a crashed one after 120 s (RouteInfoManager): only time tells.
"""

from collections.abc import Iterable

import msgspec
import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.events import (
    AnyEvent,
    BrokerStatus,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ProcessQueueInfo,
    RpcError,
    Tick,
    TopicRoute,
)
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.rules.broker_unreachable import GONE
from tests.support.field import Change, Concluded, changed, changed_events, concluded_of
from tests.support.folding import Fold

CASE, AWAY = "13-skipped-by-expansion", "broker-b"
"""A case of two brokers, in which the second is added at 100 s; it goes away at 300 s."""
SOON = Policy(broker_gone_after=120_000)
UNREACHABLE = RpcError(code=-1, remark="connect to 10.0.0.9:10911 failed")
BEGIN = 300


def away(listed: bool | None, begin: float = BEGIN, end: float = 1e9) -> Change:
    """Let the second broker be away from `begin` until `end`, listed by the name server or not (None: not reported)."""

    def change(event: AnyEvent, at: float) -> AnyEvent | None:
        if not begin <= at < end:
            return event
        if isinstance(event, TopicRoute | ConsumerRunningInfo):
            return event if listed is True else _without(event)
        return _unanswered(event, listed) if event.broker == AWAY else event

    return change


def _without(event: TopicRoute | ConsumerRunningInfo) -> AnyEvent:
    """Return a route, or what a client has, without the broker."""
    if isinstance(event, TopicRoute):
        return changed(event, queues=tuple(q for q in event.queues or () if q.broker != AWAY))
    return changed(event, queues=tuple(row for q in event.queues or () for row in _left(q)))


def _unanswered(event: AnyEvent, listed: bool | None) -> AnyEvent | None:
    """Return what a collector reports of a broker that does not answer; its hook reports nothing."""
    if isinstance(event, BrokerStatus) and event.source == "poll":
        return changed(event, boot_time=None, now=0, error=UNREACHABLE, listed=listed)
    if isinstance(event, ConsumerConnection):
        return changed(event, connections=None, subscriptions=(), error=UNREACHABLE)
    return changed(event, queues=None, error=UNREACHABLE) if isinstance(event, ConsumeStats) else None


def _left(row: ProcessQueueInfo) -> list[ProcessQueueInfo]:
    """Return what a client has instead: the four queues of the first broker are divided by AVG, two for each client."""
    mq = row.mq
    if mq.is_retry or (mq.queue_id > 1) != (mq.broker == AWAY):
        return [row] if mq.is_retry and mq.broker != AWAY else []
    return [msgspec.structs.replace(row, mq=MessageQueue(mq.topic, "broker-a", mq.queue_id))]


def of_broker(conclusions: Concluded) -> list[tuple[str, str | None]]:
    """Return transition and resolution of BROKER_UNREACHABLE."""
    return [(t.transition, t.resolution) for t in conclusions.transitions("BROKER_UNREACHABLE")]


def folded(events: Iterable[AnyEvent], policy: Policy) -> tuple[Fold, list[IncidentTransition]]:
    fold = Fold(policy)
    return fold, [e for e in fold.all(events) if isinstance(e, IncidentTransition)]


@pytest.mark.parametrize("source", ["poll", "both"])
def test_a_broker_that_is_neither_listed_nor_reached_for_long_is_gone(source):
    conclusions = concluded_of(changed_events(CASE, source, away(listed=False)), SOON)
    assert of_broker(conclusions) == [("OPENED", None), ("RESOLVED", GONE)]
    [_, resolved] = conclusions.transitions("BROKER_UNREACHABLE")
    assert 120 <= conclusions.seconds(resolved) - BEGIN <= 145
    assert msgspec.json.decode(resolved.evidence)["unlisted_since"] >= conclusions.start + BEGIN * 1000
    if source == "poll":  # what the hook of the other broker reports was not changed
        assert {t.code for t in conclusions.open_at_end()} <= {"MESSAGES_STRANDED"}


@pytest.mark.parametrize("source", ["poll", "both"])
def test_a_gone_broker_is_forgotten_by_the_cluster_and_its_groups(source):
    fold, _ = folded(changed_events(CASE, source, away(listed=False)), SOON)
    [cluster] = fold.shard.timeline.state.clusters.values()
    assert (AWAY in cluster.brokers, AWAY in cluster.sources) == (False, False)
    [group] = fold.shard.timeline.groups()
    assert set(group.views) == {"broker-a"}
    ended = {queue.ended.why for mq, queue in group.queues.items() if mq.broker == AWAY and queue.ended is not None}
    assert ended == {"BROKER_GONE"}


@pytest.mark.parametrize("source", ["poll", "both"])
def test_a_broker_that_is_down_for_minutes_keeps_its_incident(source):
    """The near miss: the same telemetry, by the default of 24 hours."""
    found = concluded_of(changed_events(CASE, source, away(listed=False)))
    assert of_broker(found) == [("OPENED", None)]


def test_a_broker_that_is_listed_is_not_gone():
    """The near miss: it hangs, and the name server still lists it."""
    assert of_broker(concluded_of(changed_events(CASE, "poll", away(listed=True)), SOON)) == [("OPENED", None)]


def test_a_name_server_that_is_down_ends_nothing():
    """The near miss: the collector does not know whether it is listed."""
    assert of_broker(concluded_of(changed_events(CASE, "poll", away(listed=None)), SOON)) == [("OPENED", None)]


def test_a_broker_that_is_listed_again_in_between_begins_anew():
    changes = away(False, BEGIN, 400), away(True, 400, 420), away(False, 420)
    conclusions = concluded_of(changed_events(CASE, "poll", *changes), SOON)
    [opened, resolved] = conclusions.transitions("BROKER_UNREACHABLE")
    assert (opened.transition, resolved.resolution) == ("OPENED", GONE)
    assert conclusions.seconds(resolved) >= 420 + 120


def test_a_broker_that_is_back_in_time_is_resolved_as_usual():
    found = concluded_of(changed_events(CASE, "poll", away(False, BEGIN, 400)), SOON)
    assert of_broker(found) == [("OPENED", None), ("RESOLVED", None)]


def test_a_broker_that_comes_back_after_it_was_forgotten_is_watched_again():
    fold, transitions = folded(changed_events(CASE, "poll", away(False, BEGIN, 480)), SOON)
    assert [t.resolution for t in transitions if t.code == "BROKER_UNREACHABLE"] == [None, GONE]
    [group] = fold.shard.timeline.groups()
    assert set(group.views) == {"broker-a", AWAY}
    assert not [mq for mq, queue in group.queues.items() if mq.broker == AWAY and queue.ended is not None]


def test_a_broker_whose_hook_still_reports_is_not_gone():
    """The near miss: the collector's network is cut off from it, and the name server's, too."""
    kept = changed_events(CASE, "both")
    cut = changed_events(CASE, "both", away(listed=False))
    hook = [e for e in kept if e.source == "hook" and e.broker == AWAY]
    others = [e for e in cut if not (e.source == "hook" and e.broker == AWAY)]
    events = sorted([*others, *hook], key=lambda e: e.time)
    assert any(isinstance(e, Tick) and e.broker == AWAY for e in hook)
    found = concluded_of(events, SOON)
    assert GONE not in [r for _, r in of_broker(found)]
    assert len(found.effects) < 10_000


def test_a_collector_that_started_anew_no_longer_reports_a_gone_broker():
    """It has never found the broker listed; its predecessor reported it last."""

    def unreported(event: AnyEvent, at: float) -> AnyEvent | None:
        return None if event.broker == AWAY and at >= 350 else event

    found = concluded_of(changed_events(CASE, "poll", away(None, BEGIN, 350), unreported, away(None, 350)), SOON)
    assert of_broker(found) == [("OPENED", None), ("RESOLVED", GONE)]


def test_messages_in_a_gone_broker_are_a_warning_with_their_number():
    def behind(event: AnyEvent, at: float) -> AnyEvent:
        if not isinstance(event, ConsumeStats) or event.broker != AWAY or event.queues is None or at < 200:
            return event
        rows = (msgspec.structs.replace(q, consumer_offset=max(0, q.broker_offset - 50)) for q in event.queues)
        return changed(event, queues=tuple(rows))

    found = concluded_of(changed_events(CASE, "poll", behind, away(listed=False)), SOON)
    [stranded] = found.transitions("MESSAGES_STRANDED")
    assert (stranded.severity, stranded.sub_cause) == ("warning", "BROKER_GONE")
    assert msgspec.json.decode(stranded.evidence)["messages"] >= 50
