"""A subscribed topic that the cluster does not have: of another cluster, or with a wrong name (issue 32, G)."""

import msgspec
import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import (
    DEADLINE,
    UNREACHABLE,
    AnyEvent,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    RpcError,
    TopicRoute,
)
from tests.support import field
from tests.support.field import Change, Concluded, changed, concluded, concluded_of

CASE, TOPIC = "10-no-route", "Uat-Orders"
CODE = "TOPIC_NOT_FOUND"


def concluded_with(*changes: Change, case: str = CASE, source: str = "poll") -> Concluded:
    """Return what is concluded of a case with changes."""
    return concluded_of(field.changed_events(case, source, *changes))


def answered(code: int | None, begin: float, end: float = 600, topic: str = TOPIC) -> Change:
    """Let the name server answer with another error for a time, or (None) with a queue."""

    def change(event: AnyEvent, at: float) -> AnyEvent:
        if not isinstance(event, TopicRoute) or event.topic != topic or not begin <= at < end:
            return event
        if code is not None:
            return changed(event, error=RpcError(code=code), queues=None)
        return changed(event, error=None, queues=(MessageQueue(topic, "broker-a", 0),))

    return change


def renamed(begin: float, *client_ids: str) -> Change:
    """Let members, and the broker if none is named, no longer subscribe the topic from a time on."""

    def change(event: AnyEvent, at: float) -> AnyEvent:
        of_member = isinstance(event, ConsumerRunningInfo) and (not client_ids or event.client_id in client_ids)
        if at < begin or not (of_member or (isinstance(event, ConsumerConnection) and not client_ids)):
            return event
        return changed(event, subscriptions=tuple(s for s in event.subscriptions if s.topic != TOPIC))

    return change


def of_retry_topic(event: AnyEvent, _: float) -> AnyEvent:
    """Let the answer be about the retry topic: it exists from the first message on that is to be tried again."""
    is_missing = isinstance(event, TopicRoute) and event.topic == TOPIC
    return changed(event, topic="%RETRY%orders-group") if is_missing else event


def not_found(conclusions: Concluded) -> list[str]:
    """Return the transitions of TOPIC_NOT_FOUND."""
    return [one.transition for one in conclusions.transitions(CODE)]


@pytest.mark.parametrize("source", ["poll", "both"])
def test_a_topic_of_another_cluster_is_one_warning_that_names_it(source):
    """rocketmq-spring#268: the members were told other name servers than they were meant to use."""
    conclusions = concluded(CASE, source)
    [incident] = [one for one in conclusions.open_at_end() if one.severity != "info"]
    assert (incident.code, incident.severity, incident.parent) == (CODE, "warning", None)
    assert (incident.opened_at - conclusions.start) / 1000 == pytest.approx(160, abs=2)
    evidence = msgspec.json.decode(incident.evidence)
    assert (evidence["topics"], evidence["subscribers"]) == (TOPIC, "10.0.0.1@c1, 10.0.0.2@c2")
    assert conclusions.group().health == "WARN"


def test_members_that_do_not_report_are_judged_by_the_brokers_table():
    """client-python#94: such a client answers no GET_CONSUMER_RUNNING_INFO."""

    def unsupported(event: AnyEvent, _: float) -> AnyEvent:
        if not isinstance(event, ConsumerRunningInfo):
            return event
        return changed(event, error=RpcError(code=3), properties={}, subscriptions=(), queues=None)

    found = concluded_with(unsupported)
    assert not_found(found) == ["OPENED"]
    assert msgspec.json.decode(found.transitions(CODE)[0].evidence)["subscribers"] is None


@pytest.mark.parametrize("code", [UNREACHABLE, DEADLINE, 1])
def test_name_servers_that_do_not_answer_are_no_missing_route(code):
    assert concluded_with(answered(code, 0)).transitions(CODE) == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(answered(None, 100), id="created-in-time"),
        pytest.param(renamed(100), id="rolled-back-in-time"),
        pytest.param(of_retry_topic, id="retry-topic"),
    ],
)
def test_a_topic_without_a_route_for_a_short_time_is_quiet(change):
    assert concluded_with(change).transitions(CODE) == []


@pytest.mark.parametrize("change", [answered(None, 300), renamed(300)], ids=["created", "unsubscribed"])
def test_a_topic_that_is_created_or_no_longer_subscribed_is_resolved(change):
    assert not_found(concluded_with(change)) == ["OPENED", "RESOLVED"]


def test_without_answers_it_is_not_resolved():
    """The collector ends: nothing shows that the topic has a route now."""

    def ended(event: AnyEvent, at: float) -> AnyEvent | None:
        return event if event.source != "poll" or at < 300 else None

    assert not_found(concluded_with(ended, source="both")) == ["OPENED"]


def test_members_that_also_differ_explain_it():
    """One member alone subscribes the topic: the difference is the graver fault."""
    found = concluded_with(renamed(0, "10.0.0.2@c2"))
    [differing] = found.transitions("SUBSCRIPTION_INCONSISTENT")
    [one] = found.transitions(CODE)
    assert (differing.sub_cause, one.parent) == ("TOPIC_SET", differing.incident_id)
    assert msgspec.json.decode(one.evidence)["subscribers"] == "10.0.0.1@c1"


def deleted(end: float = 900) -> tuple[Change, Change]:
    """Let "Orders" be deleted at 200 s, and created again at `end`."""

    def left_out(event: AnyEvent, at: float) -> AnyEvent:
        if not isinstance(event, ConsumeStats) or not 200 <= at < end:
            return event
        return changed(event, queues=tuple(row for row in event.queues or () if row.mq.is_retry))

    return answered(17, 200, end, topic="Orders"), left_out


@pytest.mark.parametrize("case", ["01-queues-removed", "01b-queues-removed-lag"])
def test_a_topic_that_was_deleted_while_members_subscribe_it_is_told(case):
    """Polls see no refused pull: the members look as they did, and receive nothing."""
    conclusions = concluded_with(*deleted(), case=case)
    [opened] = conclusions.transitions(CODE)
    assert (opened.transition, opened.sub_cause, opened.severity) == ("OPENED", "DELETED", "warning")
    assert opened.parent is None
    assert msgspec.json.decode(opened.evidence)["topics"] == "Orders"
    assert (opened.opened_at - conclusions.start) / 1000 == pytest.approx(425, abs=15)  # 60 s until it counts, then 160
    assert conclusions.group().health == "WARN"
    assert conclusions.queues()["Orders@broker-a:0"].status_reason == "the topic no longer exists"


def moved(begin: float) -> Change:
    """Let the members subscribe another topic instead from a time on."""

    def change(event: AnyEvent, at: float) -> AnyEvent:
        if at < begin or not isinstance(event, ConsumerRunningInfo | ConsumerConnection):
            return event
        renamed = (changed(s, topic="Sales") if s.topic == "Orders" else s for s in event.subscriptions)
        return changed(event, subscriptions=tuple(renamed))

    return change


@pytest.mark.parametrize("ends", [deleted(500), (*deleted(), moved(500))], ids=["created", "left"])
def test_a_deleted_topic_that_is_created_or_left_is_resolved(ends):
    assert not_found(concluded_with(*ends, case="01-queues-removed")) == ["OPENED", "RESOLVED"]


@pytest.mark.parametrize("ends", [deleted(380), (*deleted(), moved(230))], ids=["created-soon", "left-at-once"])
def test_a_deleted_topic_that_is_soon_created_or_left_is_quiet(ends):
    assert not_found(concluded_with(*ends, case="01-queues-removed")) == []


@pytest.mark.parametrize("source", ["poll", "both"])
def test_a_wrong_name_in_a_release_is_told_with_the_messages_it_strands(source):
    """Case 25: the members left "Orders" for "Order", which no cluster has."""
    found = concluded("25-topic-no-longer-subscribed", source)
    [stranded] = found.transitions("MESSAGES_STRANDED")
    [one] = found.transitions(CODE)
    assert (one.transition, one.parent) == ("OPENED", stranded.incident_id)
    assert msgspec.json.decode(one.evidence)["topics"] == "Order"
