"""A frozen client is one incident: what becomes of its queues is shown under it, and a stuck ordered queue alerts."""

from functools import lru_cache

import pytest

from rebalance_model.observe.effects import GroupSnapshot, IncidentTransition
from simulation.cluster import START
from tests.support.field import SOURCES
from tests.support.folding import folded
from tests.support.simulated import simulate, small

FREEZE = {"do": "freeze", "who": "c-3", "at": 60, "lasts": 160}
CAUSE = {"poll": "CLIENT_UNRESPONSIVE", "hook": "STALE_HEARTBEAT", "both": "CLIENT_UNRESPONSIVE"}
CONCURRENT = {"groups": [{"name": "g", "called": "c", "topics": ["Orders"], "ordered": False, "consumers": 3}]}


@lru_cache
def effects(source, kind="ordered", *, until=300.0):
    scenario = {
        "ordered": lambda: small(FREEZE),
        "concurrent": lambda: small(FREEZE, **CONCURRENT),
        "hung": lambda: small({"do": "hang", "who": "c-3", "at": 60, "lasts": 200}),
    }[kind]()
    events = simulate(scenario, until=until).events
    return folded([one for one in events if source == "both" or one.source_id.startswith(source)])


def open_at(rows, seconds):
    """Return the last transition of each incident that is open then, without infos."""
    last = {
        one.incident_id: one
        for one in rows
        if isinstance(one, IncidentTransition) and one.time <= START + seconds * 1000
    }
    return [one for one in last.values() if one.transition != "RESOLVED" and one.severity != "info"]


def health_at(rows, seconds):
    groups = [one for one in rows if isinstance(one, GroupSnapshot) and one.time <= START + seconds * 1000]
    return groups[-1].health, groups[-1].health_reason


@pytest.mark.parametrize("kind", ["ordered", "concurrent"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("seconds", [110, 130, 150])
def test_a_frozen_client_is_the_only_cause(source, kind, seconds):
    open_then = open_at(effects(source, kind), seconds)
    assert {one.code for one in open_then if one.parent is None} == {CAUSE[source]}


@pytest.mark.parametrize("source", SOURCES)
def test_its_severity_is_that_of_what_it_leads_to(source):
    rows = effects(source)
    (cause,) = [one for one in open_at(rows, 150) if one.parent is None]
    assert cause.severity == "critical"
    assert health_at(rows, 150) == ("BAD", CAUSE[source])
    (cause,) = [one for one in open_at(rows, 100) if one.parent is None]
    assert (cause.severity, health_at(rows, 100)) == ("warning", ("WARN", CAUSE[source]))


@pytest.mark.parametrize("source", SOURCES)
def test_its_stuck_queue_has_an_alert_of_its_own_its_expired_lock_has_none(source):
    absorbed = {(one.code, one.is_absorbed) for one in open_at(effects(source), 150) if one.parent is not None}
    assert absorbed >= {("ORDERED_QUEUE_STUCK", False), ("LOCK_EXPIRED", True)}
    assert ("ORDERED_QUEUE_STUCK", True) not in absorbed


@pytest.mark.parametrize("source", SOURCES)
def test_what_it_explained_ends_with_it(source):
    """The broker drops the client after 120 to 130 s, and another one takes the queues."""
    rows = effects(source)
    assert open_at(rows, 200) == []
    assert health_at(rows, 200) == ("OK", "")


def test_a_stuck_queue_that_outlasts_the_client_sends_no_second_alert():
    """It had its alert, and stays under its client, whose incident waits until it recovers."""
    stuck = [one for one in effects("poll") if isinstance(one, IncidentTransition) and one.subject.endswith(":7")]
    stuck = [one for one in stuck if one.code == "ORDERED_QUEUE_STUCK" and one.time < START + 200_000]
    assert [(one.transition, one.sub_cause, one.parent is not None) for one in stuck] == [
        ("OPENED", "OWNER_UNRESPONSIVE", True),
        ("RECLASSIFIED", "UNASSIGNED", True),
        ("RESOLVED", "UNASSIGNED", True),
    ]


@pytest.mark.parametrize("source", SOURCES)
def test_a_hung_listener_is_a_cause_of_its_own(source):
    """A near miss: its client answers, and sends heartbeats."""
    open_then = open_at(effects(source, "hung"), 200)
    assert {one.code for one in open_then if one.parent is None} == {"ORDERED_QUEUE_STUCK"}


def test_a_hung_queue_is_not_explained_by_heartbeats_missed_elsewhere():
    """A near miss: the client is cut off from broker-a, and its listener hangs on a queue of broker-b."""
    brokers = [{"name": "broker-a"}, {"name": "broker-b"}]
    cut = {"do": "partition", "who": "c-3", "broker": "broker-a", "at": 60, "lasts": 200}
    hang = {"do": "hang", "who": "c-3", "at": 50, "lasts": 200}
    events = simulate(small(cut, hang, brokers=brokers), until=180).events
    rows = folded([one for one in events if one.source_id.startswith("hook")])
    causes = {one.incident_id: one.code for one in open_at(rows, 150)}
    under = {(one.broker, causes.get(one.parent)) for one in open_at(rows, 150) if one.code == "ORDERED_QUEUE_STUCK"}
    assert ("broker-b", "STALE_HEARTBEAT") not in under
    assert ("broker-b", None) in under
