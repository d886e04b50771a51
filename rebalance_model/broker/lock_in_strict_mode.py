"""Locks that need a majority: lockInStrictMode (AdminBrokerProcessor.lockBatchMQ; 5.x, off by default).

The broker that gets the request locks in its own table first, then asks every other broker of its name to do the same,
each with 1000 ms to answer and 2000 ms for all; these requests carry onlyThisBroker, so the others decide alone. What a
minority granted is not taken back: it blocks other clients there until it expires. An unlock in this mode goes to every
member, the one that is asked included, and is answered before any of them has done it.

Not modelled: answers that come at the same time may overwrite each other's vote in Java (get and put of a concurrent
map), so that it may count too few.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from rebalance_model.broker.broker_config import BrokerConfig
from rebalance_model.entities import MessageQueue

ANSWER_TIMEOUT = 1_000
ANSWERS_TIMEOUT = 2_000


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
        own: what the broker that is asked granted itself.
        others: what each other broker granted; one that did not answer in time has no vote.
    """
    votes = Counter(own)
    for granted in others:
        votes.update(granted)
    return tuple(mq for mq, count in votes.items() if count >= votes_needed)
