"""MACHINE_ROOM_NEARBY: each room's clients take its queues, by another strategy (AllocateMachineRoomNearby)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

from rebalance_model.allocation.errors import AllocationError, AllocationNullError
from rebalance_model.allocation.strategy import AllocateStrategy, CheckedStrategy, Division
from rebalance_model.entities import MessageQueue, java_order, java_text

T = TypeVar("T")

NEARBY_PREFIX = "MACHINE_ROOM_NEARBY-"


@runtime_checkable
class MachineRoomResolver(Protocol):
    """Returns the room of a queue or a client; None or an empty room is refused (MachineRoomResolver)."""

    def broker_deploy_in(self, mq: MessageQueue) -> str | None:
        """Return the room of a queue's broker."""

    def consumer_deploy_in(self, cid: str) -> str | None:
        """Return the room of a client."""


class MachineRoomNearby(CheckedStrategy):
    """A room's queues go to its own clients; those of a room without clients go to the clients of all rooms.

    Each room is divided separately, so the remaining queues of several rooms accumulate on the same clients.

    Raises:
        AllocationNullError: no inner strategy, or no resolver.
    """

    java_class: ClassVar[str] = "AllocateMachineRoomNearby"

    def __init__(self, inner: AllocateStrategy | None = None, resolver: MachineRoomResolver | None = None) -> None:
        if inner is None:
            msg = "allocateMessageQueueStrategy is null"
            raise AllocationNullError(msg)
        if resolver is None:
            msg = "machineRoomResolver is null"
            raise AllocationNullError(msg)
        self.inner = inner
        self.resolver = resolver

    @property
    def name(self) -> str:
        """Return the strategy's name followed by the name of the inner strategy."""
        return f"{NEARBY_PREFIX}{self.inner.name}"

    def _divide(
        self, group: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> Callable[[int], list[MessageQueue]]:
        queues = _by_room(mq_all, self.resolver.broker_deploy_in, lambda mq: f"mq {java_text(mq)}")
        clients = _by_room(cid_all, self.resolver.consumer_deploy_in, lambda cid: f"consumer id {cid}")
        empty_rooms = {
            room: self.inner.division(group, queues[room], cid_all)
            for room in sorted(queues, key=java_order)
            if room not in clients
        }

        @cache
        def own_division(room: str) -> Division:
            return self.inner.division(group, queues[room], clients.get(room))

        def share(place: int) -> list[MessageQueue]:
            cid = cid_all[place]
            own_room = self.resolver.consumer_deploy_in(cid)  # called again, as in Java: the result may differ
            if own_room is None:
                msg = "the machine room that is looked up is null"
                raise AllocationNullError(msg)
            divisions = [own_division(own_room)] if own_room in queues else []
            divisions += [division for room, division in empty_rooms.items() if room != own_room]
            return [mq for division in divisions for mq in _never_null(division(cid))]

        return share


def _by_room(things: Iterable[T], room_of: Callable[[T], str | None], called: Callable[[T], str]) -> dict[str, list[T]]:
    rooms: defaultdict[str, list[T]] = defaultdict(list)
    for thing in things:
        room = room_of(thing)
        if not room:
            msg = f"Machine room is null for {called(thing)}"
            raise AllocationError(msg)
        rooms[room].append(thing)
    return rooms


def _never_null(share: list[MessageQueue] | None) -> list[MessageQueue]:
    if share is None:
        msg = "the inner strategy's share is null"  # CONFIG without a list
        raise AllocationNullError(msg)
    return share
