"""A group that was deleted (deleteSubGroup) ends within minutes, with its incidents, once its members are gone.

Its brokers no longer list it, so the collector asks nothing about it. The queues 4..7 hang; all members stop at 200 s.
"""

import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import (
    AnyEvent,
    BrokerStatus,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    GroupEvent,
    RpcError,
)
from rebalance_model.observe.group.deleted_group import GROUP_DELETED
from rebalance_model.observe.group_observer import GROUP_ENDED
from rebalance_model.observe.policy import Policy
from tests.support.field import Change, Concluded, changed, changed_events, concluded_of
from tests.support.folding import Fold

CASE, TWO_BROKERS = "01-queues-removed", "13-skipped-by-expansion"
SOON = Policy(group_gone_after=120_000)
NO_GROUP = RpcError(code=26, remark="subscription group [orders-group] does not exist")
STOP, DELETED = 200, 320
LAG = "NO_ACTIVE_CLIENTS_WITH_LAG"


def stopped(begin: float, end: float = 1e9) -> Change:
    """Let all members be gone from `begin` until `end`."""

    def change(event: AnyEvent, at: float) -> AnyEvent | None:
        if not begin <= at < end:
            return event
        if isinstance(event, ConsumerConnection):
            return changed(event, connections=(), subscriptions=(), consume_type="", message_model="")
        return None if isinstance(event, ConsumerRunningInfo) else event

    return change


def unreported(begin: float, end: float = 1e9) -> Change:
    """Let nothing be asked about the group from `begin` until `end`."""
    return lambda event, at: None if isinstance(event, GroupEvent) and begin <= at < end else event


def refused(begin: float, end: float = 1e9, broker: str = "") -> Change:
    """Let brokers, or one of them, answer that they do not have the group."""

    def change(event: AnyEvent, at: float) -> AnyEvent:
        is_meant = isinstance(event, ConsumeStats) and begin <= at < end and broker in {"", event.broker}
        return changed(event, queues=None, error=NO_GROUP) if is_meant else event

    return change


def behind() -> Change:
    """Let no commit advance once the members have stopped."""
    commits: dict[MessageQueue, int] = {}

    def change(event: AnyEvent, at: float) -> AnyEvent:
        if not isinstance(event, ConsumeStats) or event.queues is None or at < STOP:
            return event
        rows = (changed(q, consumer_offset=commits.setdefault(q.mq, q.consumer_offset)) for q in event.queues)
        return changed(event, queues=tuple(rows))

    return change


def resolutions(conclusions: Concluded) -> dict[str, str | None]:
    """Return why the last incident of each code was resolved; those that are open are left out."""
    return {t.code: t.resolution for t in conclusions.transitions() if t.transition == "RESOLVED"}


def is_open(conclusions: Concluded, code: str) -> bool:
    return code in {t.code for t in conclusions.open_at_end()}


def test_a_group_that_nobody_reports_any_more_ends_with_its_incidents():
    conclusions = concluded_of(changed_events(CASE, "poll", behind(), stopped(STOP), unreported(DELETED)), SOON)
    assert conclusions.transitions(LAG)[0].transition == "OPENED"
    assert conclusions.open_at_end() == []
    assert resolutions(conclusions)[LAG] == GROUP_ENDED
    assert 110 <= conclusions.seconds(conclusions.transitions(LAG)[-1]) - DELETED <= 135


def test_the_state_of_such_a_group_is_forgotten():
    fold = Fold(SOON)
    fold.all(changed_events(CASE, "poll", stopped(STOP), unreported(DELETED)))
    assert list(fold.shard.timeline.groups()) == []


def test_a_group_whose_members_are_still_listed_is_kept():
    """The near miss: what they do is unknown, not over."""
    found = concluded_of(changed_events(CASE, "poll", unreported(190)), SOON)
    assert is_open(found, "QUEUE_STALLED")


def test_a_group_of_a_broker_that_is_away_is_kept():
    """The near miss: after the collector's start, it can't ask that broker for its groups."""

    def away(event: AnyEvent, at: float) -> AnyEvent:
        is_meant = isinstance(event, BrokerStatus) and at >= DELETED
        return changed(event, boot_time=None, now=0, error=RpcError(code=-1, remark="away")) if is_meant else event

    found = concluded_of(changed_events(CASE, "poll", behind(), stopped(STOP), unreported(DELETED), away), SOON)
    assert GROUP_ENDED not in resolutions(found).values()
    assert is_open(found, "BROKER_UNREACHABLE")


def test_a_collector_that_stops_ends_no_group():
    """The near miss: it may be down for long."""
    events = changed_events(CASE, "poll", behind(), stopped(STOP))
    start = events[0].time
    found = concluded_of([event for event in events if event.time < start + DELETED * 1000], SOON)
    assert is_open(found, LAG)


def test_a_group_that_is_left_out_for_two_rounds_is_kept():
    changes = behind(), stopped(STOP), unreported(DELETED, DELETED + 20)
    found = concluded_of(changed_events(CASE, "poll", *changes), SOON)
    assert is_open(found, LAG)


def test_a_group_that_one_of_two_brokers_still_reports_is_kept():
    def without_b(event: AnyEvent, at: float) -> AnyEvent | None:
        is_left_out = isinstance(event, GroupEvent) and event.broker == "broker-b" and at >= DELETED
        return None if is_left_out else event

    assert is_open(concluded_of(changed_events(TWO_BROKERS, "poll", behind(), stopped(STOP), without_b), SOON), LAG)


@pytest.mark.parametrize("case", [CASE, TWO_BROKERS])
def test_a_group_that_no_broker_has_ends_within_a_minute(case):
    conclusions = concluded_of(changed_events(case, "poll", behind(), stopped(STOP), refused(DELETED)))
    assert conclusions.transitions(LAG)[0].transition == "OPENED"
    assert (conclusions.open_at_end(), resolutions(conclusions)[LAG]) == ([], GROUP_DELETED)
    assert 60 <= conclusions.seconds(conclusions.transitions(LAG)[-1]) - DELETED <= 75
    assert (conclusions.group().health, conclusions.group().health_reason) == ("UNKNOWN", GROUP_DELETED)


def test_a_group_that_one_of_two_brokers_does_not_have_is_kept():
    """The near miss: it was never created on the second one, which was added later."""
    changes = behind(), stopped(STOP), refused(DELETED, broker="broker-b")
    assert is_open(concluded_of(changed_events(TWO_BROKERS, "poll", *changes)), LAG)


def test_one_odd_answer_ends_nothing():
    found = concluded_of(changed_events(CASE, "poll", behind(), stopped(STOP), refused(DELETED, DELETED + 10)))
    assert is_open(found, LAG)


def test_a_group_with_members_is_not_deleted():
    found = concluded_of(changed_events(CASE, "poll", refused(STOP)))
    assert GROUP_DELETED not in resolutions(found).values()


def test_a_group_that_is_created_again_is_watched_again():
    """The recovery: deleted at 320 s, back with members at 500 s."""
    changes = behind(), stopped(STOP, 500), refused(DELETED, 500)
    conclusions = concluded_of(changed_events(CASE, "poll", *changes))
    assert resolutions(conclusions)[LAG] == GROUP_DELETED
    assert conclusions.group().members
    assert conclusions.group().health_reason != GROUP_DELETED
