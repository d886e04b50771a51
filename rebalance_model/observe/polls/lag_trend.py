"""Track lag over a window of answers, and the usual rates to compare with.

No fixed number of messages defines a high lag: each queue is compared with itself. Its lag is rising since the answer
after which it has been higher each time, and has not fallen; a constant lag is not rising. The usual rates of
production and consumption are measured over at least a whole window without such a rise.
"""

from rebalance_model.entities import bounded
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import LagTrend, QueueState

HOUR = 3_600_000
STEPS = 4
"""Growing lag reaches another maximum in each of this many parts of a window."""


def note(queue: QueueState, lag_before: int | None, lag: int | None, *, covered: bool, policy: Policy) -> None:
    """Process an answer of the broker, which is already applied to the queue.

    Its lag was ``lag_before`` (messages) in the answer before; ``covered`` if nothing is missing between the two.
    """
    now, broker, trend = queue.stats_at, queue.broker_offset, queue.lag_trend
    if lag is None or broker is None:
        return
    commit = broker - lag
    if trend is None or not covered or lag_before is None:
        usual = (trend.produced, trend.consumed) if trend is not None else (None, None)
        queue.lag_trend = LagTrend(now, commit, broker, now, commit, broker, lag, now, *usual)
    elif lag < lag_before or lag <= trend.rising_broker - trend.rising_commit:
        if max(now - trend.at, now - trend.rising_since) >= policy.lag_growth_window:
            _measure(trend, now, commit, broker, policy)
        trend.rising_since, trend.rising_commit, trend.rising_broker = now, commit, broker
        trend.top, trend.top_at = lag, now
    elif lag > trend.top:
        if now - trend.top_at > policy.lag_growth_window // STEPS:  # it was constant: this is another rise
            trend.rising_since, trend.rising_commit, trend.rising_broker = now, commit, broker
        trend.top, trend.top_at = lag, now


def is_growing(queue: QueueState, policy: Policy) -> bool:
    """Return whether lag has grown in a full window, to its end, and never fell in it."""
    trend, window = queue.lag_trend, policy.lag_growth_window
    if trend is None or queue.stats_at - trend.rising_since < window:
        return False
    return queue.stats_at - trend.top_at <= window // STEPS


def of_late(queue: QueueState) -> tuple[int, int]:
    """Return the messages per hour that were produced and consumed while lag has been rising."""
    trend, now = queue.lag_trend, queue.stats_at
    if trend is None or now <= trend.rising_since:
        return 0, 0
    hours = (now - trend.rising_since) / HOUR
    produced, consumed = queue.broker_offset or 0, queue.position or 0
    return round((produced - trend.rising_broker) / hours), round((consumed - trend.rising_commit) / hours)


def _measure(trend: LagTrend, now: int, commit: int, broker: int, policy: Policy) -> None:
    """End a measuring period when lag stops rising: it yields the usual rates, unless lag had risen for long."""
    span = now - trend.at
    had_risen = now - trend.rising_since > policy.lag_growth_window
    if span >= policy.lag_growth_window > 0 and not had_risen:
        trend.produced = bounded((broker - trend.broker) * HOUR // span)
        trend.consumed = bounded((commit - trend.commit) * HOUR // span)
    if span >= policy.lag_growth_window or had_risen:
        trend.at, trend.commit, trend.broker = now, commit, broker
