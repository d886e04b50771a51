"""The collector's requests, typed: each method is one RPC and changes nothing in the cluster.

A server answers in one connection, one frame after the other, and a hundred frames of 10 MB take it and the network
seconds. A subject that has given a large answer is asked after the others, for one at a time, at a limited pace.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, TypeVar

from rebalance_model.observe.events import UNREACHABLE
from streaming.base.limits import FRAME_BYTES, LARGE_ANSWERS_BYTES_A_SECOND, LARGE_ANSWERS_KEPT
from streaming.base.span import Attribute, Span
from streaming.base.times import now_ms
from streaming.collect import client_responses, cluster_responses
from streaming.collect.client import LargeAnswerError, RemotingClient, RpcFailedError, StuckAnswerError, UnreadableError
from streaming.collect.cluster_responses import Listed, ListedBroker
from streaming.collect.frames import LARGE_BYTES
from streaming.collect.reading import Reading
from streaming.collect.requests import ReadCode, Request
from streaming.collect.response_parts import Payload

SERVERS_MAX: Final = 64
"""Servers of a round with a span of their own; the others share one."""
_OTHERS: Final = "others"


@dataclass
class ServerRequests:
    """The requests to one server that have ended."""

    began_ns: int
    """When the first one was sent, epoch nanoseconds."""
    ended_ns: int = 0
    """When the last answer came."""
    unanswered: int = 0
    """Requests without an answer, or with one that can't be read."""
    slowest_ns: int = 0
    by_code: Counter[str] = field(default_factory=Counter)


class RoundRequests:
    """The requests of one round, by the address of the server."""

    def __init__(self) -> None:
        self._servers: dict[str, ServerRequests] = {}

    @contextmanager
    def timed(self, address: str, code: ReadCode) -> Iterator[None]:
        """Note a request when the block ends, and whether it raised because of its answer."""
        began, unanswered = time.time_ns(), 1
        try:
            yield
            unanswered = 0
        except RpcFailedError as error:
            unanswered = int(error.code <= 0)  # else the server has answered with a code of RocketMQ
            raise
        finally:
            self._note(address, code, began, unanswered)

    def take(self, names: Mapping[str, str], began_ns: int) -> tuple[Span, ...]:
        """Return a span of each server, in the order of their first requests, and begin again.

        Servers are called by these names, others by their addresses. A request before ``began_ns``, when the round
        began (epoch nanoseconds), was one of the round before.
        """
        servers, self._servers = self._servers, {}
        return tuple(
            _span(names.get(address, address), address, requests, began_ns) for address, requests in servers.items()
        )

    def _note(self, address: str, code: ReadCode, began_ns: int, unanswered: int) -> None:
        key = address if address in self._servers or len(self._servers) < SERVERS_MAX else _OTHERS
        requests = self._servers.setdefault(key, ServerRequests(began_ns))
        requests.began_ns = min(requests.began_ns, began_ns)
        requests.ended_ns = max(requests.ended_ns, time.time_ns())
        requests.slowest_ns = max(requests.slowest_ns, requests.ended_ns - began_ns)
        requests.unanswered += unanswered
        requests.by_code[code.name.lower()] += 1


def _span(name: str, address: str, requests: ServerRequests, began_ns: int) -> Span:
    attributes: dict[str, Attribute] = {
        "server.address": address,
        "requests": requests.by_code.total(),
        "unanswered": requests.unanswered,
        "slowest_ms": round(requests.slowest_ns / 1_000_000, 3),
        **{f"requests.{code}": count for code, count in sorted(requests.by_code.items())},
    }
    began_ns = max(began_ns, requests.began_ns)
    return Span(f"requests to {name}", began_ns, max(began_ns, requests.ended_ns), attributes)


_KEPT_SECONDS = 600.0
"""A small answer does not end it at once: large ones may be given every other time."""


class AnswerSource(NamedTuple):
    """The subject of an answer: a group at a server, or one of its clients."""

    address: str
    group: str
    client: str = ""


class LargeAnswers:
    """The sources that have lately given a large answer."""

    def __init__(self) -> None:
        self._last: dict[AnswerSource, float] = {}
        """When each has given the last one."""
        self._busy_until: dict[str, float] = {}
        """By address, until when its last large answers keep a server busy, at the pace that is asked of it."""

    def note(self, source: AnswerSource, size: int) -> None:
        """Note a large answer."""
        now = time.monotonic()
        self._last.pop(source, None)
        self._last[source] = now
        busy_until = max(now, self._busy_until.get(source.address, 0.0))
        self._busy_until[source.address] = busy_until + size / LARGE_ANSWERS_BYTES_A_SECOND
        if len(self._last) > LARGE_ANSWERS_KEPT:
            del self._last[next(iter(self._last))]
        if len(self._busy_until) > LARGE_ANSWERS_KEPT:
            self._busy_until.clear()

    def is_large(self, source: AnswerSource) -> bool:
        """Return whether a source has lately given a large answer."""
        at = self._last.get(source) if self._last else None
        if at is not None and time.monotonic() - at > _KEPT_SECONDS:
            del self._last[source]
        return source in self._last

    def pause(self, address: str) -> float:
        """Return for how many seconds more a server is busy with large answers, at the pace that is asked of it."""
        return self._busy_until.get(address, 0.0) - time.monotonic()


T = TypeVar("T")

REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
"""RocketMQ's own group whose offsets are in the revive topic (PopAckConstants.REVIVE_GROUP)."""
COLLECTOR_FIELD = "rebalanceWatchCollector"
ASKED_FIELD = "rebalanceWatchAsked"
"""Header fields that the hook reads, too (Kind.java)."""
NAME_SERVER_SECONDS = 3.0
"""A name server answers from memory, so the timeout is short (ClientConfig.mqClientApiTimeout)."""
_TOPIC_NOT_EXIST = 17  # ResponseCode: the broker has no such topic
_CONSUMER_NOT_ONLINE = 206  # ResponseCode: no member of the group is connected


class Rpc:
    """Requests to name servers and brokers.

    Every method takes its timeout in seconds, and raises `RpcFailedError` unless it gets an answer.
    """

    def __init__(
        self,
        client: RemotingClient,
        name_servers: tuple[str, ...],
        names: Mapping[str, str] | None = None,
        reading: Reading | None = None,
        now: Callable[[], int] = now_ms,
    ) -> None:
        """Use a client of these name servers, and names for clusters in place of their own.

        Without ``reading``, answers may take the time of rounds of ten seconds. ``now`` is the clock of the events;
        epoch milliseconds.
        """
        self._now = now
        self._client = client
        self._name_servers = list(name_servers)
        self._names = names or {}
        self._reading = reading or Reading(10.0)
        self._large = LargeAnswers()
        self.requests = RoundRequests()

    def begin_round(self) -> None:
        """Begin a round: answers have its whole time again."""
        self._reading.begin_round()

    def close(self) -> None:
        """Read no further answers."""
        self._reading.close()

    def is_large(self, broker: ListedBroker, group: str, client: str = "") -> bool:
        """Return whether a broker has lately given a large answer about a group, or a client of it."""
        return self._large.is_large(AnswerSource(broker.address, group, client))

    def pause(self, broker: ListedBroker) -> float:
        """Return for how many seconds more a broker is busy with large answers; 0 or less: it is not."""
        return self._large.pause(broker.address)

    async def keep_connections(self, brokers: list[ListedBroker]) -> None:
        """Close the connections to all servers but those that are configured and these brokers."""
        await self._client.forget({*self._name_servers, *(broker.address for broker in brokers)})

    async def brokers(self, seconds: float) -> Listed:
        """Return the brokers of every cluster."""
        request = Request(ReadCode.GET_BROKER_CLUSTER_INFO)
        found = await self._ask_name_servers(request, cluster_responses.brokers, seconds)
        named = [broker._replace(cluster=self._names.get(broker.cluster, broker.cluster)) for broker in found.brokers]
        return found._replace(brokers=named)

    async def route(self, topic: str, seconds: float) -> Payload:
        """Return the read queues of a topic."""
        request = Request(ReadCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        return await self._ask_name_servers(request, partial(cluster_responses.route, topic=topic), seconds)

    async def groups(self, broker: ListedBroker, seconds: float) -> dict[str, bool]:
        """Return the broker's consumer groups, each with whether it is FIFO for clients that pop."""
        request = Request(ReadCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return await self._ask(broker.address, request, cluster_responses.groups, seconds)

    async def broker_status(self, broker: ListedBroker, collector: str, seconds: float) -> Payload:
        """Return the broker's boot time and its clock; epoch milliseconds.

        The request carries the collector's source_id and its time (``asked``) in two header fields that a broker
        ignores. The hook in the broker reports them with its own time (CLOCK_SEEN), which bounds the difference of the
        clocks.
        """
        asked = self._now()
        request = Request(ReadCode.GET_BROKER_RUNTIME_INFO, {COLLECTOR_FIELD: collector, ASKED_FIELD: str(asked)})
        return {"asked": asked, **await self._ask(broker.address, request, cluster_responses.broker_status, seconds)}

    async def connection(self, broker: ListedBroker, group: str, seconds: float) -> Payload:
        """Return the group's members and subscriptions on this broker."""
        return await self._members(broker.address, group, client_responses.connection, seconds)

    async def proxy_connection(self, address: str, group: str, seconds: float) -> Payload:
        """Return the group's clients at a proxy, by the address of its remoting server, and their subscriptions."""
        subject = f"proxy {address}"  # the time to read its answers is its own, not that of the group's brokers
        return await self._members(address, group, client_responses.proxy_connection, seconds, subject=subject)

    async def consume_stats(self, broker: ListedBroker, group: str, seconds: float) -> Payload:
        """Return the group's offsets on this broker."""
        request = Request(ReadCode.GET_CONSUME_STATS, {"consumerGroup": group})
        return await self._ask(broker.address, request, client_responses.consume_stats, seconds)

    async def revive_backlog(self, broker: ListedBroker, seconds: float) -> client_responses.Backlog | None:
        """Return which records of POPs the broker has not checked yet; None: its revive group has no offsets."""
        request = Request(ReadCode.GET_CONSUME_STATS, {"consumerGroup": REVIVE_GROUP})
        return await self._ask(broker.address, request, client_responses.backlog, seconds)

    async def consume_time_span(self, broker: ListedBroker, group: str, topic: str, seconds: float) -> Payload:
        """Return how long the next message of each of the topic's queues on this broker has waited for the group."""
        request = Request(ReadCode.QUERY_CONSUME_TIME_SPAN, {"topic": topic, "group": group})
        return await self._ask(broker.address, request, client_responses.consume_time_span, seconds)

    async def topic_stats(self, broker: ListedBroker, topic: str, seconds: float) -> Payload:
        """Return between which offsets the topic's messages are stored on this broker; no queues if it has no topic."""
        request = Request(ReadCode.GET_TOPIC_STATS_INFO, {"topic": topic})
        try:
            return await self._ask(broker.address, request, client_responses.topic_stats, seconds)
        except RpcFailedError as error:
            if error.code == _TOPIC_NOT_EXIST:
                return client_responses.NO_TOPIC
            raise

    async def running_info(
        self, broker: ListedBroker, group: str, client_id: str, seconds: float, *, stacks: bool = False
    ) -> Payload:
        """Return the client's own state, on request with the stacks of its listener.

        The broker forwards the request, and waits 10 s for a frozen client.
        """
        request = Request(
            ReadCode.GET_CONSUMER_RUNNING_INFO,
            {"consumerGroup": group, "clientId": client_id, "jstackEnable": str(stacks).lower()},
        )
        return await self._ask(broker.address, request, partial(client_responses.running_info, stacks=stacks), seconds)

    async def _members(
        self, address: str, group: str, read: Callable[[bytes], Payload], seconds: float, *, subject: str = ""
    ) -> Payload:
        """Return the members that a server lists of a group; none is no error."""
        request = Request(ReadCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
        try:
            return await self._ask(address, request, read, seconds, subject=subject)
        except RpcFailedError as error:
            if error.code == _CONSUMER_NOT_ONLINE:
                return client_responses.NO_MEMBERS
            raise

    async def _ask_name_servers(self, request: Request, read: Callable[[bytes], T], seconds: float) -> T:
        """Return the answer of the first name server that responds, and ask that one first from now on."""
        share = min(seconds, NAME_SERVER_SECONDS) / len(self._name_servers)
        failure = RpcFailedError(UNREACHABLE, "no name server is configured")
        for name_server in tuple(self._name_servers):
            try:
                answer = await self._ask(name_server, request, read, share)
            except RpcFailedError as error:
                if error.code > 0:  # it did answer: the topic does not exist
                    raise
                failure = error
            else:
                self._name_servers.remove(name_server)
                self._name_servers.insert(0, name_server)
                return answer
        raise failure

    async def _ask(
        self, address: str, request: Request, read: Callable[[bytes], T], seconds: float, *, subject: str = ""
    ) -> T:
        about, fields = subject or _subject(address, request.fields), request.fields

        def note_large(size: int) -> None:
            group = fields.get("consumerGroup") or fields.get("group", "")
            self._large.note(AnswerSource(address, group, fields.get("clientId", "")), size)

        async def reading(body: bytes) -> T:
            if len(body) > LARGE_BYTES:
                note_large(len(body))
            return await self._reading.read(address, about, read, body)

        try:
            with self.requests.timed(address, request.code):
                is_forwarded = request.code is ReadCode.GET_CONSUMER_RUNNING_INFO
                return await self._client.ask(address, request, reading, seconds=seconds, is_forwarded=is_forwarded)
        except LargeAnswerError:
            note_large(FRAME_BYTES)
            raise
        except StuckAnswerError:
            note_large(0)  # it may be its answer that does not end: asked one at a time, it costs only itself
            raise
        except UnreadableError as error:
            remark = f"{address}: the answer to {request.code.name} can't be read: {error.remark}"
            raise UnreadableError(remark) from error


def _subject(address: str, fields: Mapping[str, str]) -> str:
    """Return the subject of a request: a group or its clients, else a topic, else the server itself.

    A group's clients are one subject, and what brokers know of the group another: so no client costs the member list.
    """
    if group := fields.get("consumerGroup") or fields.get("group"):
        return f"the clients of group {group}" if "clientId" in fields else f"group {group}"
    return f"topic {topic}" if (topic := fields.get("topic")) else address
