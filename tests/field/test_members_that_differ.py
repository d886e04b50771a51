"""Members that differ from their group, and a broker that filters by what nobody declares any more (issue 32, E)."""

import json

import pytest

from rebalance_model.observe.events import ConsumerConnection, ConsumerRunningInfo, HeartBeat
from tests.support.field import SOURCES, changed, concluded, concluded_of, events_of

PULLER, FROZEN = "24-pull-client-in-push-group", "20-frozen-subscription"
STRANGER = "10.0.0.9@4711"


def with_table(events, change):
    """Return the events with other subscriptions of Orders in the brokers' tables."""
    return [
        changed(one, subscriptions=tuple(change(one, s) if s.topic == "Orders" else s for s in one.subscriptions))
        if isinstance(one, ConsumerConnection)
        else one
        for one in events
    ]


@pytest.mark.parametrize("source", SOURCES)
def test_a_pull_client_that_subscribes_nothing_is_the_one_cause(source):
    conclusions = concluded(PULLER, source)
    named = conclusions.transitions("MIXED_MEMBERS")
    assert (named[-1].sub_cause, named[-1].severity, named[-1].client_id) == (
        "SUBSCRIBES_NOTHING",
        "critical",
        STRANGER,
    )
    assert conclusions.seconds(named[0]) < 220
    assert {one.code for one in conclusions.open_at_end() if one.parent is None} == {"MIXED_MEMBERS"}
    assert conclusions.group().health == "BAD"


@pytest.mark.parametrize("source", SOURCES)
def test_a_pull_client_that_leaves_is_forgotten(source):
    events = events_of(PULLER, source)
    left = events[0].time + 400_000

    def without(event):
        if isinstance(event, ConsumerConnection) and event.time > left:
            return changed(event, connections=tuple(c for c in event.connections if c.client_id != STRANGER))
        return event

    kept = [without(one) for one in events if one.time < left or getattr(one, "client_id", "") != STRANGER]
    found = concluded_of(kept)
    assert [one.code for one in found.open_at_end() if one.code == "MIXED_MEMBERS"] == []
    assert [one.transition for one in found.transitions("MIXED_MEMBERS")][-1] == "RESOLVED"


@pytest.mark.parametrize("source", ["hook", "both"])
def test_a_push_consumer_whose_heartbeat_has_no_subscriptions_is_named(source):
    """It differs by nothing else: a consumer that was started before its subscriptions were made."""

    def pushes(event):
        if getattr(event, "client_id", "") != STRANGER:
            return event
        if isinstance(event, HeartBeat):
            return changed(event, consume_type="CONSUME_PASSIVELY")
        if isinstance(event, ConsumerRunningInfo):
            return changed(event, properties=event.properties | {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"})
        return event

    found = concluded_of(map(pushes, events_of(PULLER, source)))
    assert {(one.sub_cause, one.client_id) for one in found.transitions("MIXED_MEMBERS")} == {
        ("SUBSCRIBES_NOTHING", STRANGER)
    }


@pytest.mark.parametrize("source", ["poll", "both"])
def test_a_broker_that_filters_by_an_old_subscription_is_critical(source):
    found = concluded(FROZEN, source)
    [named] = found.transitions()
    assert (named.code, named.sub_cause, named.severity) == ("SUBSCRIPTION_INCONSISTENT", "BROKER_OUTDATED", "critical")
    evidence = json.loads(named.evidence)
    assert (evidence["broker_filters_by"], evidence["members_declare"]) == ("TAG TagA", "TAG TagA || TagB")
    assert "all members" in named.first_step


def test_a_hook_that_was_told_of_the_old_subscription_shows_it_alone():
    """One client declares TagA with a version in the future, and leaves; the others declare both tags."""
    events = events_of(FROZEN, "hook")
    first = next(one for one in events if isinstance(one, HeartBeat))
    old = tuple(
        changed(s, sub_string="TagA", sub_version=s.sub_version + 7_200_000) if s.topic == "Orders" else s
        for s in first.subscriptions
    )
    found = concluded_of(changed(one, subscriptions=old) if one is first else one for one in events)
    assert [(one.code, one.sub_cause) for one in found.transitions()] == [
        ("SUBSCRIPTION_INCONSISTENT", "BROKER_OUTDATED")
    ]


def test_a_broker_that_follows_the_members_is_a_near_miss():
    """The old subscription is seen for two minutes, as while members are replaced one after the other."""

    def followed(event, subscription):
        late = event.time > events[0].time + 120_000
        return changed(subscription, sub_string="TagA || TagB") if late else subscription

    events = events_of(FROZEN, "poll")
    assert concluded_of(with_table(events, followed)).transitions() == []


def test_the_same_tags_in_another_order_are_a_near_miss():
    def reordered(_, subscription):
        return changed(subscription, sub_string="TagB||TagA")

    assert concluded_of(with_table(events_of(FROZEN, "poll"), reordered)).transitions() == []


def test_it_is_resolved_once_the_broker_has_the_members_subscription():
    def restarted(event, subscription):
        late = event.time > events[0].time + 300_000
        return changed(subscription, sub_string="TagA || TagB") if late else subscription

    events = events_of(FROZEN, "poll")
    found = concluded_of(with_table(events, restarted))
    assert [one.transition for one in found.transitions()] == ["OPENED", "RESOLVED"]


def test_a_table_that_cannot_be_read_is_a_near_miss():
    def unreadable(_, subscription):
        return changed(subscription, sub_string=None)

    assert concluded_of(with_table(events_of(FROZEN, "poll"), unreadable)).transitions() == []
