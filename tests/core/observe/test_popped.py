"""Messages in flight of a popped queue, by cases."""

import msgspec
import pytest

from rebalance_model.entities import TIME_MAX
from rebalance_model.observe.events import (
    AckMessage,
)
from rebalance_model.observe.state import popped
from rebalance_model.observe.state.popped import HELD_MAX, REVIVED_WITHIN, STEP_MAX, PoppedQueue
from tests.core.observe.popped_queue import COMMON, INVISIBLE, RETURNED, T, ack, answer, change, consumed, offsets, pop


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


def test_what_is_visible_again_counts_only_in_the_retry_topic():
    """Its copy may be there already, or be about to come: the number is a lower bound."""
    queue, renewed_until = consumed(), T + INVISIBLE + 52_000
    answer(queue, 103)
    change(queue, 101, 60_000, at=T + INVISIBLE - 8_000)
    seen = {}
    for at in (T + INVISIBLE, T + INVISIBLE + 1, T + RETURNED + 1, renewed_until, renewed_until + 1):
        popped.give_back(queue, at)
        since = popped.in_flight_since(queue, at)
        seen[at - T] = popped.in_flight(queue, at), since and since - T, popped.is_at_least(queue, at)
    assert seen == {
        INVISIBLE: (3, 0, True),  # what was popped before its first call may be in flight until then
        INVISIBLE + 1: (1, 0, True),
        RETURNED + 1: (1, 0, False),
        renewed_until - T: (1, 0, False),
        renewed_until - T + 1: (0, None, True),
    }


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
    assert popped.is_at_least(queue, until)
    popped.give_back(queue, until + 1)
    assert not popped.is_at_least(queue, until + 1)
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
