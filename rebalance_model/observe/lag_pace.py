"""How lag goes over a window of answers, and the usual pace to hold it against.

No fixed number of messages says what much lag is: a queue is judged by itself. Its lag is rising since the answer from
which on it has not fallen, not once; and how fast it is usually filled and consumed is measured over at least a whole
window in which that was not so.
"""

from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import Pace, QueueState

HOUR = 3_600_000


def note(queue: QueueState, lag_before: int | None, lag: int | None, *, covered: bool, policy: Policy) -> None:
    """Take an answer of the broker, which stands in the queue already.

    Args:
        queue: the queue.
        lag_before: its lag at the answer before.
        lag: its lag now.
        covered: whether nothing is missing between the two.
        policy: the policy.
    """
    commit, broker = queue.commit_offset, queue.broker_offset
    if commit is None or broker is None:
        return
    pace = queue.pace
    if pace is None or not covered:
        usual = (pace.produced, pace.consumed) if pace is not None else (None, None)
        pace = queue.pace = Pace(queue.stats_at, commit, broker, produced=usual[0], consumed=usual[1])
    if not lag or (lag_before is not None and lag < lag_before):
        pace.rising_since = 0
    elif not pace.rising_since:
        pace.rising_since, pace.rising_commit, pace.rising_broker = queue.stats_at, commit, broker
        _measure(pace, queue.stats_at, commit, broker, policy)
    if not pace.rising_since:
        _measure(pace, queue.stats_at, commit, broker, policy)


def grown(queue: QueueState, policy: Policy) -> int | None:
    """By how many messages lag has grown in a full window in which it never fell; None where there is none such."""
    pace = queue.pace
    if pace is None or not pace.rising_since or queue.stats_at - pace.rising_since < policy.lag_growth_window:
        return None
    return (queue.broker_offset or 0) - (queue.commit_offset or 0) - (pace.rising_broker - pace.rising_commit)


def of_late(queue: QueueState) -> tuple[int, int]:
    """Messages an hour that were produced and consumed while lag has been rising."""
    pace, now = queue.pace, queue.stats_at
    if pace is None or now <= pace.rising_since:
        return 0, 0
    span = now - pace.rising_since
    produced, consumed = (queue.broker_offset or 0) - pace.rising_broker, (queue.commit_offset or 0) - pace.rising_commit
    return produced * HOUR // span, consumed * HOUR // span


def _measure(pace: Pace, now: int, commit: int, broker: int, policy: Policy) -> None:
    """Lag is not rising: the period that ends here says how it usually goes, if it is long enough."""
    span = now - pace.at
    if span >= policy.lag_growth_window and span:
        pace.produced, pace.consumed = (broker - pace.broker) * HOUR // span, (commit - pace.commit) * HOUR // span
        pace.at, pace.commit, pace.broker = now, commit, broker
