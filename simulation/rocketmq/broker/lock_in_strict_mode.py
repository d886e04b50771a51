"""Locks that need a majority: lockInStrictMode (AdminBrokerProcessor.lockBatchMQ; 5.x, off by default).

The broker that gets the request locks in its own table first, then requests the same of every other broker of its name,
with a timeout of 1000 ms for each and 2000 ms for all; these requests carry onlyThisBroker, so the others decide alone.
Locks granted by a minority are not revoked: they block other clients there until they expire. An unlock in this mode is
sent to every member, including the receiving broker, and is answered before any of them has executed it.

Not modelled: in Java, simultaneous answers may overwrite each other's vote (get and put of a concurrent map), so that
it may count too few votes.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from rebalance_model.broker.broker_config import BrokerConfig
from rebalance_model.entities import MessageQueue

ANSWER_TIMEOUT = 1_000
"""The timeout of one broker's answer; milliseconds."""
ANSWERS_TIMEOUT = 2_000
"""The timeout for all answers; milliseconds."""


def quorum(config: BrokerConfig, *, only_this_broker: bool) -> int:
    """Return how many brokers must grant a queue; 1 if the broker that receives the request decides alone."""
    if only_this_broker or not config.lock_in_strict_mode:
        return 1
    return config.total_replicas // 2 + 1


def granted_by(
    votes_needed: int, own: Collection[MessageQueue], others: Iterable[Collection[MessageQueue]]
) -> tuple[MessageQueue, ...]:
    """Return the queues that enough brokers granted.

    Args:
        votes_needed: `quorum`.
        own: what the receiving broker granted itself.
        others: what each other broker granted; one that did not answer in time has no vote.
    """
    votes = Counter(own)
    for granted in others:
        votes.update(granted)
    return tuple(mq for mq, count in votes.items() if count >= votes_needed)
