"""Heartbeats that the broker refuses, or accepts without registering the group (issue 32, C)."""

import json

import pytest

from rebalance_model.observe.events import AnyEvent, GetConsumerListByGroup, HeartBeat
from tests.support.field import Concluded, changed, concluded, concluded_of, events_of

CLIENTS = ["10.0.0.1@c1", "10.0.0.2@c2"]


def stale(conclusions: Concluded) -> list[tuple[str, str, str]]:
    """Return transition, sub-cause and client of each transition of STALE_HEARTBEAT."""
    return [(one.transition, one.sub_cause, one.subject) for one in conclusions.transitions("STALE_HEARTBEAT")]


def after(events: list[AnyEvent], seconds: float, kind: type, **fields: object) -> list[AnyEvent]:
    """Return the events with other values in those of a kind from a time on."""
    begin = events[0].time + seconds * 1000
    return [changed(one, **fields) if isinstance(one, kind) and one.time >= begin else one for one in events]


@pytest.mark.parametrize("source", ["hook", "both"])
def test_refused_heartbeats_are_named_from_the_first_one(source):
    conclusions = concluded("02-acl-heartbeat", source)
    opened = [one for one in conclusions.transitions("STALE_HEARTBEAT") if one.transition == "OPENED"]
    assert [(one.subject, one.sub_cause, one.severity) for one in opened] == [
        (client, "REFUSED", "warning") for client in CLIENTS
    ]
    assert all(conclusions.seconds(one) < 124 for one in opened)
    evidence = json.loads(opened[0].evidence)
    assert (evidence["broker"], evidence["code"], evidence["refused"]) == ("broker-a", 1, 1)
    assert {one.severity for one in conclusions.open_at_end() if one.code == "STALE_HEARTBEAT"} == {"critical"}


def test_a_group_whose_heartbeats_are_refused_says_why_it_has_no_clients():
    found = concluded("02-acl-heartbeat", "both")
    assert {one.sub_cause for one in found.transitions("NO_ACTIVE_CLIENTS_WITH_LAG")} == {"HEARTBEATS_REFUSED"}
    roots = {one.code for one in found.open_at_end() if one.parent is None}
    assert roots == {"STALE_HEARTBEAT"}


def test_heartbeats_that_are_taken_again_resolve_it():
    found = concluded_of(after(events_of("02-acl-heartbeat", "hook"), 200, HeartBeat, code=0))
    assert [one for one in stale(found) if one[0] == "RESOLVED"] == [
        ("RESOLVED", "REFUSED", client) for client in CLIENTS
    ]


@pytest.mark.parametrize("code", [2, 16])
def test_heartbeats_with_another_error_are_refused(code):
    found = concluded_of(after(events_of("02-acl-heartbeat", "hook"), 100, HeartBeat, code=code))
    assert {cause for _, cause, _ in stale(found)} == {"REFUSED"}


def test_refused_heartbeats_that_end_are_no_incident_of_a_client_that_left():
    events = events_of("02-acl-heartbeat", "hook")
    end = events[0].time + 300_000
    found = concluded_of([one for one in events if not isinstance(one, HeartBeat) or one.time < end])
    assert [one.code for one in found.open_at_end() if one.code == "STALE_HEARTBEAT"] == []


@pytest.mark.parametrize("source", ["hook", "both"])
def test_a_group_that_was_not_created_is_no_storm(source):
    conclusions = concluded("22-group-not-created", source)
    assert conclusions.transitions("REBALANCE_STORM") == []
    assert {(one.code, one.sub_cause, one.severity, one.subject) for one in conclusions.open_at_end()} == {
        ("STALE_HEARTBEAT", "GROUP_NOT_CREATED", "critical", client) for client in CLIENTS
    }
    assert conclusions.group().health == "BAD"


def test_a_group_that_is_created_later_is_registered():
    events = events_of("22-group-not-created", "hook")
    listed = after(events, 300, GetConsumerListByGroup, code=0, consumer_ids=tuple(CLIENTS))
    found = concluded_of(listed)
    assert found.open_at_end() == []
    assert list(found.group().members) == CLIENTS


def test_an_empty_list_before_the_first_heartbeat_is_as_usual():
    """A client's first rebalance may come before its first heartbeat, or a group has no member yet."""
    events = after(events_of("22-group-not-created", "hook"), 15, GetConsumerListByGroup, code=0)
    begin = events[0].time + 10_000
    found = concluded_of([one for one in events if not isinstance(one, HeartBeat) or one.time > begin])
    assert stale(found) == []
