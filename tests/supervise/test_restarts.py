"""When a program is started again, by a clock that the test has."""

import pytest

from streaming.supervise.restarts import RestartPolicy, Restarts

SECOND, MINUTE = 1_000, 60_000


def pauses(policy, runs, **why):
    """The pauses after runs of so many milliseconds, each started when the pause before it is over."""
    restarts, now, found = Restarts(policy), 0, []
    for lasts in runs:
        found.append(restarts.failed(now, now + lasts, **why))
        now += lasts + (found[-1] or 0)
    return found


def test_pauses_double_up_to_the_longest():
    policy = RestartPolicy(failures_max=100)
    assert pauses(policy, [10] * 9) == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]


def test_a_program_that_ran_for_long_gets_the_first_pause_again():
    runs = [10, 10, 5 * MINUTE - 1, 5 * MINUTE, 10]
    assert pauses(RestartPolicy(failures_max=100), runs) == [1_000, 2_000, 4_000, 1_000, 2_000]


def test_five_failures_within_ten_minutes_are_too_many():
    assert pauses(RestartPolicy(), [10] * 5) == [1_000, 2_000, 4_000, 8_000, None]


@pytest.mark.parametrize(("lasts", "last"), [(2 * MINUTE, None), (3 * MINUTE, 16 * SECOND), (6 * MINUTE, 1_000)])
def test_failures_that_are_longer_ago_do_not_count(lasts, last):
    assert pauses(RestartPolicy(), [lasts] * 5)[-1] == last


def test_what_once_ran_well_waits_for_a_server_for_as_long_as_it_is_away():
    waiting = [5 * MINUTE] + [10] * 50
    assert pauses(RestartPolicy(), waiting, server_is_away=True)[-1] == MINUTE
    assert None in pauses(RestartPolicy(), waiting)


def test_a_server_that_was_never_there_may_be_a_wrong_address():
    assert pauses(RestartPolicy(), [10] * 5, server_is_away=True) == [1_000, 2_000, 4_000, 8_000, None]
