"""How lag goes over a window of answers, and the usual pace to hold it against.

No fixed number of messages says what much lag is: a queue is judged by itself. Its lag is rising since the answer after
which it has been higher each time, and has not fallen; a lag that stands is not rising. How fast the queue is usually
filled and consumed is measured over at least a whole window in which that was not so.
"""

from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import Pace, QueueState

HOUR = 3_600_000
STEPS = 4
"""Lag that is growing reaches another height in each of so many parts of a window."""


def note(queue: QueueState, lag_before: int | None, lag: int | None, *, covered: bool, policy: Policy) -> None:
    """Take an answer of the broker, which stands in the queue already.

    Args:
        queue: the queue.
        lag_before: its lag at the answer before.
        lag: its lag now.
        covered: whether nothing is missing between the two.
        policy: the policy.
    """
    now, commit, broker, pace = queue.stats_at, queue.commit_offset, queue.broker_offset, queue.pace
    if lag is None or commit is None or broker is None:
        return
    if pace is None or not covered or lag_before is None:
        usual = (pace.produced, pace.consumed) if pace is not None else (None, None)
        queue.pace = Pace(now, commit, broker, now, commit, broker, lag, now, *usual)
    elif lag < lag_before or lag <= pace.rising_broker - pace.rising_commit:
        _measure(pace, now, commit, broker, policy)
        pace.rising_since, pace.rising_commit, pace.rising_broker = now, commit, broker
        pace.top, pace.top_at = lag, now
    elif lag > pace.top:
        if now - pace.top_at > policy.lag_growth_window // STEPS:  # it stood: this is another rise
            pace.rising_since, pace.rising_commit, pace.rising_broker = now, commit, broker
        pace.top, pace.top_at = lag, now


def is_growing(queue: QueueState, policy: Policy) -> bool:
    """Whether lag has grown in a full window, to its end, and never fell in it."""
    pace, window = queue.pace, policy.lag_growth_window
    if pace is None or queue.stats_at - pace.rising_since < window:
        return False
    return queue.stats_at - pace.top_at <= window // STEPS


def of_late(queue: QueueState) -> tuple[int, int]:
    """Messages an hour that were produced and consumed while lag has been rising."""
    pace, now = queue.pace, queue.stats_at
    if pace is None or now <= pace.rising_since:
        return 0, 0
    hours = (now - pace.rising_since) / HOUR
    produced, consumed = queue.broker_offset or 0, queue.commit_offset or 0
    return round((produced - pace.rising_broker) / hours), round((consumed - pace.rising_commit) / hours)


def _measure(pace: Pace, now: int, commit: int, broker: int, policy: Policy) -> None:
    """Lag is not rising any more: the period that ends here says how it usually goes, unless it had risen for long."""
    span = now - pace.at
    had_risen = now - pace.rising_since > policy.lag_growth_window
    if span >= policy.lag_growth_window > 0 and not had_risen:
        pace.produced, pace.consumed = (broker - pace.broker) * HOUR // span, (commit - pace.commit) * HOUR // span
    if span >= policy.lag_growth_window or had_risen:
        pace.at, pace.commit, pace.broker = now, commit, broker
