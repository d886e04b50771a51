"""Times and clocks that can't be, and a full buffer: no event runs timers for years, or holds back the others."""

import pytest

from rebalance_model.entities import TIME_MAX, MessageQueue
from rebalance_model.observe.effects import QueueProgress
from rebalance_model.observe.engine import ordering
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import (
    AnyEvent,
    BrokerStatus,
    ClockSeen,
    ConsumerRunningInfo,
    ConsumeStats,
    OffsetInfo,
    ProcessQueueInfo,
    Tick,
    UpdateConsumerOffset,
)
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from tests.support.fitting import fold

POLICY = Policy()
STAMP = 1_795_276_018_318
DAY = 86_400_000
QUEUE = MessageQueue("Orders", "hook-a", 0)


def hook(kind: type[AnyEvent], time: int, seq: int, name: str = "hook-a", **fields: object) -> AnyEvent:
    return kind(time=time, seq=seq, cluster="lab", source="hook", source_id=f"{name}@1", broker=name, **fields)


def poll(kind: type[AnyEvent], time: int, seq: int, **fields: object) -> AnyEvent:
    return kind(time=time, seq=seq, cluster="lab", source="poll", source_id="poll-1@1", **fields)


def test_a_stamp_of_a_client_that_is_centuries_after_another_is_unknown():
    queue = ProcessQueueInfo(
        mq=QUEUE, commit_offset=1, locked=True, lock_time=TIME_MAX, dropped=False, pull_time=1, consume_time=0
    )
    info = poll(ConsumerRunningInfo, STAMP, 1, group="g", client_id="a", orderly=True, queues=(queue,))
    [row] = [row for row in fold([info], STAMP) if isinstance(row, QueueProgress)]
    assert (row.pull_at, row.lock_at) == ((None,), (STAMP,))


def test_an_answer_is_not_dated_before_or_after_its_event_by_a_day():
    queues = (OffsetInfo(mq=QUEUE, broker_offset=5, consumer_offset=3),)
    answers = [
        poll(ConsumeStats, STAMP, seq, group="g", broker="hook-a", answered=answered, queues=queues)
        for seq, answered in enumerate((STAMP - 5, STAMP - 2 * DAY, STAMP + 5, 1), 1)
    ]
    rows = [row for row in fold(answers, STAMP) if isinstance(row, QueueProgress)]
    assert [row.time for row in rows] == [STAMP - 5, STAMP, STAMP, STAMP]


@pytest.mark.parametrize("days", [2, 20_000])
def test_two_ticks_with_years_between_them_do_not_run_the_timers_of_years(days):
    """As of a host whose clock was at 1970, and ticked once before it was set."""
    begin = STAMP - days * DAY
    where = {"group": "g", "channel": "1.1.1.1:1", "topic": "Orders", "queue_id": 0}
    first = hook(UpdateConsumerOffset, begin + 100, 1, offset=5, **where)
    ticks = [hook(Tick, time, seq) for seq, time in enumerate((begin, STAMP, STAMP + 5_000), 1)]
    assert len(fold([ticks[0], first, *ticks[1:]], STAMP)) < 100


def test_a_source_with_ticks_months_apart_holds_back_no_other():
    shard = Shard(None, GroupsInMemory(), POLICY)
    for seq in range(3):
        shard.push(hook(Tick, 1 + seq * 200 * DAY, seq + 1, "hook-z"), STAMP)
    for second in range(2_000):
        shard.push(hook(Tick, STAMP + second * 1_000, second + 1), STAMP + second * 1_000)
    assert shard._state.waiting.watermark > STAMP + 1_000_000


def clocks(time: int, **seen: int) -> list[AnyEvent]:
    """A collector's request, of which hook and collector report when they saw it."""
    asked, answered = seen.get("asked", time), seen.get("answered", time)
    return [
        poll(Tick, time, 1), hook(Tick, time, 1), poll(Tick, time + 1, 2), hook(Tick, time + 1, 2),
        hook(ClockSeen, time + 2, 3, collector="poll-1@1", asked=asked, seen=seen["seen"]),
        poll(BrokerStatus, time + 2, 3, broker="hook-a", boot_time=1, asked=asked, answered=answered),
        poll(Tick, time + 3, 4), hook(Tick, time + 3, 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "seen",
    [
        {"seen": 0, "asked": TIME_MAX, "answered": TIME_MAX}, {"seen": 0},
        {"seen": STAMP, "asked": 1, "answered": 1}, {"seen": STAMP + DAY}, {"seen": STAMP, "answered": STAMP - 1},
    ],
)  # fmt: skip
def test_a_measurement_that_can_not_be_is_not_used(seen):
    shard = Shard(None, GroupsInMemory(), POLICY)
    for event in clocks(STAMP, **seen):
        shard.push(event, STAMP)
    assert not shard._state.waiting.clocks.corrections


def test_a_clock_set_from_1970_takes_nothing_to_a_later_century():
    """Until it is measured again, its events would be dated by the correction of the clock before."""
    shard, rows = Shard(None, GroupsInMemory(), POLICY), []
    for event in (
        poll(Tick, STAMP, 1), hook(Tick, 1_000, 1),
        hook(ClockSeen, 1_010, 2, collector="poll-1@1", asked=STAMP + 10, seen=1_010),
        poll(BrokerStatus, STAMP + 10, 2, broker="hook-a", boot_time=1, asked=STAMP + 10, answered=STAMP + 10),
    ):  # fmt: skip
        rows += shard.push(event, STAMP + 10)
    assert shard._state.waiting.clocks.corrections == {"lab/hook-a": 1_010 - STAMP - 10}
    for second in range(1, 60):
        now = STAMP + second * 1_000
        rows += shard.push(poll(Tick, now, 2 + second), now)
        rows += shard.push(hook(Tick, now, 2 + second), now)
    rows += shard.finish()
    assert shard._state.waiting.watermark <= STAMP + 60_000
    assert all(row.time <= STAMP + 60_000 for row in rows)


def test_the_buffer_keeps_its_limit_if_a_collectors_clock_is_a_day_ahead(monkeypatch):
    monkeypatch.setattr(ordering, "EVENTS_MAX", 100)
    shard = Shard(None, GroupsInMemory(), POLICY)
    for second in range(500):
        stamp = STAMP + second * 1_000
        shard.push(poll(Tick, stamp + DAY, 2 * second), stamp)
        status = poll(BrokerStatus, stamp + DAY, 2 * second + 1, broker="broker-a", boot_time=1)
        shard.push(status, stamp)
        assert len(shard._ordering.buffer) <= 101
