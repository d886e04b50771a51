"""One cause, one incident: what a cause leads to is shown under it (issue 32, H)."""

import pytest

from rebalance_model.observe.events import ConsumerConnection, ConsumerRunningInfo
from tests.support.field import SOURCES, changed, changed_events, concluded, concluded_of, events_of

TWINS, SPLIT = "21-same-id", "07-ns-split"


def roots(conclusions):
    """Return the codes of the incidents open at the end that no other one explains; duplicates are an info."""
    return {one.code for one in conclusions.open_at_end() if one.parent is None} - {"DUPLICATE_CONSUMPTION"}


def codes_under(conclusions, code):
    """Return the codes of what the open incidents of a code explain."""
    ids = {one.incident_id for one in conclusions.open_at_end() if one.code == code}
    return {one.code for one in conclusions.open_at_end() if one.parent in ids}


@pytest.mark.parametrize("source", SOURCES)
def test_two_processes_with_one_client_id_are_the_only_cause(source):
    conclusions = concluded(TWINS, source)
    assert roots(conclusions) == {"CLIENT_ID_COLLISION"}
    assert conclusions.group().health == "BAD"
    if source != "hook":
        assert codes_under(conclusions, "CLIENT_ID_COLLISION") == {"QUEUE_UNASSIGNED"}


def test_what_a_collision_explained_is_resolved_with_it():
    """The second process ends after 400 s: the broker lists one channel again, and its clients the others' shares."""
    events = events_of(TWINS, "poll")
    late = events[0].time + 400_000

    def once(event):
        if not isinstance(event, ConsumerConnection) or event.time < late:
            return event
        kept = {connection.client_id: connection for connection in event.connections}
        return changed(event, connections=tuple(kept.values()))

    found = concluded_of(map(once, events))
    assert [one.transition for one in found.transitions("CLIENT_ID_COLLISION")] == ["OPENED", "RESOLVED"]


def test_a_stall_of_an_unassigned_queue_is_shown_under_it():
    """The second client has none of the queues that it should have."""

    def without(event, second):
        if not isinstance(event, ConsumerRunningInfo) or event.client_id != "10.0.0.2@c2" or second < 200:
            return event
        return changed(event, queues=tuple(one for one in event.queues if one.mq.is_retry))

    found = concluded_of(changed_events(SPLIT, "poll", without))
    assert "QUEUE_STALLED" in codes_under(found, "QUEUE_UNASSIGNED")
    assert "QUEUE_STALLED" not in roots(found)


def test_a_stall_of_a_queue_with_an_owner_is_its_own_cause():
    """A near miss: another queue is unassigned."""
    found = concluded("12-thread-pool", "poll")
    assert roots(found) == {"QUEUE_STALLED"}
