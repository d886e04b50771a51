"""The differences of clocks are measured by questions, as NTP does; the clock that most agree with is right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_model.observe.state.clocks import TOLERANCE, UNANSWERED_MAX, Clocks, agreements

POLL, HOOK = "c/poll-1", "c/hook-a"


def ask(
    clocks: Clocks, off: int, *, at: int = 1_000_000, hook: str = HOOK, collector: str = POLL, trip: int = 4
) -> None:
    """A question at ``at`` of the collector, seen in the middle of its round trip by a clock that is ``off``."""
    question = (collector, hook, at)
    clocks.note_sighting(question, hook, at + trip // 2 + off)
    clocks.note_answer(question, at + trip)


@pytest.mark.parametrize("off", [0, TOLERANCE - 2, -TOLERANCE + 2])
def test_a_clock_within_the_tolerance_is_left_as_it_is(off):
    clocks = Clocks()
    ask(clocks, off)
    assert clocks.corrections == {}


@pytest.mark.parametrize("off", [5_000, -5_000, 3_000_000])
def test_a_clock_that_is_off_is_corrected_by_the_middle_of_its_bounds(off):
    clocks = Clocks()
    ask(clocks, off)
    assert clocks.corrections == {HOOK: off}


def test_the_answer_may_come_before_what_the_hook_saw():
    clocks = Clocks()
    assert not clocks.note_answer((POLL, HOOK, 10), 14)
    assert clocks.note_sighting((POLL, HOOK, 10), HOOK, 5_012)
    assert clocks.corrections == {HOOK: 5_000}


def test_a_correction_stays_until_new_bounds_exclude_it():
    clocks = Clocks()
    ask(clocks, 5_000, trip=400)
    ask(clocks, 5_150, trip=400)
    assert clocks.corrections == {HOOK: 5_000}
    ask(clocks, 5_300, trip=400)
    assert clocks.corrections == {HOOK: 5_300}
    ask(clocks, 0)
    assert clocks.corrections == {}


def test_a_collectors_wrong_clock_is_corrected_where_two_hooks_agree():
    clocks = Clocks()
    ask(clocks, -7_000)
    assert clocks.corrections == {HOOK: -7_000}, "one against one: the collector is right"
    ask(clocks, -7_000, hook="c/hook-b")
    assert clocks.corrections == {POLL: 7_000}


def test_a_correction_ends_with_the_clock_that_it_was_measured_by():
    clocks = Clocks()
    ask(clocks, 5_000)
    ask(clocks, 5_000, hook="c/hook-b", collector="c/poll-2")
    assert clocks.corrections.keys() == {HOOK}, "no hook connects the collectors: only the first one's is compared"
    clocks.note_set(POLL)
    assert clocks.corrections == {"c/hook-b": 5_000}
    clocks.note_set("c/poll-2")
    assert clocks.corrections == {}


def test_of_two_collectors_the_one_that_disagrees_is_corrected():
    clocks = Clocks()
    ask(clocks, 0, collector="c/poll-2")
    ask(clocks, -9_000, collector=POLL)
    assert clocks.corrections == {POLL: 9_000}


EDGES = st.integers(-4, 4).map(lambda number: number * TOLERANCE) | st.integers(-3 * TOLERANCE, 3 * TOLERANCE)


@given(bounds=st.lists(st.tuples(EDGES, EDGES), max_size=12))  # also the wrong way round, of a clock that was set back
def test_clocks_agree_if_their_bounds_are_within_the_tolerance(bounds):
    offsets = {str(number): one for number, one in enumerate(bounds)}
    assert agreements(offsets) == {
        source: sum(low - TOLERANCE <= b and a - TOLERANCE <= high for a, b in bounds)
        for source, (low, high) in offsets.items()
    }


def test_collectors_that_share_no_hook_are_not_compared():
    clocks = Clocks()
    ask(clocks, 0)
    ask(clocks, 60_000, collector="c/poll-2", hook="c/hook-b")
    assert "c/hook-b" not in clocks.corrections or POLL not in clocks.corrections


def test_without_a_hook_the_brokers_now_bounds_the_clock_to_a_second():
    clocks = Clocks()
    clocks.note_now((POLL, "a", 10_000), 10_004, HOOK, 10_000)
    assert clocks.corrections == {}
    clocks.note_now((POLL, "a", 20_000), 20_004, HOOK, 3_620_000)
    assert clocks.corrections[HOOK] == pytest.approx(3_600_000, abs=1_000)


def test_the_brokers_now_does_not_widen_what_its_hook_has_shown():
    clocks = Clocks()
    ask(clocks, 3_000)
    clocks.note_now((POLL, "a", 20_000), 20_004, HOOK, 23_000)
    assert clocks.bounds[POLL][HOOK] == (2_998, 3_002)


def test_unmatched_requests_and_sightings_are_bounded():
    clocks = Clocks()
    for at in range(10 * UNANSWERED_MAX):
        clocks.note_answer((POLL, "a", at), at + 1)
        clocks.note_sighting((POLL, "b", at), HOOK, at + 1)
    assert len(clocks.answered) == len(clocks.seen) == UNANSWERED_MAX
