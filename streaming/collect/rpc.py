"""The collector's requests, typed: each method is one RPC and changes nothing in the cluster."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from rebalance_model.observe.events import UNREACHABLE
from streaming.base.limits import FRAME_BYTES
from streaming.base.times import now_ms
from streaming.collect import client_responses, cluster_responses, group_responses
from streaming.collect.client import LargeAnswerError, RemotingClient, RpcFailedError, StuckAnswerError, UnreadableError
from streaming.collect.cluster_responses import Listed, ListedBroker
from streaming.collect.frames import LARGE_BYTES
from streaming.collect.large_answers import AnswerSource, LargeAnswers
from streaming.collect.reading import Reading
from streaming.collect.requests import ReadCode, Request
from streaming.collect.response_parts import Payload
from streaming.collect.round_requests import RoundRequests

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
        """Use a client of these servers.

        Args:
            client: the connections.
            name_servers: host:port of each.
            names: names for clusters in place of their own.
            reading: the time that answers may take; None: that of rounds of ten seconds.
            now: the clock by which the collector stamps its events; epoch milliseconds.
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
        return await self._members(broker.address, group, group_responses.connection, seconds)

    async def proxy_connection(self, address: str, group: str, seconds: float) -> Payload:
        """Return the group's clients at a proxy, by the address of its remoting server, and their subscriptions."""
        subject = f"proxy {address}"  # the time to read its answers is its own, not that of the group's brokers
        return await self._members(address, group, group_responses.proxy_connection, seconds, subject=subject)

    async def consume_stats(self, broker: ListedBroker, group: str, seconds: float) -> Payload:
        """Return the group's offsets on this broker."""
        request = Request(ReadCode.GET_CONSUME_STATS, {"consumerGroup": group})
        return await self._ask(broker.address, request, group_responses.consume_stats, seconds)

    async def revive_backlog(self, broker: ListedBroker, seconds: float) -> int | None:
        """Return how many records of POPs the broker has not checked yet; None: its revive group has no offsets."""
        request = Request(ReadCode.GET_CONSUME_STATS, {"consumerGroup": REVIVE_GROUP})
        return await self._ask(broker.address, request, group_responses.backlog, seconds)

    async def consume_time_span(self, broker: ListedBroker, group: str, topic: str, seconds: float) -> Payload:
        """Return how long the next message of each of the topic's queues on this broker has waited for the group."""
        request = Request(ReadCode.QUERY_CONSUME_TIME_SPAN, {"topic": topic, "group": group})
        return await self._ask(broker.address, request, group_responses.consume_time_span, seconds)

    async def topic_stats(self, broker: ListedBroker, topic: str, seconds: float) -> Payload:
        """Return between which offsets the topic's messages are stored on this broker; no queues if it has no topic."""
        request = Request(ReadCode.GET_TOPIC_STATS_INFO, {"topic": topic})
        try:
            return await self._ask(broker.address, request, group_responses.topic_stats, seconds)
        except RpcFailedError as error:
            if error.code == _TOPIC_NOT_EXIST:
                return group_responses.NO_TOPIC
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
                return group_responses.NO_MEMBERS
            raise

    async def _ask_name_servers(self, request: Request, read: Callable[[bytes], T], seconds: float) -> T:
        """Return the answer of the first name server that responds; all have the same data.

        The one that answered comes first in later calls.
        """
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
    """Return what a request is about: a group or its clients, else a topic, else the server itself.

    A group's clients are one subject, and what brokers know of the group another: so no client costs the member list.
    """
    if group := fields.get("consumerGroup") or fields.get("group"):
        return f"the clients of group {group}" if "clientId" in fields else f"group {group}"
    return f"topic {topic}" if (topic := fields.get("topic")) else address
