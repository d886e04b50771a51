"""Decide when a client instance rebalances (RebalanceService): one thread for all its groups.

A state machine of the thread's waits. The driver sleeps until `due`, calls `wake`, rebalances if that returns True, and
reports the end by `done`:

    wait ≤ 20 s or wakeup ─► less than 1 s since the last end? ─► wait the rest
                                        └► rebalance ─► wait 20 s, or 1 s if a group is not balanced
"""

from collections.abc import Iterable

from rebalance_model.client import WAIT_INTERVAL
from rebalance_model.dialect import RELEASE_5, Dialect
from simulation.rocketmq.client.consumer import Consumer
from simulation.rocketmq.client.rebalance import try_rebalance

MIN_INTERVAL = 1_000
"""rocketmq.client.rebalance.minInterval."""


class RebalanceService:
    """The thread of one client instance; times are milliseconds of the client's clock."""

    def __init__(self, created: int, dialect: Dialect = RELEASE_5) -> None:
        self._paced = dialect.paced_rebalance
        self._notified = False
        self._last_rebalance = created
        self._wait_until = created + WAIT_INTERVAL

    @property
    def due(self) -> int:
        """Return when the wait ends without a wakeup (milliseconds); 0 or less while a wakeup is pending."""
        return 0 if self._notified else self._wait_until

    def wakeup(self) -> None:
        """End the wait, or the next one if a rebalance is running; several wakeups are one."""
        self._notified = True

    def wake(self, now: int) -> bool:
        """End the wait.

        Returns:
            Whether to rebalance now. If not, the thread waits again until `due`.
        """
        self._notified = False
        since = now - self._last_rebalance
        if self._paced and since < MIN_INTERVAL:
            self._wait_until = now + MIN_INTERVAL - since
            return False
        return True

    def done(self, now: int, *, balanced: bool) -> None:
        """Record the end of a rebalance; the thread then waits until `due`."""
        self._last_rebalance = now
        self._wait_until = now + (WAIT_INTERVAL if balanced or not self._paced else MIN_INTERVAL)


async def do_rebalance(consumers: Iterable[Consumer]) -> bool:
    """Rebalance every group of a client instance, one after the other (MQClientInstance.doRebalance).

    Returns:
        Whether all are balanced.
    """
    balanced = True
    for consumer in consumers:
        balanced &= await try_rebalance(consumer)
    return balanced
