"""The six strategies of RocketMQ's clients, each a class with the name and the arithmetic of Java's.

AVG gives contiguous shares whose sizes differ by at most one (AllocateMessageQueueAveragely); AVG_BY_CIRCLE deals
queues out one by one (AllocateMessageQueueAveragelyByCircle); CONFIG gives those that are configured for the client
(AllocateMessageQueueByConfig); MACHINE_ROOM only queues of brokers in chosen rooms
(AllocateMessageQueueByMachineRoom); MACHINE_ROOM_NEARBY gives each room's queues to its clients, by another strategy
(AllocateMachineRoomNearby); with CONSISTENT_HASH a client that leaves moves only its own queues
(AllocateMessageQueueConsistentHash).
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from hashlib import md5
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

from rebalance_model.allocation.strategy import (
    AllocateStrategy,
    AllocationError,
    AllocationNullError,
    CheckedStrategy,
    Division,
)
from rebalance_model.entities import INT32_MAX, MessageQueue, java_order, java_text


class Averagely(CheckedStrategy):
    """The default strategy. The first ``M % N`` clients get one queue more than the rest."""

    name = "AVG"
    java_class: ClassVar[str] = "AllocateMessageQueueAveragely"

    def _divide(
        self, group: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> Callable[[int], list[MessageQueue]]:
        del group
        size, left_over = divmod(len(mq_all), len(cid_all))

        def share(place: int) -> list[MessageQueue]:
            start = place * size + min(place, left_over)
            return list(mq_all[start : start + size + (place < left_over)])

        return share


class AveragelyByCircle(CheckedStrategy):
    """Spreads a broker's queues over all clients: every N-th queue, starting at the client's own index."""

    name = "AVG_BY_CIRCLE"
    java_class: ClassVar[str] = "AllocateMessageQueueAveragelyByCircle"

    def _divide(
        self, group: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> Callable[[int], list[MessageQueue]]:
        del group
        return lambda place: list(mq_all[place :: len(cid_all)])


@dataclass(frozen=True)
class ByConfig(AllocateStrategy):
    """Returns the configured list to every client, for every topic; nothing is checked, not even whether it was set."""

    name = "CONFIG"
    java_class: ClassVar[str] = "AllocateMessageQueueByConfig"

    message_queue_list: list[MessageQueue] | None = None

    def division(self, group: str, mq_all: Sequence[MessageQueue] | None, cid_all: Sequence[str] | None) -> Division:
        """Return the configured list itself, not a copy, as Java does."""
        del group, mq_all, cid_all
        return lambda _: self.message_queue_list


@dataclass(frozen=True)
class ByMachineRoom(CheckedStrategy):
    """Gives shares of equal size from the front, then the remaining queues from the end to the first clients.

    A broker's room is the part of its name before the single ``@``; queues of other brokers are not assigned.
    """

    name = "MACHINE_ROOM"
    java_class: ClassVar[str] = "AllocateMessageQueueByMachineRoom"

    consumeridcs: AbstractSet[str] | None = None
    """The chosen rooms."""

    def _divide(
        self, group: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> Callable[[int], list[MessageQueue]]:
        del group
        chosen = [mq for mq in mq_all if self._is_chosen(mq.broker)]
        size = len(chosen) // len(cid_all)

        def share(place: int) -> list[MessageQueue]:
            start, tail = place * size, len(cid_all) * size + place
            return chosen[start : start + size] + chosen[tail : tail + 1]

        return share

    def _is_chosen(self, broker: str) -> bool:
        parts = broker.rstrip("@").split("@")  # Java's split drops empty parts at the end
        if len(parts) != 2:
            return False
        if self.consumeridcs is None:
            msg = "consumeridcs is null"
            raise AllocationNullError(msg)
        return parts[0] in self.consumeridcs


HashFunction = Callable[[str], int]
"""A place on the ring, a Java long, for the key of a virtual node or the text of a queue (HashFunction)."""


def md5_hash(key: str) -> int:
    """Return the first four bytes of the MD5 as an unsigned number (ConsistentHashRouter.MD5Hash)."""
    digest = md5(key.encode("utf-8", "replace"), usedforsecurity=False).digest()  # a lone surrogate is "?" in Java, too
    return int.from_bytes(digest[:4], "big")


@dataclass(frozen=True)
class ConsistentHash(CheckedStrategy):
    """A queue goes to the client whose virtual node is the next one on a ring of hashes.

    Raises:
        AllocationError: a negative number of virtual nodes, or one beyond a Java int.
    """

    name = "CONSISTENT_HASH"
    java_class: ClassVar[str] = "AllocateMessageQueueConsistentHash"

    virtual_node_cnt: int = 10
    custom_hash_function: HashFunction | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.virtual_node_cnt <= INT32_MAX:
            msg = f"illegal virtualNodeCnt :{self.virtual_node_cnt}"
            raise AllocationError(msg)

    def _divide(
        self, group: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> Callable[[int], list[MessageQueue]]:
        del group
        place_of = self.custom_hash_function or md5_hash
        ring = self._ring(cid_all, place_of)
        places = sorted(ring)
        shares: defaultdict[str, list[MessageQueue]] = defaultdict(list)
        for mq in mq_all if places else ():
            next_place = bisect_left(places, place_of(java_text(mq))) % len(places)
            shares[ring[places[next_place]]].append(mq)
        return lambda place: list(shares[cid_all[place]])

    def _ring(self, cid_all: Sequence[str], place_of: HashFunction) -> dict[int, str]:
        """Return the client at each place of the ring (ConsistentHashRouter.addNode).

        A client that occurs twice in the list gets further nodes, numbered from the count that it has on the ring.
        Of two nodes at one place the later stays, and the earlier no longer counts.
        """
        ring: dict[int, str] = {}
        nodes: Counter[str] = Counter()
        for cid in cid_all:
            first = nodes[cid]
            for number in range(first, first + self.virtual_node_cnt):
                place = place_of(f"{cid}-{number}")
                if (earlier := ring.get(place)) is not None:
                    nodes[earlier] -= 1
                ring[place] = cid
                nodes[cid] += 1
        return ring


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
