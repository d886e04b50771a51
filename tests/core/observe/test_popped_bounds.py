"""Messages in flight of a popped queue stay within their bounds of room and time, with any events."""

import sys
from contextlib import contextmanager

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rebalance_model.entities import TIME_MAX
from rebalance_model.observe.events import (
    ACK_RANGES_MAX,
    OFFSET_MAX,
    AckMessage,
)
from rebalance_model.observe.state import popped
from rebalance_model.observe.state.popped import HELD_MAX, UNACKED_MAX, PoppedQueue
from tests.core.observe.popped_queue import COMMON, INVISIBLE, RETURNED, T, ack, answer, change, consumed, offsets, pop

AT_REST_BYTES, MOST_BYTES = 2_048, 16_384


def size(queue):
    return len(msgspec.msgpack.encode(queue))


def test_at_rest_a_queue_takes_little_room_and_never_more_than_its_bounds():
    queue = consumed(OFFSET_MAX - 2_000)
    answer(queue, OFFSET_MAX - 1_990)
    assert size(queue) < AT_REST_BYTES
    for offset in range(OFFSET_MAX - 1_900, OFFSET_MAX - 1_000, 2):
        ack(queue, offset, at=TIME_MAX, popped_at=TIME_MAX, invisible=TIME_MAX)
    for offset in range(OFFSET_MAX - 1_000, OFFSET_MAX - 800):
        change(queue, offset, TIME_MAX, at=TIME_MAX, popped_at=TIME_MAX, order=True)
    assert (len(queue.unacked), len(queue.held_messages)) == (UNACKED_MAX, HELD_MAX)
    assert size(queue) < MOST_BYTES


def test_beyond_its_bounds_the_highest_ranges_are_forgotten():
    queue = consumed()
    ack(queue, *range(101, 101 + 2 * ACK_RANGES_MAX, 2))
    assert popped.in_flight(queue) == UNACKED_MAX
    ack(queue, 103 + 2 * ACK_RANGES_MAX, at=T + 1_000, popped_at=T + 1_000)
    assert popped.in_flight(queue) == UNACKED_MAX
    assert 100 in offsets(queue)
    assert popped.is_at_least(queue, T + 1_000 + RETURNED - 1)
    assert not popped.is_at_least(queue, T + 1_000 + RETURNED)


def test_beyond_its_bounds_ranges_that_follow_each_other_are_joined():
    """A hung queue is polled for so long: of two answers only the later one is known."""
    queue = consumed()
    times = [T + 10_000 * number for number in range(UNACKED_MAX)]
    for number, at in enumerate([*times, times[-1] + 1], start=101):
        answer(queue, number, at)
    assert len(queue.unacked) == UNACKED_MAX
    assert popped.in_flight(queue) == UNACKED_MAX + 1
    assert (queue.unacked[-1].first, queue.unacked[-1].popped_by) == (99 + UNACKED_MAX, times[-1] + 1)


def test_acks_of_most_ranges_take_time_by_their_number_not_by_its_square():
    """Each of them may split what is known; so the bytecode steps of one more range are as many as of another one."""
    steps = []
    for ranges in (ACK_RANGES_MAX // 4, ACK_RANGES_MAX):
        queue = consumed(10)
        ack(queue, *range(11, 11 + 2 * ACK_RANGES_MAX, 2))
        with counted_calls() as calls:
            ack(queue, *range(10, 10 + 2 * ranges, 2), at=T + 10**6, popped_at=T + 10**6)
            ack(queue, *range(9_001, 9_001 + 2 * ranges, 2), at=T + 10**6, popped_at=T + 10**6)
        steps.append(calls.lines)
    assert steps[1] < 5 * steps[0]


class Calls:
    lines = 0


@contextmanager
def counted_calls():
    """Count the lines that run in the module, which a busy machine does not change."""
    calls = Calls()

    def trace(frame, event, _):
        if frame.f_code.co_filename != popped.__file__:
            return None
        calls.lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield calls
    finally:
        sys.settrace(before)


TIMES = st.integers(1, TIME_MAX) | st.integers(T, T + 100_000)
PLACES = st.integers(0, OFFSET_MAX) | st.integers(0, 9_000)
CODES = st.sampled_from([None, 0, 0, 13])
ACKS = st.builds(
    lambda places, at, times, **more: ("ack", sorted(set(places)), at, sorted(times), more),
    st.lists(PLACES, min_size=1, max_size=9),
    TIMES,
    st.tuples(TIMES, TIMES),
    invisible=st.integers(0, TIME_MAX) | st.just(INVISIBLE),
    order=st.booleans(),
    code=CODES,
)
CHANGES = st.builds(
    lambda place, at, popped_at, to, **more: ("change", place, at, popped_at, to, more),
    PLACES,
    TIMES,
    TIMES,
    st.integers(0, TIME_MAX) | st.just(60_000),
    by_proxy=st.booleans(),
    order=st.booleans(),
    code=CODES,
)
POPS = st.builds(lambda at, **more: ("pop", at, more), TIMES, order=st.booleans(), filtered=st.booleans(), code=CODES)
ANSWERS = st.tuples(st.just("answer"), st.integers(-1, OFFSET_MAX) | PLACES, TIMES, st.integers(-1, OFFSET_MAX))
OTHERS = st.tuples(st.sampled_from(["back", "forget"]), TIMES)


def applied(queue, step):
    what, *rest = step
    if what == "ack":
        places, at, (first, last), more = rest
        ranges, popped_times = [(one, one) for one in places if one - 1 not in places], (first, last)
        times = dict(zip(("pop_time_min", "pop_time_max"), popped_times, strict=True))
        times |= {"time": at, "first_time": at, "last_time": at}
        fields = {"code": more["code"], "invisible_ms": more["invisible"], "order": more["order"]}
        popped.on_ack(queue, AckMessage(**COMMON, **times, **fields, ranges=tuple(ranges)))
    elif what == "change":
        place, at, popped_at, to, more = rest
        change(queue, place, to, at=at, popped_at=popped_at, **more)
    elif what == "pop":
        at, more = rest
        pop(queue, at, **more)
    elif what == "answer":
        answer(queue, rest[0], rest[1], commit=rest[2])
    elif what == "back":
        assert popped.give_back(queue, rest[0]) >= 0
    else:
        popped.forget(queue, rest[0])


@given(st.lists(ACKS | CHANGES | POPS | ANSWERS | OTHERS, max_size=40))
def test_any_order_of_valid_events_leaves_a_state_within_its_bounds(steps):
    queue = PoppedQueue()
    for step in steps:
        applied(queue, step)
        end = -1
        for span in queue.unacked:
            assert end < span.first <= span.last < queue.popped_to
            end = span.last
        assert (len(queue.unacked) <= UNACKED_MAX, len(queue.held_messages) <= HELD_MAX) == (True, True)
        assert not any(one.first <= held <= one.last for one in queue.unacked for held in queue.held_messages)
        assert (popped.in_flight(queue) or 0) >= 0
        blob = msgspec.msgpack.encode(queue)
        assert len(blob) <= MOST_BYTES
        queue = msgspec.msgpack.decode(blob, type=PoppedQueue)
        assert msgspec.msgpack.encode(queue) == blob
