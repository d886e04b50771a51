"""Members that differ, or that a broker does not list, are the one alert; what follows is under it (issue 49, A10)."""

import pytest

from rebalance_model.observe.events import ConsumerConnection, ConsumerRunningInfo, ConsumeStats
from tests.support.field import SOURCES, changed, changed_events, concluded, concluded_of, events_of

TOPICS, UNREACHABLE, NO_BROKER = (
    "31-two-topics-one-group",
    "17-broker-unreachable-for-clients",
    "46-go-no-broker-found",
)


def roots(conclusions):
    """Return the codes and subjects of the incidents that were ever open and that no other one explains at the end."""
    last = {one.incident_id: one for one in conclusions.transitions()}
    return [(one.code, one.subject) for one in last.values() if one.parent is None]


def explained(conclusions, code):
    """Return the codes and subjects of what the open incident of a code explains."""
    [parent] = [one.incident_id for one in conclusions.open_at_end() if one.code == code]
    return {(one.code, one.subject) for one in conclusions.open_at_end() if one.parent == parent}


@pytest.mark.parametrize("source", SOURCES)
def test_members_of_two_topics_are_one_cause(source):
    conclusions = concluded(TOPICS, source)
    code = "SUBSCRIPTION_INCONSISTENT" if source == "poll" else "REBALANCE_STORM"
    assert [one for one, _ in roots(conclusions)] == [code]
    if source == "poll":
        left = {"test1@broker-a:2", "test1@broker-a:3", "test2@broker-a:0", "test2@broker-a:1"}
        assert explained(conclusions, code) == {("QUEUE_UNASSIGNED", subject) for subject in left}
    assert conclusions.group().health == "BAD"


@pytest.mark.parametrize("source", ["poll", "both"])
@pytest.mark.parametrize(("name", "code"), [(UNREACHABLE, "QUEUE_UNASSIGNED"), (NO_BROKER, "QUEUE_STALLED")])
def test_a_broker_that_no_client_reaches_is_one_cause(name, code, source):
    conclusions = concluded(name, source)
    assert roots(conclusions) == [("CID_VIEW_SPLIT", "")]
    assert explained(conclusions, "CID_VIEW_SPLIT") == {(code, f"Orders@broker-b:{queue_id}") for queue_id in range(4)}


def ordered(event, _):
    """Return the event as it is where the group consumes in order, and has committed something of each queue."""
    if isinstance(event, ConsumerRunningInfo) and event.queues is not None:
        locked = tuple(changed(one, locked=True, lock_time=one.pull_time) for one in event.queues)
        return changed(event, orderly=True, queues=locked)
    if isinstance(event, ConsumeStats) and event.queues is not None:
        some = (
            changed(one, consumer_offset=min(max(1, one.consumer_offset), one.broker_offset)) for one in event.queues
        )
        return changed(event, queues=tuple(some))
    return event


def alerts(conclusions):
    """Return code, subject and severity of what is sent: incidents as they open or rise, and are not absorbed."""
    sent = (one for one in conclusions.transitions() if one.transition in ("OPENED", "ESCALATED") and not one.absorbed)
    return [(one.code, one.subject, one.severity) for one in sent]


@pytest.mark.parametrize("name", [UNREACHABLE, NO_BROKER])
def test_stuck_ordered_queues_that_a_broker_explains_are_one_alert(name):
    conclusions = concluded_of(changed_events(name, "poll", ordered))
    assert roots(conclusions) == [("CID_VIEW_SPLIT", "")]
    stuck = {("ORDERED_QUEUE_STUCK", f"Orders@broker-b:{queue_id}") for queue_id in range(4)}
    assert explained(conclusions, "CID_VIEW_SPLIT") >= stuck
    assert alerts(conclusions) == [("CID_VIEW_SPLIT", "", "warning"), ("CID_VIEW_SPLIT", "", "critical")]


def test_stuck_ordered_queues_of_members_of_two_topics_are_under_that():
    """They are stuck before the difference is one: members may differ for 150 s, as in a rolling upgrade."""
    conclusions = concluded_of(changed_events(TOPICS, "poll", ordered))
    code = "SUBSCRIPTION_INCONSISTENT"
    assert roots(conclusions) == [(code, "")]
    stuck = {(one.code, one.subject) for one in conclusions.transitions("ORDERED_QUEUE_STUCK")}
    assert stuck == {("ORDERED_QUEUE_STUCK", f"test2@broker-a:{queue_id}") for queue_id in range(2)}
    assert stuck <= explained(conclusions, code)
    assert {one.absorbed for one in conclusions.open_at_end() if one.code == "ORDERED_QUEUE_STUCK"} == {True}
    [*before, last] = alerts(conclusions)
    assert {(one, subject) for one, subject, _ in before} == stuck
    assert last == (code, "", "critical")


@pytest.mark.parametrize("name", [TOPICS, UNREACHABLE, NO_BROKER])
def test_members_that_follow_their_own_view_have_not_stalled(name):
    """Polls show shares by the list and the subscriptions of each member: nobody is to move a queue."""
    for conclusions in (concluded(name, "poll"), concluded_of(changed_events(name, "poll", ordered))):
        assert conclusions.transitions("REBALANCE_STALLED") == []


@pytest.mark.parametrize("name", [UNREACHABLE, NO_BROKER])
def test_a_hook_can_not_know_queues_that_no_client_reaches(name):
    """The broker's hook sees nothing of the group, and so none of its queues there is shown, as OK or otherwise."""
    conclusions = concluded(name, "hook")
    assert conclusions.transitions() == []
    assert not any("@broker-b:" in queue for queue in conclusions.queues())


def test_a_stall_at_a_broker_that_lists_its_owner_is_its_own():
    """A near miss: the broker lists the owner, and not the other member."""
    owner = concluded(NO_BROKER, "poll").transitions("QUEUE_STALLED")[0].client_id
    lists = [one for one in events_of(NO_BROKER, "poll") if isinstance(one, ConsumerConnection) and one.connections]
    owners = tuple(one for one in lists[0].connections if one.client_id == owner)

    def lists_owner(event, _):
        is_list = isinstance(event, ConsumerConnection) and event.broker == "broker-b"
        return changed(event, connections=owners, error=None) if is_list else event

    found = concluded_of(changed_events(NO_BROKER, "poll", lists_owner))
    assert {"CID_VIEW_SPLIT", "QUEUE_STALLED"} <= {code for code, _ in roots(found)}


def heals(name, source, at, taken_after):
    """Return what is concluded if all clients reach the broker from a time on, and take its queues so much later."""
    lists = [one for one in events_of(name, source) if isinstance(one, ConsumerConnection) and one.broker == "broker-a"]

    def change(event, second):
        if isinstance(event, ConsumerConnection) and event.broker == "broker-b" and second >= at:
            return changed(event, connections=lists[0].connections, error=None)
        if second < at + taken_after:
            return event
        if isinstance(event, ConsumerRunningInfo) and event.client_id.endswith("c1"):
            mine = {one.mq: one for one in event.queues}
            model = next(one for mq, one in mine.items() if mq.broker == "broker-a" and not mq.is_retry)
            every = (changed(model.mq, broker="broker-b", queue_id=number) for number in range(4))
            taken = (changed(model, mq=mq) for mq in every if mq not in mine)
            return changed(event, queues=(*event.queues, *taken))
        if isinstance(event, ConsumeStats) and event.broker == "broker-b":
            return changed(event, queues=tuple(changed(one, consumer_offset=one.broker_offset) for one in event.queues))
        return event

    return concluded_of(changed_events(name, source, change))


@pytest.mark.parametrize("source", ["poll", "both"])
@pytest.mark.parametrize("name", [UNREACHABLE, NO_BROKER])
@pytest.mark.parametrize(("taken_after", "is_independent"), [(10, False), (30, False), (40, False), (80, True)])
def test_what_follows_ends_under_its_cause(name, taken_after, is_independent, source):
    """A client takes its queues at its next rebalance, 20 s later: until then nothing more is to be sent."""
    conclusions = heals(name, source, 400, taken_after)
    codes = ("QUEUE_UNASSIGNED", "QUEUE_STALLED")
    assert any(not one.absorbed for one in conclusions.transitions(*codes)) == is_independent
    assert not any(one.code in (*codes, "CID_VIEW_SPLIT") for one in conclusions.open_at_end())
