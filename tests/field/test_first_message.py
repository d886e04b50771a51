"""A queue that is stuck at its first message: a broker answers 0 both for "committed 0" and for "none stored"."""

from collections.abc import Callable, Iterable

import pytest

from rebalance_model.observe.events import (
    AnyEvent,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    OffsetInfo,
    ProcessQueueInfo,
    RpcError,
)
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.progress.answers import on_running_info, on_stats
from rebalance_model.observe.progress.state import ProgressState
from tests.support.field import SOURCES, changed, concluded, concluded_of, events_of

CASE = "15b-first-message-concurrent"
STUCK = "Orders@broker-a:3"
HELD_FROM = 62_000
"""Since when the listener has had the first message, milliseconds after the beginning."""
NOT_ONLINE = RpcError(code=1, remark="The Consumer <orders-group> <10.0.0.2@c2> not online")


def is_stuck(mq):
    return (mq.topic, mq.queue_id) == ("Orders", 3)


def with_queues(
    events: Iterable[AnyEvent],
    of_client: Callable[[ConsumerRunningInfo, ProcessQueueInfo], ProcessQueueInfo],
    of_broker: Callable[[ConsumeStats, OffsetInfo], OffsetInfo] = lambda _, info: info,
    **fields: object,
) -> list[AnyEvent]:
    """Return the events with other queues in the answers of clients, and of brokers."""
    altered = []
    for event in events:
        if isinstance(event, ConsumerRunningInfo):
            altered.append(changed(event, queues=tuple(of_client(event, info) for info in event.queues), **fields))
        elif isinstance(event, ConsumeStats):
            altered.append(changed(event, queues=tuple(of_broker(event, info) for info in event.queues)))
        else:
            altered.append(event)
    return altered


def without_message(_, info):
    return changed(info, cached_count=0, cached_max=0, transaction_count=0) if is_stuck(info.mq) else info


@pytest.mark.parametrize("source", SOURCES)
def test_a_concurrent_queue_stuck_at_its_first_message_is_reported(source):
    conclusions = concluded(CASE, source)
    stalled = conclusions.transitions("QUEUE_STALLED")[0]
    assert (stalled.transition, stalled.queue_id, stalled.client_id) == ("OPENED", 3, "10.0.0.2@c2")
    assert stalled.sub_cause == ("LISTENER_BLOCKED" if source == "hook" else "LISTENER_HUNG")
    assert conclusions.queues()[STUCK].status == "WARN"
    assert conclusions.group().health == "WARN"


def test_an_ordered_queue_stuck_at_its_first_message_is_reported():
    """An ordered client has moved the message out of its cache (ProcessQueue.takeMessages)."""

    def taken(event, info):
        info = changed(info, locked=True, lock_time=event.asked - 500)
        return changed(info, cached_count=max(0, info.cached_count - 1), cached_min=1) if is_stuck(info.mq) else info

    conclusions = concluded_of(with_queues(events_of(CASE, "poll"), taken, orderly=True))
    stuck = conclusions.transitions("ORDERED_QUEUE_STUCK")[0]
    assert (stuck.transition, stuck.severity, stuck.queue_id) == ("OPENED", "critical", 3)
    assert stuck.sub_cause == "LISTENER_HUNG"
    assert '"commit_offset":0' in stuck.evidence
    assert conclusions.seconds(stuck) < 62 + 60 + 20
    assert conclusions.group().health == "BAD"


def test_the_first_message_may_have_any_offset():
    """Without a stored commit a client begins at the newest offset (CONSUME_FROM_LAST_OFFSET)."""
    ahead = 5_000

    def of_client(_, info):
        if not is_stuck(info.mq):
            return info
        lowest, highest = info.cached_min + ahead, info.cached_max + ahead
        return changed(info, commit_offset=-1, cached_min=lowest, cached_max=highest, transaction_min=lowest)

    def of_broker(_, info):
        return changed(info, broker_offset=info.broker_offset + ahead) if is_stuck(info.mq) else info

    found = concluded_of(with_queues(events_of(CASE, "poll"), of_client, of_broker))
    opened = found.transitions("QUEUE_STALLED")[0]
    assert '"commit_offset":5000' in opened.evidence
    assert '"lag":102' in opened.evidence


def test_an_offset_0_without_a_waiting_message_alarms_nobody():
    """Messages are there, and nothing shows that any waits: no commit is stored, and no client has one."""
    found = concluded_of(with_queues(events_of(CASE, "poll"), without_message))
    assert found.transitions() == []
    assert found.group().health == "OK"


def test_a_first_message_that_takes_a_while_is_not_reported():
    def of_client(event, info):
        return without_message(event, info) if event.time > 1_800_000_000_000 + HELD_FROM + 60_000 else info

    def of_broker(event, info):
        late = event.time > 1_800_000_000_000 + HELD_FROM + 60_000
        return changed(info, consumer_offset=info.broker_offset - 1) if late and is_stuck(info.mq) else info

    assert concluded_of(with_queues(events_of(CASE, "poll"), of_client, of_broker)).transitions() == []


def test_a_queue_that_consumes_its_first_message_at_last_has_recovered():
    done = 1_800_000_000_000 + 250_000

    def of_client(event, info):
        return without_message(event, info) if event.time > done else info

    def of_broker(event, info):
        consumed = event.time > done and is_stuck(info.mq)
        return changed(info, consumer_offset=info.broker_offset - 1) if consumed else info

    conclusions = concluded_of(with_queues(events_of(CASE, "poll"), of_client, of_broker))
    assert [one.transition for one in conclusions.transitions("QUEUE_STALLED")][-1] == "RESOLVED"
    assert conclusions.open_at_end() == []
    assert conclusions.group().health == "OK"


def died(events, at, *, never_answered=False):
    """Return the events of a group whose processes end at their first message; it has committed nothing."""
    altered = []
    for event in events:
        if isinstance(event, ConsumerRunningInfo) and (event.time > at or never_answered):
            altered.append(changed(event, queues=None, error=NOT_ONLINE))
        elif isinstance(event, ConsumeStats):
            rows = (changed(i, consumer_offset=0) for i in event.queues if is_stuck(i.mq) or i.mq.topic != "Orders")
            altered.append(changed(event, queues=tuple(rows)))
        elif isinstance(event, ConsumerConnection) and event.time > at:
            altered.append(changed(event, connections=()))
        else:
            altered.append(event)
    return altered


def test_a_group_that_died_at_its_first_message_is_critical():
    found = concluded_of(died(events_of(CASE, "poll"), 1_800_000_000_000 + 120_000))
    assert "NO_ACTIVE_CLIENTS_WITH_LAG" in {one.code for one in found.open_at_end()}
    assert found.group().health == "BAD"


def test_a_group_that_died_before_it_ever_answered_is_not_ok():
    """Nothing shows how many messages wait: that is unknown, not healthy."""
    found = concluded_of(died(events_of(CASE, "poll"), 1_800_000_000_000 + 120_000, never_answered=True))
    assert found.open_at_end() == []
    assert (found.group().health, found.group().health_reason) == (
        "UNKNOWN",
        "no client is listed, and it is unknown whether messages wait",
    )


def quantities(events):
    state, policy = ProgressState(), Policy()
    rows = {}
    for event in events:
        if isinstance(event, ConsumerRunningInfo):
            on_running_info(state, event, policy)
        elif isinstance(event, ConsumeStats):
            for row in on_stats(state, event, policy):
                rows |= {
                    (topic, queue_id): (row.broker_offset[n], row.commit_offset[n], row.lag[n])
                    for n, (topic, queue_id) in enumerate(zip(row.topic, row.queue_id, strict=True))
                }
    return rows


def test_quantities_have_the_lag_of_a_first_message_and_an_empty_queue():
    events = events_of(CASE, "poll")
    last = quantities(events)
    newest = last["Orders", 3][0]
    assert last["Orders", 3] == (newest, 0, newest)
    assert last["%RETRY%orders-group", 0] == (0, None, 0)
    without = quantities(with_queues(events, without_message))
    assert without["Orders", 3] == (newest, None, None)
