"""The limits of a client are those that it declares (issue 49, A5)."""

import pytest

from rebalance_model.observe.events import ConsumerRunningInfo, ConsumeStats
from tests.support.field import changed, changed_events, concluded, concluded_of

LOST = "02-pulls-lost-after-network-loss"
LONG = "49-listener-may-take-an-hour"
POLLED = ["poll", "both"]


@pytest.mark.parametrize("source", POLLED)
def test_a_listener_may_take_as_long_as_its_client_declares(source):
    """It declares a consumeTimeout of an hour, and each batch takes four minutes."""
    assert concluded(LONG, source).transitions() == []


def test_the_default_timeout_allows_nothing():
    """A near miss: the same queues, and the default of 15 minutes, which says nothing of the listener."""

    def by_default(event, _):
        if not isinstance(event, ConsumerRunningInfo):
            return event
        return changed(event, properties=event.properties | {"consumeTimeout": "15"})

    found = concluded_of(changed_events(LONG, "poll", by_default)).transitions("QUEUE_STALLED")
    assert {one.sub_cause for one in found} == {"LISTENER_BATCH"}


def test_a_commit_that_stands_for_ten_minutes_is_said_all_the_same():
    frozen = {}

    def frozen_commit(event, _):
        if not isinstance(event, ConsumeStats):
            return event
        rows = event.queues or ()
        kept = (changed(row, consumer_offset=frozen.setdefault(row.mq, row.consumer_offset)) for row in rows)
        return changed(event, queues=tuple(kept))

    concluded = concluded_of(changed_events(LONG, "poll", frozen_commit))
    opened = concluded.transitions("QUEUE_STALLED")
    assert {one.sub_cause for one in opened} == {"LISTENER_MAY_TAKE_LONG"}
    assert all(concluded.seconds(one) > 600 for one in opened)
    assert "consumeTimeout" in opened[0].explanation
    assert concluded.group().health == "WARN"


@pytest.mark.parametrize("source", POLLED)
@pytest.mark.parametrize(("interval", "is_cause"), [("150000", True), ("120000", False)])
def test_a_pull_interval_above_the_limit_is_the_cause(interval, is_cause, source):
    def with_interval(event, _):
        if not isinstance(event, ConsumerRunningInfo) or not event.properties:
            return event
        return changed(event, properties=event.properties | {"pullInterval": interval})

    concluded = concluded_of(changed_events(LOST, source, with_interval))
    found = concluded.transitions("PULL_EXPIRED")
    assert found
    assert {one.sub_cause == "PULL_INTERVAL" for one in found} == {is_cause}
    of_commits = {one.sub_cause for one in concluded.open_at_end() if one.code == "QUEUE_STALLED"}
    assert of_commits <= {"PULL_INTERVAL"} if is_cause else "PULL_INTERVAL" not in of_commits
