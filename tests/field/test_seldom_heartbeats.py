"""A client that sends its heartbeats so seldom that the broker drops it in between (issue 49, A5)."""

import json

import pytest

from rebalance_model.observe.events import HeartBeat, PullMessage, Tick
from tests.support.field import changed, changed_events, concluded, concluded_of, events_of, numbered

SELDOM = "47-heartbeat-interval-ten-minutes"
CLIENTS = {"10.0.0.1@c1", "10.0.0.2@c2"}
BY_HOOK = ["hook", "both"]


def too_seldom(conclusions):
    """Return the transitions of STALE_HEARTBEAT with the sub-cause TOO_SELDOM."""
    return [one for one in conclusions.transitions("STALE_HEARTBEAT") if one.sub_cause == "TOO_SELDOM"]


def in_time(event, seconds):
    """Return the heartbeats since 1,200 s again each half a minute, and the last ticks for as long, until 2,000 s."""
    if isinstance(event, HeartBeat) and seconds > 1_200:
        return [changed(event, time=event.time + 30_000 * n) for n in range(26)]
    if isinstance(event, Tick) and seconds > 1_400:
        return [event, changed(event, time=event.time + 600_000)]
    return [event]


@pytest.mark.parametrize("source", BY_HOOK)
def test_heartbeats_that_come_too_seldom_are_one_root(source):
    """From the second one on; before, the client may have been frozen or cut off."""
    conclusions = concluded(SELDOM, source)
    opened = too_seldom(conclusions)
    assert [one.transition for one in opened] == ["OPENED", "OPENED"]
    assert {one.subject for one in opened} == CLIENTS
    assert json.loads(opened[0].evidence)["interval_ms"] == 600_000
    assert "heartbeatBrokerInterval" in opened[0].first_step
    after = [one for one in conclusions.transitions() if conclusions.seconds(one) > 620]
    opened_after = [one for one in after if one.transition == "OPENED"]
    assert {one.code for one in opened_after if one.parent is None} == set()
    assert {one.code for one in conclusions.open_at_end() if one.parent is None} <= {
        "STALE_HEARTBEAT",
        "NO_ACTIVE_CLIENTS_WITH_LAG",
    }


def test_heartbeats_that_come_in_time_again_end_it():
    events = events_of(SELDOM, "hook")
    start = events[0].time
    conclusions = concluded_of(
        numbered([one for event in events for one in in_time(event, (event.time - start) / 1000)])
    )
    resolved = [one for one in too_seldom(conclusions) if one.transition == "RESOLVED"]
    assert {one.subject for one in resolved} == CLIENTS
    assert all(1_230 < conclusions.seconds(one) < 1_285 for one in resolved)


def test_a_client_that_pulls_nothing_meanwhile_was_frozen():
    """A near miss: nothing was refused, so it may have been stopped for ten minutes."""

    def frozen(event, seconds):
        is_refused = isinstance(event, PullMessage) and event.code == 24 and seconds < 590
        return None if is_refused else event

    conclusions = concluded_of(changed_events(SELDOM, "hook", frozen))
    assert min(conclusions.seconds(one) for one in too_seldom(conclusions)) > 1_200


def test_a_batch_that_takes_minutes_is_one_incident_that_stays():
    """By a hook alone, which sees no consumeTimeout: it comes back, and then stays open."""
    conclusions = concluded("49-listener-may-take-an-hour", "hook").transitions("QUEUE_STALLED")
    of_one = [one.transition for one in conclusions if one.subject == "Orders@broker-a:0"]
    assert of_one == ["OPENED", "RESOLVED", "OPENED"]
