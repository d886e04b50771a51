"""Each number of each event at its limits, among the capture's events: the job goes on, and all rows fit their tables.

A mutation seldom puts the highest valid number into the one field where it is added to another one.
"""

from collections.abc import Iterator

import msgspec
import pytest

from rebalance_model.observe.decoding import FUTURE_MS_MAX, decode
from rebalance_model.observe.effects import TABLE_OF, AnyRow
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
)
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from schemas.arrow import table_of
from schemas.tables import stored
from tests.fuzz.test_events import KINDS, LINES

POLICY = Policy()
EVENTS = [decode(line, key=None, stamp=2**62, keyed=False) for line in LINES[3_000:3_200]]
STAMP = EVENTS[-1].time
DAY = 86_400_000
Path = tuple[str | int, ...]


def numbers_of(part: msgspec.Struct) -> Iterator[tuple[Path, int]]:
    """Yield each number of an event with its lowest and its highest value; of a list, the first element's."""
    for field in msgspec.inspect.type_info(type(part)).fields:
        value, types = getattr(part, field.encode_name), getattr(field.type, "types", (field.type,))
        for limits in (one for one in types if isinstance(one, msgspec.inspect.IntType)):
            yield from (((field.encode_name,), limit) for limit in (limits.ge, limits.le))
        inner = value[0] if isinstance(value, tuple) and value else value
        if isinstance(inner, msgspec.Struct):
            place = (field.encode_name, 0) if isinstance(value, tuple) else (field.encode_name,)
            yield from (((*place, *path), limit) for path, limit in numbers_of(inner))


def with_number(part: object, path: Path, number: int) -> object:
    """Return an event with another number at a path."""
    if not path:
        return number
    if isinstance(part, tuple):
        return (with_number(part[0], path[1:], number), *part[1:]) if part else part
    name = path[0]
    if getattr(part, name, None) is None:
        return part
    return msgspec.structs.replace(part, **{name: with_number(getattr(part, name), path[1:], number)})


def fold(events: list[AnyEvent], stamp: int = STAMP) -> list[AnyRow]:
    """Fold events that arrive at once; check that the state can be kept, and that all rows fit their tables."""
    groups = GroupsInMemory()
    shard, rows = Shard(None, groups, POLICY), list[AnyRow]()
    for event in events:
        line = msgspec.json.encode(event)
        rows += shard.push(decode(line, key=None, stamp=stamp, keyed=False), stamp, len(line))
    rows += shard.finish()
    Shard(shard.flush(), groups, POLICY)
    for table in {TABLE_OF[type(row)] for row in rows}:
        payloads = [msgspec.json.decode(msgspec.json.encode(row)) for row in rows if TABLE_OF[type(row)] == table]
        assert table_of(table, [stored(table, one) for one in payloads]).num_rows == len(payloads)
    return rows


def valid(event: AnyEvent) -> bool:
    return event.time <= STAMP + FUTURE_MS_MAX


EXAMPLES = {type(event): event for event in (decode(line, key=None, stamp=2**62, keyed=False) for line in KINDS)}
EXAMPLES |= {type(event): event for event in EVENTS if getattr(event, "error", None) is None}


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_no_number_ends_the_job(kind):
    """One event has it; or each second one of the kind, so that it comes and goes."""
    own = [event for event in EVENTS if type(event) is kind] or [EXAMPLES[kind]]
    for path, limit in numbers_of(EXAMPLES[kind]):
        if path == ("seq",):
            continue
        for chosen in (own[:1], own[::2]):
            changed = {id(event): with_number(event, path, limit) for event in chosen}
            events = [changed.get(id(event), event) for event in (*EVENTS[:100], EXAMPLES[kind], *EVENTS[100:])]
            fold([event for event in events if valid(event)])


def hook(kind: type[AnyEvent], time: int, seq: int, name: str = "hook-a", **fields: object) -> AnyEvent:
    return kind(time=time, seq=seq, cluster="lab", source="hook", source_id=f"{name}@1", broker=name, **fields)


def poll(kind: type[AnyEvent], time: int, seq: int, **fields: object) -> AnyEvent:
    return kind(time=time, seq=seq, cluster="lab", source="poll", source_id="poll-1@1", **fields)


def test_a_stamp_of_a_client_that_is_centuries_after_another_is_unknown():
    queue = ProcessQueueInfo(
        mq=EXAMPLES[ConsumeStats].queues[0].mq, commit_offset=1, locked=True, lock_time=253_402_300_799_999,
        dropped=False, pull_time=1, consume_time=0,
    )  # fmt: skip
    info = poll(ConsumerRunningInfo, STAMP, 1, group="g", client_id="a", orderly=True, queues=(queue,))
    [row] = [row for row in fold([info]) if TABLE_OF[type(row)] == "queue_progress"]
    assert (row.pull_at, row.lock_at) == ((None,), (STAMP,))


def test_an_answer_is_not_dated_before_or_after_its_event_by_a_day():
    mq = EXAMPLES[ConsumeStats].queues[0].mq
    queues = (OffsetInfo(mq=mq, broker_offset=5, consumer_offset=3),)
    answers = [
        poll(ConsumeStats, STAMP, seq, group="g", answered=answered, queues=queues)
        for seq, answered in enumerate((STAMP - 5, STAMP - 2 * DAY, STAMP + 5, 1), 1)
    ]
    rows = [row for row in fold(answers) if TABLE_OF[type(row)] == "queue_progress"]
    assert [row.time for row in rows] == [STAMP - 5, STAMP, STAMP, STAMP]


@pytest.mark.parametrize("days", [2, 20_000])
def test_two_ticks_with_years_between_them_do_not_run_the_timers_of_years(days):
    """As of a host whose clock was at 1970, and ticked once before it was set."""
    begin = STAMP - days * DAY
    commit = next(event for event in EVENTS if type(event).__name__ == "UpdateConsumerOffset")
    first = msgspec.structs.replace(commit, time=begin + 100, cluster="lab", source_id="hook-a@1", seq=1)
    ticks = [hook(Tick, time, seq) for seq, time in enumerate((begin, STAMP, STAMP + 5_000), 1)]
    assert len(fold([ticks[0], first, *ticks[1:]])) < 100


def test_a_source_whose_ticks_are_months_apart_does_not_hold_back_the_others():
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
        {"seen": 0, "asked": 253_402_300_799_999, "answered": 253_402_300_799_999}, {"seen": 0},
        {"seen": STAMP, "asked": 1, "answered": 1}, {"seen": STAMP + DAY}, {"seen": STAMP, "answered": STAMP - 1},
    ],
)  # fmt: skip
def test_a_measurement_that_can_not_be_is_not_used(seen):
    shard = Shard(None, GroupsInMemory(), POLICY)
    for event in clocks(STAMP, **seen):
        shard.push(event, STAMP)
    assert not shard._state.waiting.clocks.corrections


def test_a_clock_that_was_at_1970_and_is_set_takes_nothing_to_a_later_century():
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
        assert len(shard._ordering.held) <= 101
