"""The common part of the strategies: one way to divide queues, for one client or for the whole group.

Each strategy defines its division once (`AllocateStrategy.division`): the part common to the whole group is computed
when the first share is requested, and each client's share is derived from it. So `plan` equals `allocate` for every
client by construction, errors included, and computes the common part once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import ClassVar

from rebalance_model.entities import MessageQueue
from rebalance_model.errors import ModelError


class AllocationError(ModelError, ValueError):
    """Arguments that Java refuses with IllegalArgumentException, or a strategy or parameter that Java doesn't have."""


class AllocationNullError(AllocationError):
    """A null where Java throws NullPointerException: as with any other exception, the client keeps its queues."""


Division = Callable[[str | None], list[MessageQueue] | None]
"""Returns a client's share by its id: what that client itself would compute. Raises what `allocate` raises."""


class AllocateStrategy(ABC):
    """Divides the queues of a topic among the clients of a group (AllocateMessageQueueStrategy).

    As in Java, queues and client ids are taken in the given order: RebalanceImpl.rebalanceByTopic has sorted them, and
    no strategy sorts them or removes duplicates. None is Java's null.
    """

    java_class: ClassVar[str]
    """The simple name of the Java class, as a client declares it (GET_CONSUMER_RUNNING_INFO)."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the strategy's name (getName)."""

    @abstractmethod
    def division(self, group: str, mq_all: Sequence[MessageQueue] | None, cid_all: Sequence[str] | None) -> Division:
        """Return the division of queues among clients; errors are raised when a client's share is requested."""

    def allocate(
        self,
        group: str,
        current_cid: str | None,
        mq_all: Sequence[MessageQueue] | None,
        cid_all: Sequence[str] | None,
    ) -> list[MessageQueue] | None:
        """Return the queues of one client, as that client itself would compute them.

        Raises:
            AllocationError: if Java throws IllegalArgumentException, with Java's message.
            AllocationNullError: if Java throws NullPointerException.
        """
        return self.division(group, mq_all, cid_all)(current_cid)

    def plan(
        self, group: str, mq_all: Sequence[MessageQueue] | None, cid_all: Sequence[str] | None
    ) -> dict[str, list[MessageQueue] | None]:
        """Return the result of `allocate` for each client id, in the order of the list; empty for an empty list.

        Raises:
            AllocationError: the error of the first client that is refused.
        """
        share = self.division(group, mq_all, cid_all)
        return {cid: share(cid) for cid in dict.fromkeys(cid_all or ())}


class CheckedStrategy(AllocateStrategy):
    """A strategy that checks its arguments first (AbstractAllocateMessageQueueStrategy)."""

    @abstractmethod
    def _divide(
        self, group: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> Callable[[int], list[MessageQueue]]:
        """Return the function from a client's first index in the list to its queues; both lists are non-empty."""

    def division(
        self, group: str, mq_all: Sequence[MessageQueue] | None, cid_all: Sequence[str] | None
    ) -> Callable[[str | None], list[MessageQueue]]:
        """Check the arguments, then divide; a client that is not in the list gets an empty share."""
        queues, clients = mq_all or (), cid_all or ()
        first_places = dict(zip(reversed(clients), reversed(range(len(clients))), strict=True))
        divided = cache(lambda: self._divide(group, queues, clients))

        def share(current_cid: str | None) -> list[MessageQueue]:
            if not current_cid:
                msg = "currentCID is empty"
                raise AllocationError(msg)
            if not queues:
                msg = "mqAll is null or mqAll empty"
                raise AllocationError(msg)
            if not clients:
                msg = "cidAll is null or cidAll empty"
                raise AllocationError(msg)
            place = first_places.get(current_cid)
            return [] if place is None else divided()(place)

        return share
