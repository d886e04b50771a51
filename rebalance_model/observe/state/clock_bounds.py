"""Bounds of the difference of two clocks."""

Bounds = tuple[int, int]
"""The minimum and maximum of one clock minus another one; milliseconds."""
NOW_IS_CUT_TO = 1_000
"""The resolution of BrokerStatus.now (boot time + runtime, whole seconds); milliseconds."""


def bounds_of_now(asked: int, answered: int, now: int) -> Bounds:
    """Return how far a broker's clock is ahead, as bounded by its ``now`` and the times of request and answer."""
    return now - answered, now + NOW_IS_CUT_TO - 1 - asked
