"""One round of the poll collector: its deadline, the groups that it has, and what became of its requests."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import msgspec

from rebalance_model.observe.events import RpcError
from streaming.base.span import Span
from streaming.collect.response_parts import Payload
from streaming.collect.stacks import Member

Share: TypeAlias = Callable[[str, str], bool]
"""A function that says whether this collector polls a group, by its cluster and its name."""
Request: TypeAlias = Callable[[float], Awaitable[Payload]]
"""Sends a request that has so many seconds, and returns the answer."""


def everything(_cluster: str, _group: str) -> bool:
    """Return true: the share of a collector that divides the groups with no other."""
    return True


class Summary(msgspec.Struct):
    """The numbers of one round, and what was refused."""

    clusters: str = ""
    """The clusters of a collector that polls several, separated by commas."""
    partitions: int | None = None
    """The number of partitions whose groups were polled, if several collectors divide them."""
    groups: int = 0
    members: int = 0
    answered: int = 0
    errors: int = 0
    unreadable: int = 0
    """Answers that can't be read, whole or in part."""
    pending: int = 0
    late: int = 0
    """Groups of brokers that got no request, because the round's time was over."""
    silent: int = 0
    """Brokers that were asked and answered nothing."""
    not_asked: int = 0
    """Brokers that have been silent before, and had no turn."""
    ms: int = 0
    unreadable_texts: list[str] = msgspec.field(default_factory=list)
    """The unreadable parts, each with who sent it; the first ones."""
    refusals: set[str] = msgspec.field(default_factory=set)
    """Why servers refused requests for reasons of TLS or access control, each with what to do."""
    trace: Span | None = None
    """The round, with the requests to each server as its parts."""

    def numbers(self) -> dict[str, int]:
        """Return the numbers by name."""
        return {name: value for name in self.__struct_fields__ if isinstance(value := getattr(self, name), int)}


class PolledAnswer(NamedTuple):
    """The answer to one request, or its error, with the times of both by `SourceClock.steady`."""

    asked: int
    answered: int
    payload: Payload | None
    error: RpcError | None

    def with_fields(self, **fields: object) -> "PolledAnswer":
        """Return the answer with further fields; an error stays as it is."""
        return self if self.payload is None else self._replace(payload={**self.payload, **fields})

    def rows(self, field: str) -> list[Any]:
        """Return the rows in a field of the answer; none in an error."""
        return self.payload.get(field, []) if self.payload else []


class LeftError(Exception):
    """Another collector polls the group now."""


class PolledGroup:
    """The requests about one group in this round so far."""

    def __init__(self, cluster: str, name: str, share: Share) -> None:
        self.cluster = cluster
        self.name = name
        self._share = share
        self.routes: dict[str, asyncio.Task[None]] = {}
        self.topics: set[str] = set()
        """The topics that answers of this round name."""
        self.members: set[str] = set()
        """Its clients, as brokers list them."""
        self.asked: set[str] = set()
        """Clients that are asked for their own state at some broker, except where they did not answer the last time."""

    def member(self, client: str) -> Member:
        """Return one of its clients."""
        return self.cluster, self.name, client

    def is_ours(self) -> bool:
        """Return whether this collector polls the group, as of now."""
        return self._share(self.cluster, self.name)


class Round:
    """One round: its deadline on the loop's clock, and its requests so far."""

    def __init__(self, seconds: float, tasks: asyncio.TaskGroup, share: Share, number: int) -> None:
        self.tasks = tasks
        self.number = number
        """It counts from 0."""
        self.share = share
        self.seconds = seconds
        self.started = asyncio.get_running_loop().time()
        self.deadline = self.started + seconds
        self.groups: dict[tuple[str, str], PolledGroup] = {}
        self.routes: dict[str, asyncio.Task[PolledAnswer]] = {}
        self.no_route: RpcError | None = None
        """Why no name server has answered a request for a route: the others are not sent then."""
        self.clients: set[asyncio.Task[None]] = set()
        self.at_proxies: set[tuple[str, str]] = set()
        """The groups about which proxies are asked, by cluster and name."""

    def is_turn_of(self, group: str, every: int) -> bool:
        """Return whether it is the group's turn, once in ``every`` rounds; in the first round all have theirs."""
        return self.number == 0 or (self.number + crc32(group.encode())) % every == 0

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - asyncio.get_running_loop().time()

    async def has_time(self, room: asyncio.Semaphore) -> bool:
        """Wait for room for another group; return False once the deadline has passed."""
        try:
            async with asyncio.timeout_at(self.deadline):
                await asyncio.sleep(0)  # past the deadline even if there is room
                await room.acquire()
        except TimeoutError:
            return False
        return True

    def group(self, cluster: str, name: str) -> PolledGroup:
        """Return one of its groups."""
        return self.groups.setdefault((cluster, name), PolledGroup(cluster, name, self.share))
