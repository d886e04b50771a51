"""The allocation strategies that a client doesn't declare completely, with the parameters that the policy states.

A client declares the class of its strategy, not the parameters. Those of CONFIG, MACHINE_ROOM and MACHINE_ROOM_NEARBY
are code or settings of the application, so the policy repeats them: lists of queues, rooms, and how a name leads to its
room. They become the arguments that the Java class has.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import ClassVar

from rebalance_model.allocation import AllocateStrategy, strategy
from rebalance_model.allocation.strategy import Division
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.policy import NEARBY, Policy

_Lists = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class RoomPatterns:
    """Finds rooms by regular expressions, whose first group is the room; no match: no room (MachineRoomResolver)."""

    broker: re.Pattern[str]
    client: re.Pattern[str]

    def broker_deploy_in(self, mq: MessageQueue) -> str | None:
        """Return the room of a queue's broker."""
        return _room(self.broker, mq.broker)

    def consumer_deploy_in(self, cid: str) -> str | None:
        """Return the room of a client."""
        return _room(self.client, cid)


def _room(pattern: re.Pattern[str], name: str) -> str | None:
    found = pattern.search(name)
    return found[1] if found else None


@dataclass(frozen=True)
class ListOfEach(AllocateStrategy):
    """CONFIG in each client, with the list of that client; one without a list has null, as in Java."""

    name = "CONFIG"
    java_class: ClassVar[str] = "AllocateMessageQueueByConfig"

    lists: Sequence[tuple[str, AllocateStrategy]]
    """The strategy of the clients that a glob of ids matches; the first match counts."""

    def division(self, group: str, mq_all: Sequence[MessageQueue] | None, cid_all: Sequence[str] | None) -> Division:
        """Return the division that consists of each client's own."""

        def share(cid: str | None) -> list[MessageQueue] | None:
            own = next((one for pattern, one in self.lists if fnmatchcase(cid or "", pattern)), None)
            return own.allocate(group, cid, mq_all, cid_all) if own is not None else None

        return share


def configured_strategy(policy: Policy) -> AllocateStrategy | None:
    """Return the strategy that a policy states; None: the clients declare it."""
    if not policy.allocate_strategy:
        return None
    lists = tuple((pattern, tuple(queues)) for pattern, queues in policy.message_queue_list.items())
    return _made(
        policy.allocate_strategy, lists, frozenset(policy.consumeridcs), policy.broker_deploy_in,
        policy.consumer_deploy_in,
    )  # fmt: skip


@cache
def _made(name: str, lists: _Lists, rooms: frozenset[str], broker: str, client: str) -> AllocateStrategy:
    if name == "CONFIG":
        return ListOfEach([(pattern, _list_of(queues)) for pattern, queues in lists])
    if name == "MACHINE_ROOM":
        return strategy(name, consumeridcs=rooms)
    if name.startswith(NEARBY):
        return strategy(name, resolver=RoomPatterns(re.compile(broker), re.compile(client)))
    return strategy(name)


def _list_of(queues: Sequence[str]) -> AllocateStrategy:
    return strategy("CONFIG", message_queue_list=[_queue(queue) for queue in queues])


def _queue(name: str) -> MessageQueue:
    topic, _, rest = name.partition("@")
    broker, _, queue_id = rest.rpartition(":")
    return MessageQueue(topic, broker, int(queue_id))


def owners(
    chosen: AllocateStrategy, group: str, queues: Sequence[MessageQueue], clients: Sequence[str]
) -> dict[MessageQueue, str | None]:
    """Return the client that a strategy names for each queue; None for a queue that it assigns to no client, or to two.

    Raises:
        AllocationError: the strategy refuses the division; every client keeps its queues then.
    """
    owner_of: dict[MessageQueue, str | None] = dict.fromkeys(queues)
    named: set[MessageQueue] = set()
    for client, share in chosen.plan(group, queues, clients).items():
        for mq in share or ():
            if mq in owner_of:  # CONFIG gives each client its list, for every topic
                owner_of[mq] = None if mq in named else client
                named.add(mq)
    return owner_of
