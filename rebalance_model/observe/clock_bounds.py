"""Bounds of the difference of two clocks."""

Bounds = tuple[int, int]
"""A clock less another one is at least and at most so much; milliseconds."""
NOW_IS_CUT_TO = 1_000
"""BrokerStatus.now is boot time + runtime, whole seconds; milliseconds."""


def bounds_of_now(asked: int, answered: int, now: int) -> Bounds:
    """Return by how much a broker's clock is ahead, as its ``now`` and the times of question and answer bound it."""
    return now - answered, now + NOW_IS_CUT_TO - 1 - asked
