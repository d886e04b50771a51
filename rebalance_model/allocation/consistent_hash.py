"""CONSISTENT_HASH: a client that leaves moves only its own queues (AllocateMessageQueueConsistentHash)."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import ClassVar

from rebalance_model.allocation.errors import AllocationError
from rebalance_model.allocation.strategy import CheckedStrategy
from rebalance_model.entities import INT32_MAX, MessageQueue, java_text

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
