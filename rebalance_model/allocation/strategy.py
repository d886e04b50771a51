"""What every strategy shares: its interface, the argument checks, and the plan for a whole group."""

from collections.abc import Sequence
from typing import ClassVar, Protocol

from rebalance_model.entities import MessageQueue


class AllocationError(ValueError):
    """The arguments that Java refuses with IllegalArgumentException."""


class AllocateStrategy(Protocol):
    """Divides the queues of a topic among the clients of a group (AllocateMessageQueueStrategy)."""

    name: ClassVar[str]
    java_class: ClassVar[str]

    def allocate(
        self, group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """The queues of one client, as that client itself would compute them.

        Raises:
            AllocationError: where Java throws IllegalArgumentException.
        """
        ...


def check(current_cid: str | None, mq_all: Sequence[MessageQueue] | None, cid_all: Sequence[str] | None) -> bool:
    """AbstractAllocateMessageQueueStrategy.check: the same order and meaning of errors.

    Returns:
        Whether the client is in the list; if not, it gets nothing.
    """
    if not current_cid:
        msg = "currentCID is empty"
        raise AllocationError(msg)
    if not mq_all:
        msg = "mqAll is null or mqAll empty"
        raise AllocationError(msg)
    if not cid_all:
        msg = "cidAll is null or cidAll empty"
        raise AllocationError(msg)
    return current_cid in cid_all


def plan(
    strategy: AllocateStrategy, group: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
) -> dict[MessageQueue, str]:
    """Who gets each queue if every client computes its own share; a queue that nobody computes is left out."""
    return {mq: cid for cid in dict.fromkeys(cid_all) for mq in strategy.allocate(group, cid, mq_all, cid_all)}
