"""A broker that does not take the members' heartbeats: what follows is shown under that (issue 32, C and H)."""

from functools import lru_cache

import pytest

from rebalance_model.observe.events import HeartBeat
from simulation import scenario
from simulation.cluster import START
from tests.support.field import Concluded, changed, changed_events, concluded, concluded_of, events_of
from tests.support.folding import folded
from tests.support.simulated import simulate

A, B = "broker-a", "broker-b"
STALE, REFUSED, SPLIT, STUCK = "STALE_HEARTBEAT", "PULL_REFUSED", "CID_VIEW_SPLIT", "ORDERED_QUEUE_STUCK"
BOTH = ("hook", "both")


@lru_cache
def lacking(source: str, *, since: int = 0, until: int | None = None, ordered: bool = False, **group: int) -> Concluded:
    """Return what is concluded where broker-b lacks the group from a time on; seconds."""
    return of_steps(source, {"do": "delete-group", "broker": B}, since=since, until=until, ordered=ordered, **group)


def of_steps(
    source: str, *steps: dict, since: int, until: int | None, ordered: bool = False, **group: int
) -> Concluded:
    """Return what is concluded of a group on two brokers, to which the steps happen."""
    times = {"at": since} | ({"lasts": until - since} if until is not None else {})
    made = scenario.read(
        {
            "title": "two brokers",
            "minutes": 8,
            "brokers": [{"name": A}, {"name": B}],
            "topics": [{"name": "Orders", "queues": 2, "messages_per_second": 6}],
            "groups": [{"name": "g", "called": "c", "topics": ["Orders"], "ordered": ordered, "consumers": 1, **group}],
            "story": [{"group": "g", **times, **step} for step in steps],
        }
    )
    return Concluded(folded(simulate(made, hook=source != "poll", poll=source != "hook").events), START)


def roots(conclusions: Concluded) -> set[tuple[str, str]]:
    """Return code and sub-cause of the open incidents that no other explains."""
    return {
        (one.code, one.sub_cause) for one in conclusions.open_at_end() if one.parent is None and one.severity != "info"
    }


def codes_under(conclusions: Concluded, code: str) -> set[str]:
    """Return the codes of what the open incidents of a code explain."""
    ids = {one.incident_id for one in conclusions.open_at_end() if one.code == code}
    return {one.code for one in conclusions.open_at_end() if one.parent in ids}


@pytest.mark.parametrize("source", BOTH)
@pytest.mark.parametrize("consumers", [1, 2])
def test_a_group_that_one_broker_never_had_is_one_cause(source, consumers):
    conclusions = lacking(source, consumers=consumers)
    assert roots(conclusions) == {(STALE, "GROUP_NOT_CREATED")}
    assert codes_under(conclusions, STALE) == {REFUSED, SPLIT}
    assert {one.sub_cause for one in conclusions.transitions(REFUSED)} == {"GROUP_NOT_EXIST"}
    assert all(one.absorbed for one in conclusions.transitions(REFUSED, SPLIT)), "they send no alert of their own"


@pytest.mark.parametrize("source", BOTH)
def test_it_is_critical_as_soon_as_what_follows_is(source):
    found = lacking(source)
    first = found.transitions(REFUSED)[0]
    of_cause = [one for one in found.transitions(STALE) if one.time <= first.time + 1]  # judged right after
    assert of_cause[-1].severity == first.severity == "critical"


@pytest.mark.parametrize("source", BOTH)
def test_what_opened_before_its_cause_is_shown_under_it(source):
    """A group that is deleted while it consumes: pulls are refused at once, and members are dropped after 120 s."""
    conclusions = lacking(source, since=100, ordered=True, consumers=2)
    assert roots(conclusions) == {(STALE, "GROUP_NOT_CREATED")}
    assert codes_under(conclusions, STALE) == {REFUSED, SPLIT}
    assert codes_under(conclusions, REFUSED) >= {STUCK}
    assert {(one.sub_cause, one.absorbed) for one in conclusions.transitions(STUCK)} == {("PULL_REFUSED", False)}


def test_an_owner_whose_pulls_are_refused_is_not_unresponsive():
    """By hook its heartbeats are no longer counted; its pulls arrive."""
    found = lacking("hook", since=100)
    assert {one.sub_cause for one in found.transitions("QUEUE_STALLED")} == {"PULL_REFUSED"}


@pytest.mark.parametrize("source", BOTH)
def test_when_the_group_is_created_each_incident_ends_and_no_child_alerts(source):
    found = lacking(source, until=300, consumers=2)
    assert [one for one in found.open_at_end() if one.severity != "info"] == []
    assert {one.parent is None for one in found.transitions(REFUSED, SPLIT)} == {False}


def test_heartbeats_that_are_taken_again_leave_no_alert_of_refused_pulls():
    """The next pull after the heartbeat is served, up to 3 s later."""
    conclusions = of_steps("hook", {"do": "refuse-heartbeats"}, since=60, until=360, consumers=2)
    assert {one.sub_cause for one in conclusions.transitions(STALE)} == {"REFUSED"}
    assert conclusions.transitions(REFUSED) != []
    assert {one.parent is None for one in conclusions.transitions(REFUSED)} == {False}
    assert conclusions.open_at_end() == []


@pytest.mark.parametrize("source", BOTH)
def test_pulls_that_another_reason_refuses_are_a_cause_of_their_own(source):
    """A near miss: broker-a has the group, and its consumeEnable is false."""
    conclusions = of_steps(
        source, {"do": "delete-group", "broker": B}, {"do": "disable-consume", "at": 60}, since=0, until=None
    )
    of_a = [one for one in conclusions.open_at_end() if one.code == REFUSED and one.broker == A]
    assert {(one.parent, one.sub_cause) for one in of_a if one.severity == "critical"} == {(None, "NO_PERMISSION")}


def test_refused_pulls_of_a_client_whose_heartbeats_are_taken_are_a_cause():
    """A near miss: code 26, and the member is listed."""
    events = [
        changed(one, code=26) if getattr(one, "code", None) == 16 else one
        for one in events_of("03-pull-refused", "hook")
    ]
    assert roots(concluded_of(events)) == {(REFUSED, "GROUP_NOT_EXIST")}


def test_pulls_of_a_dropped_client_are_refused_because_of_its_heartbeats():
    found = concluded("02-acl-heartbeat", "hook")
    assert roots(found) == {(STALE, "REFUSED")}
    assert codes_under(found, STALE) == {REFUSED}


@pytest.mark.parametrize("code", [2, 16])
def test_it_is_the_same_with_another_code_of_the_refusal(code):
    def refused(event, second):
        return changed(event, code=code) if isinstance(event, HeartBeat) and second >= 100 else event

    assert roots(concluded_of(changed_events("02-acl-heartbeat", "hook", refused))) == {(STALE, "REFUSED")}
