"""Restarts of a program, by a clock that the test has."""

import pytest

from streaming.supervise.supervisor import RestartPolicy, Restarts

SECOND, MINUTE = 1_000, 60_000


def pauses(policy, runs, **why):
    """The pauses after runs of so many milliseconds, each started when the pause before it is over."""
    restarts, now, waits = Restarts(policy), 0, []
    for lasts in runs:
        waits.append(restarts.failed(now, now + lasts, **why))
        now += lasts + (waits[-1] or 0)
    return waits


def test_pauses_double_up_to_the_longest():
    policy = RestartPolicy(failures_max=100)
    assert pauses(policy, [10] * 9) == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]


def test_a_program_that_ran_for_long_gets_the_first_pause_again():
    runs = [10, 10, 5 * MINUTE - 1, 5 * MINUTE, 10]
    assert pauses(RestartPolicy(failures_max=100), runs) == [1_000, 2_000, 4_000, 1_000, 2_000]


def test_after_five_failures_within_ten_minutes_the_pauses_are_long():
    assert pauses(RestartPolicy(), [10] * 8) == [1_000, 2_000, 4_000, 8_000, *[5 * MINUTE] * 4]


def test_what_keeps_failing_does_so_until_it_has_run_for_five_minutes():
    runs = [10] * 5 + [4 * MINUTE, 5 * MINUTE, 10]
    assert pauses(RestartPolicy(), runs)[4:] == [5 * MINUTE, 5 * MINUTE, 1_000, 2_000]


@pytest.mark.parametrize(("lasts", "last"), [(2 * MINUTE, 5 * MINUTE), (3 * MINUTE, 16 * SECOND), (6 * MINUTE, 1_000)])
def test_failures_that_are_longer_ago_do_not_count(lasts, last):
    assert pauses(RestartPolicy(), [lasts] * 5)[-1] == last


@pytest.mark.parametrize("runs", [[5 * MINUTE] + [10] * 50, [10] * 50])
def test_what_waits_for_a_server_is_tried_each_minute(runs):
    assert pauses(RestartPolicy(), runs, server_is_away=True)[-1] == MINUTE
    assert pauses(RestartPolicy(), runs)[-1] == 5 * MINUTE


@pytest.mark.parametrize(("first", "keeps_failing"), [(5 * MINUTE, False), (10, True)])
def test_a_server_that_was_never_there_may_be_a_wrong_address(first, keeps_failing):
    restarts = Restarts(RestartPolicy())
    for now in (first, *range(first + 10, first + 100, 10)):
        restarts.failed(now - (first if now == first else 10), now, server_is_away=True)
    assert restarts.keeps_failing is keeps_failing
