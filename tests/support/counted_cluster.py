"""A cluster of one server that speaks RocketMQ's protocol and counts who asks each client for its state.

It answers as name server and as broker, for any number of groups. What collectors really ask, a real broker does not
show: it writes no log of requests, and its clients none either.
"""

import asyncio
import contextlib
import json
import struct
import threading
import time
from typing import NamedTuple

from streaming.collect.remoting import RemotingCommand, decode, encode
from streaming.collect.requests import ReadCode

CLUSTER, BROKER, TOPIC = "counted", "broker-a", "Orders"
_RESPONSE = 1


class Asked(NamedTuple):
    """One request for a client's state (307), when it arrived."""

    time: float
    """Seconds since the epoch."""
    group: str
    client_id: str
    port: int
    """Of the connection: of one collector."""


def answered(question, body=b"", **more):
    """Return the frame of an answer."""
    return encode(RemotingCommand(code=more.pop("code", 0), opaque=question.opaque, flag=_RESPONSE, body=body, **more))


class CountedCluster:
    """Serves until the end of a with-block, in a thread of its own."""

    def __init__(self, groups, clients=2):
        self.groups = groups
        self.members = {group: [f"{group}-{number}" for number in range(clients)] for group in groups}
        self.asked = []
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self):
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    async def _serve(self):
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._answer_all, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._started.set()
        await self._ended.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _answer_all(self, reader, writer):
        port = writer.get_extra_info("peername")[1]
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                question = decode(await reader.readexactly(length))
                if question.code == ReadCode.GET_CONSUMER_RUNNING_INFO:
                    fields = question.fields
                    self.asked.append(Asked(time.time(), fields["consumerGroup"], fields["clientId"], port))
                writer.write(self.frame(question))
                await writer.drain()
        writer.close()

    def frame(self, question):
        """Return the answer to a request."""
        return answered(question, json.dumps(self.content(question)).encode())

    def content(self, question):
        """Return the body of the answer to a request, as JSON has it."""
        members = self.members.get(question.fields.get("consumerGroup") if question.fields else None, ())
        broker = {"cluster": CLUSTER, "brokerName": BROKER, "brokerAddrs": {"0": self.address}}
        return {
            ReadCode.GET_BROKER_CLUSTER_INFO: {"brokerAddrTable": {BROKER: broker}},
            ReadCode.GET_ROUTEINFO_BY_TOPIC: {"queueDatas": [{"brokerName": BROKER, "perm": 6, "readQueueNums": 4}]},
            ReadCode.GET_BROKER_RUNTIME_INFO: {"table": {"bootTimestamp": "1", "runtime": ""}},
            ReadCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: {"subscriptionGroupTable": {group: {} for group in self.groups}},
            ReadCode.GET_CONSUMER_CONNECTION_LIST: {
                "connectionSet": [{"clientId": one, "clientAddr": f"{one}:1"} for one in members],
                "subscriptionTable": {TOPIC: {"topic": TOPIC, "subString": "*"}},
            },
            ReadCode.GET_CONSUMER_RUNNING_INFO: {"properties": {}, "subscriptionSet": [], "mqTable": {}},
            ReadCode.GET_CONSUME_STATS: {"offsetTable": {}},
            ReadCode.QUERY_CONSUME_TIME_SPAN: {"consumeTimeSpanSet": []},
            ReadCode.GET_TOPIC_STATS_INFO: {"offsetTable": {}},
        }[ReadCode(question.code)]
