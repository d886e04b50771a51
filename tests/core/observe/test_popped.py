"""What is in flight of a popped queue: by cases, by random ones against the truth, and within its bounds."""

import sys
from contextlib import contextmanager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_model.entities import TIME_MAX
from rebalance_model.observe.events import (
    ACK_RANGES_MAX,
    OFFSET_MAX,
    AckMessage,
    ChangeMessageInvisibletime,
    PopMessage,
)
from rebalance_model.observe.state import popped
from rebalance_model.observe.state.popped import HELD_MAX, REVIVED_WITHIN, STEP_MAX, UNACKED_MAX, PoppedQueue

T = 1_800_000_000_000
INVISIBLE = 20_000
RETURNED = INVISIBLE + REVIVED_WITHIN
AT_REST_BYTES, MOST_BYTES = 2_048, 16_384
COMMON = {"cluster": "c", "broker": "b", "source": "hook", "source_id": "h@1", "seq": 1, "group": "g"}
COMMON |= {"channel": "127.0.0.1:7", "topic": "t", "queue_id": 0}


def pop(queue, at=T, *, code=None, invisible=INVISIBLE, **more):
    within = {"time": at, "first_time": at, "last_time": at, "count": 1, "invisible_ms": invisible}
    popped.on_pop(queue, PopMessage(**COMMON, **within, code=code, **more))


def ack(queue, *offsets, at=T, popped_at=T, code=0, invisible=INVISIBLE, order=False):
    """Ack offsets, or pairs of the first and the last offset of a range."""
    ranges = tuple(one if isinstance(one, tuple) else (one, one) for one in offsets)
    times = {"time": at, "first_time": at, "last_time": at, "pop_time_min": popped_at, "pop_time_max": popped_at}
    event = AckMessage(**COMMON, **times, code=code, invisible_ms=invisible, order=order, ranges=ranges)
    popped.on_ack(queue, event)


def change(queue, offset, to, *, at=T, popped_at=T, by_proxy=True, code=0, order=False, invisible=INVISIBLE):
    times = {"time": at, "pop_time": popped_at, "invisible_ms": invisible, "changed_ms": to}
    event = ChangeMessageInvisibletime(**COMMON, **times, offset=offset, code=code, order=order)
    return popped.on_change(queue, event, by_proxy=by_proxy)


def answer(queue, popped_to, at=T, *, commit=None):
    popped.on_offsets(queue, at, commit_offset=popped_to if commit is None else commit, pull_offset=popped_to)


def offsets(queue):
    return {one for part in queue.unacked for one in range(part.first, part.last + 1)} | queue.held_messages.keys()


def consumed(acked_to=100):
    """A queue whose messages below an offset are acked."""
    queue = PoppedQueue()
    pop(queue)
    ack(queue, acked_to - 1)
    return queue


# What is in flight


def test_nothing_is_known_of_a_queue_without_a_call():
    queue = PoppedQueue()
    answer(queue, 500)
    assert popped.in_flight(queue) is None
    assert popped.in_flight_since(queue) is None
    answer(queue, -1)
    assert queue.popped_to == 500


def test_before_the_first_call_popped_messages_may_be_in_flight():
    queue = consumed()
    assert popped.in_flight(queue) == 0
    assert popped.is_at_least(queue, T + RETURNED - 1)
    assert not popped.is_at_least(queue, T + RETURNED)


def test_a_message_below_an_acked_one_is_in_flight_until_it_is_acked():
    queue = consumed()
    ack(queue, (102, 104), 107, at=T + 1_000, popped_at=T + 900)
    assert offsets(queue) == {100, 101, 105, 106}
    assert popped.in_flight_since(queue) == T + 900
    ack(queue, 101, (105, 106))
    assert offsets(queue) == {100}
    assert (queue.acked_to, queue.finished_at) == (108, T)


def test_an_answer_shows_what_is_popped_above_the_last_ack():
    queue = consumed()
    answer(queue, 110, T + 10_000)
    answer(queue, 125, T + 20_000)
    assert [(one.first, one.last, one.popped_by) for one in queue.unacked] == [
        (100, 109, T + 10_000),
        (110, 124, T + 20_000),
    ]
    ack(queue, 115, at=T + 20_500, popped_at=T + 12_000)
    assert [one.popped_by for one in queue.unacked] == [T + 10_000, T + 12_000, T + 20_000]
    assert popped.in_flight(queue) == 24


def test_acks_reach_over_what_several_answers_have_shown():
    queue = consumed()
    for number, popped_to in enumerate((110, 120, 130), start=1):
        answer(queue, popped_to, T + 10_000 * number)
    ack(queue, (105, 121), (125, 126))
    assert offsets(queue) == {*range(100, 105), *range(122, 125), *range(127, 130)}


def test_below_the_lowest_ack_all_was_popped_before_the_first_of_them():
    queue = PoppedQueue()
    ack(queue, 0)
    times = {"time": T + 50_000, "first_time": T, "last_time": T, "pop_time_min": T + 1_000, "pop_time_max": T + 49_000}
    event = AckMessage(**COMMON, **times, code=0, invisible_ms=INVISIBLE, ranges=((3, 3), (6, 6)))
    popped.on_ack(queue, event)
    assert [(one.first, one.last, one.popped_by - T) for one in queue.unacked] == [(1, 2, 1_000), (4, 5, 49_000)]


def test_messages_that_are_given_back_are_counted_once():
    queue = consumed()
    answer(queue, 110, T + 10_000)
    assert popped.give_back(queue, T + 10_000 + RETURNED) == 0
    assert popped.give_back(queue, T + 10_001 + RETURNED) == 10
    assert popped.give_back(queue, T + 10_001 + RETURNED) == 0
    assert popped.in_flight(queue) == 0
    answer(queue, 110, T + 40_000)
    assert popped.in_flight(queue) == 0, "they are in the retry topic"


def test_a_refused_message_is_not_in_flight():
    queue = consumed()
    assert change(queue, 102, 10_000, by_proxy=False) == "REFUSED"
    assert offsets(queue) == {100, 101}
    ack(queue, 103)
    answer(queue, 104)
    assert offsets(queue) == {100, 101}


def test_a_renewed_message_is_held_until_it_is_acked_or_renewed_no_more():
    queue = consumed()
    answer(queue, 101)
    at = T + INVISIBLE - 8_000
    assert change(queue, 100, 60_000, at=at) == "RENEWED"
    assert popped.give_back(queue, at + 60_000 + REVIVED_WITHIN) == 0
    assert (popped.in_flight(queue), popped.in_flight_since(queue)) == (1, T)
    again = at + 55_000
    assert change(queue, 100, 180_000, at=again, popped_at=at, invisible=60_000) == "RENEWED"
    assert queue.held_messages[100] == popped.HeldMessage(T, again, again + 180_000)
    assert popped.give_back(queue, again + 180_001 + REVIVED_WITHIN) == 1
    assert popped.in_flight(queue) == 0


@pytest.mark.parametrize(
    ("left", "to", "by_proxy"), [(8_000, 60_000, False), (8_000, 61_000, True), (10_501, 60_000, True)]
)
def test_what_is_no_renewal_is_a_refusal(left, to, by_proxy):
    queue = consumed()
    assert change(queue, 100, to, at=T + INVISIBLE - left, by_proxy=by_proxy) == "REFUSED"
    assert popped.in_flight(queue) == 0


def test_an_ack_ends_a_held_message():
    queue = consumed()
    change(queue, 100, 60_000, at=T + INVISIBLE)
    ack(queue, 100, at=T + INVISIBLE + 10, popped_at=T + INVISIBLE)
    assert popped.in_flight(queue) == 0


def test_a_call_that_the_broker_refused_changes_nothing():
    queue = consumed()
    before = msgspec.msgpack.encode(queue)
    pop(queue, code=26, invisible=9)
    ack(queue, 200, code=208)
    assert change(queue, 300, 10_000, code=208) == ""
    assert msgspec.msgpack.encode(queue) == before


def test_what_does_not_match_an_expression_is_never_acked():
    queue = consumed()
    answer(queue, 110)
    pop(queue, filtered=True)
    ack(queue, 120)
    answer(queue, 130)
    assert (popped.in_flight(queue), queue.unacked) == (None, [])


# In order


def in_order(commit=100):
    queue = PoppedQueue()
    pop(queue, order=True)
    answer(queue, commit)
    return queue


def test_in_order_an_ack_of_another_delivery_has_no_effect():
    queue = in_order()
    change(queue, 100, 60_000, at=T + INVISIBLE, order=True)
    newest = T + 200_000
    change(queue, 100, 180_000, at=newest + INVISIBLE, popped_at=newest, order=True)
    assert queue.held_messages[100].first_pop == T
    ack(queue, 100, at=newest + INVISIBLE, popped_at=T, order=True)
    assert (popped.in_flight(queue), popped.in_flight_since(queue)) == (1, T)
    ack(queue, 100, at=newest + INVISIBLE, popped_at=newest, order=True)
    assert popped.in_flight(queue) == 0


def test_in_order_an_ack_of_a_later_delivery_ends_the_held_one():
    """A proxy gives back what a client had that has left; another client gets it, and acks."""
    queue = PoppedQueue()
    change(queue, 7, 1_000, at=T + 5_000, popped_at=T, order=True)
    ack(queue, 7, at=T + 9_000, popped_at=T + 7_000, order=True)
    assert queue.held_messages == {}


def test_in_order_a_message_stays_held_until_the_commit_has_passed_it():
    queue = in_order()
    change(queue, 100, 60_000, at=T + INVISIBLE, order=True)
    ack(queue, 102, order=True)
    assert popped.give_back(queue, T + 10 * RETURNED) == 0
    assert offsets(queue) == {100}
    assert popped.is_at_least(queue, T + 10 * RETURNED), "no call shows the rest of the batch"
    answer(queue, 100)
    assert offsets(queue) == {100}
    answer(queue, 101)
    assert offsets(queue) == set()


# What somebody sets, loses or forges


def test_a_step_that_no_client_makes_is_a_reset():
    for step in (ack, answer):
        queue = consumed()
        answer(queue, 110)
        step(queue, 110 + STEP_MAX)
        assert popped.in_flight(queue) > 10
        step(queue, 10**9)
        assert popped.in_flight(queue) == 0
        assert popped.is_at_least(queue, T + 1)
        assert queue.popped_to >= 10**9


def test_an_answer_that_falls_back_is_a_reset():
    queue = consumed()
    answer(queue, 110)
    answer(queue, 50, T + 60_000)
    assert (popped.in_flight(queue), queue.popped_to) == (0, 50)
    assert popped.is_at_least(queue, T + 60_000)


def test_acks_of_newer_messages_far_below_are_a_reset():
    """The topic was created again, or the broker has lost what it had stored last."""
    queue = consumed(10_000)
    ack(queue, 10_002)
    ack(queue, 5, at=T + 100, popped_at=T + 50)
    assert (offsets(queue), queue.popped_to) == (set(), 6)
    near = consumed()
    ack(near, 5, at=T + RETURNED + 100, popped_at=T + RETURNED + 50)
    assert near.popped_to == 6


@pytest.mark.parametrize("popped_at", [T - 1, T + 50])
def test_a_late_ack_of_a_message_that_was_given_back_is_none(popped_at):
    queue = consumed(10_000)
    ack(queue, 9_000 if popped_at > T else 5, at=T + 100, popped_at=popped_at)
    assert queue.popped_to == 10_000


def test_an_ack_of_what_is_known_to_be_unacked_is_no_reset():
    queue = consumed(100)
    change(queue, 101, 60_000, at=T + INVISIBLE)
    ack(queue, (102, 4_000), 4_002, (4_004, 8_000))
    for offset in (101, 100, 4_001):
        ack(queue, offset, at=T + 10**6, popped_at=T + 10**6)
        assert queue.popped_to == 8_001
    assert offsets(queue) == {4_003}


def test_with_all_held_messages_kept_an_ack_may_be_of_another_one():
    queue = consumed(100)
    for offset in range(100, 101 + HELD_MAX):
        change(queue, offset, 60_000, at=T + INVISIBLE)
    assert len(queue.held_messages) == HELD_MAX
    until = T + INVISIBLE + 60_000 + REVIVED_WITHIN
    assert popped.is_at_least(queue, until - 1)
    assert not popped.is_at_least(queue, until)
    ack(queue, 100 + HELD_MAX, at=T + 10**6, popped_at=T + 10**6)
    assert queue.popped_to == 101 + HELD_MAX


def test_a_gap_begins_again_and_all_that_is_known_is_a_lower_bound():
    queue = consumed()
    answer(queue, 110)
    popped.forget(queue, T + 60_000)
    answer(queue, 120, T + 60_000)
    assert (popped.in_flight(queue), popped.is_at_least(queue, T + 60_000)) == (0, True)
    unknown = PoppedQueue()
    popped.forget(unknown, T)
    assert popped.in_flight(unknown) is None


def test_a_pop_in_the_future_is_one_of_now():
    queue = consumed()
    ack(queue, 102, popped_at=TIME_MAX)
    assert popped.in_flight_since(queue) == T
    change(queue, 104, 60_000, popped_at=TIME_MAX, order=True)
    assert queue.held_messages[104].first_pop == T


# Bounds


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


# Random ones


class Truth:
    """A broker's queue whose every message is known: when it is visible again, until it is finished."""

    def __init__(self):
        self.now = T
        self.end = 0
        self.handles = {}
        """By the offset of a message in flight: when it was popped or renewed, and for how long it is invisible."""
        self.finished = set()
        """What was acked or refused."""
        self.queue = PoppedQueue()
        pop(self.queue)
        answer(self.queue, 0)

    def pops(self, count, *, is_polled):
        self.handles |= dict.fromkeys(range(self.end, self.end + count), (self.now, INVISIBLE))
        self.end += count
        if is_polled:
            answer(self.queue, self.end, self.now)

    def acks(self, picked):
        for offset in picked:
            self.finished.add(offset)
            ack(self.queue, offset, at=self.now, popped_at=self.handles.pop(offset)[0])

    def refuses(self, offset):
        at, invisible = self.handles.pop(offset)
        self.finished.add(offset)
        change(self.queue, offset, 10_000, at=self.now, popped_at=at, invisible=invisible)

    def renews(self, offset):
        at, invisible = self.handles[offset]
        if 0 <= at + invisible - self.now <= 10_000:
            change(self.queue, offset, 60_000, at=self.now, popped_at=at, invisible=invisible)
            self.handles[offset] = (self.now, 60_000)

    def passes(self, seconds):
        self.now += seconds * 1_000
        popped.give_back(self.queue, self.now)
        back = [one for one, (at, ms) in self.handles.items() if at + ms + REVIVED_WITHIN < self.now]
        for offset in back:
            del self.handles[offset]


STEPS = st.lists(
    st.tuples(st.sampled_from(["pop", "ack", "ack", "refuse", "renew", "wait"]), st.integers(0, 31)), max_size=60
)


def played(steps, *, is_polled):
    truth = Truth()
    for what, number in steps:
        handles = sorted(truth.handles)
        if what == "pop":
            truth.pops(1 + number % 8, is_polled=is_polled)
        elif what == "wait":
            truth.passes(number)
        elif handles and what == "ack":
            truth.acks(handles[number % len(handles) :: 1 + number % 3])
        elif handles:
            act = truth.refuses if what == "refuse" else truth.renews
            act(handles[number % len(handles)])
        yield truth


@given(STEPS)
def test_with_answers_exactly_what_is_unfinished_is_in_flight(steps):
    for truth in played(steps, is_polled=True):
        assert offsets(truth.queue) == truth.handles.keys()


@given(STEPS)
def test_without_answers_no_finished_message_is_in_flight(steps):
    """One that was given back may still be: that it was popped is only seen when a later one is acked."""
    for truth in played(steps, is_polled=False):
        assert not truth.finished & offsets(truth.queue)
        assert {one for one in truth.handles if one < truth.queue.popped_to} <= offsets(truth.queue)


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
