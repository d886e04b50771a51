"""A healthy group at an honest broker, and what is beside it: a table of cases, each of which may cost only itself.

Each server is a socket on loopback: the honest one answers for the healthy group as brokers and Java clients do, also
while it answers something else for others. `Freshness` says in how many rounds the healthy group was fresh.
"""

import asyncio
import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache

from rebalance_model.observe.events import ConsumerConnection, ConsumerRunningInfo, ConsumeStats, TopicRoute
from streaming.collect.remoting import decode
from streaming.collect.requests import ReadCode
from tests.support.counted_cluster import answered
from tests.support.odd_cluster import CLIENT, CLUSTER, HEALTHY, ODD, OddCluster, key, process_queue, running_info, table

MEMBERS, OFFSETS, OWN_STATE, ROUTE = "members", "offsets", "own state", "route"
STATE = ReadCode.GET_CONSUMER_RUNNING_INFO
LIST = ReadCode.GET_CONSUMER_CONNECTION_LIST
GROUPS = ReadCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
MEGABYTE = 1_000_000


class HonestBroker(OddCluster):
    """Name server and broker of the healthy group; ``odd`` answers for the others, ``brokers`` are listed beside it.

    Requests to clients (307) take threads: a client that never answers keeps one for ``frozen_seconds``, as in a
    broker (Broker2Client.callClient), which has ``threads`` for all administrative requests.
    """

    def __init__(
        self, odd=lambda question: None, brokers=(), groups=(), clients=1, threads=1_000, frozen_seconds=10.0
    ):  # fmt: skip
        super().__init__(odd, brokers)
        self.groups = [HEALTHY, ODD, *groups]
        for group in groups:
            self.members[group] = [f"{group}-{number}" for number in range(clients)]
        self.frozen = set()
        """Pairs of group and client, or groups, that never answer."""
        self._threads, self._frozen_seconds = threads, frozen_seconds

    def is_frozen(self, question):
        """Return whether the broker waits in vain for the client that is asked."""
        if question.code != STATE:
            return False
        group, client = question.fields["consumerGroup"], question.fields["clientId"]
        return group in self.frozen or (group, client) in self.frozen

    async def _answer_all(self, reader, writer):
        room = self.__dict__.setdefault("_room", asyncio.Semaphore(self._threads))
        tasks = set()

        async def answer(question):
            async with room:
                if self.is_frozen(question):
                    await asyncio.sleep(self._frozen_seconds)
                    writer.write(answered(question, code=207, remark="consumer timed out"))
                else:
                    writer.write(self.frame(question))
                    await writer.drain()

        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                question = decode(await reader.readexactly(length))
                task = asyncio.create_task(answer(question))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                task.add_done_callback(lambda done: done.cancelled() or done.exception())
        writer.close()


class Freshness:
    """In which rounds the healthy group had fresh members, offsets, own states and a route."""

    def __init__(self, began, interval):
        """Count rounds of ``interval`` seconds, the first one around ``began``, epoch seconds."""
        self._began, self._interval = began, interval
        self._rounds = {}

    def note(self, event):
        """Note an event of the collector."""
        if getattr(event, "group", "") != HEALTHY or event.error is not None:
            return
        number = round((event.time / 1_000 - self._began) / self._interval)
        what = self._rounds.setdefault(number, set())
        if isinstance(event, ConsumerConnection) and event.connections:
            what.add(MEMBERS)
        elif isinstance(event, ConsumeStats) and event.queues:
            what.add(OFFSETS)
        elif isinstance(event, TopicRoute) and event.queues:
            what.add(ROUTE)
        elif isinstance(event, ConsumerRunningInfo) and event.queues:
            what.add((OWN_STATE, event.client_id))

    def stale(self, rounds):
        """Return what was missing in each round that was not fresh, by its number."""
        needed = {MEMBERS, OFFSETS, ROUTE, (OWN_STATE, "java-1"), (OWN_STATE, "java-2")}
        return {
            number: sorted(map(str, needed - self._rounds.get(number, set())))
            for number in range(rounds)
            if needed - self._rounds.get(number, set())
        }


# Servers


@contextmanager
def silent_servers(number) -> Iterator[list[str]]:
    """Serve addresses that accept connections and say nothing, as a frozen process does."""
    with ExitStack() as open_:
        sockets = [open_.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64)) for _ in range(number)]
        yield [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]


@contextmanager
def dropping_servers(number) -> Iterator[list[str]]:
    """Serve addresses to which no connection opens, as behind a firewall that drops: their queues are full."""
    with ExitStack() as open_:
        addresses = []
        for _ in range(number):
            full = open_.enter_context(socket.socket())
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            for _ in range(3):
                waiting = open_.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(full.getsockname())
            addresses.append(f"127.0.0.1:{full.getsockname()[1]}")
        yield addresses


@contextmanager
def talking_servers(number, talk) -> Iterator[list[str]]:
    """Serve addresses whose connections ``talk(reader, writer)`` has, in a thread of their own."""
    addresses, started, loop = [], threading.Event(), asyncio.new_event_loop()

    async def serve(reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await talk(reader, writer)
        writer.close()

    async def begin():
        for _ in range(number):
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            addresses.append(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        started.set()

    def run():
        beginning = loop.create_task(begin())
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks))
        assert beginning.done()
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    started.wait()
    try:
        yield addresses
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def question_of(reader):
    """Receive a request."""
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    return decode(await reader.readexactly(length))


async def _begins_frames(reader, writer):
    """Begin an answer of 16 MB to each request, and never end it."""
    question = await question_of(reader)
    frame = answered(question, b"x" * (16 * MEGABYTE))
    writer.write(frame[: 12 * MEGABYTE])
    await writer.drain()
    await asyncio.sleep(3_600)


async def _begins_unasked(reader, writer):
    """Begin a frame of 16 MB that answers nothing, and never end it."""
    del reader
    writer.write(struct.pack(">i", 16 * MEGABYTE) + b"\0" * MEGABYTE)
    await writer.drain()
    await asyncio.sleep(3_600)


async def _drips(reader, writer):
    """Answer each request at a byte in 0.2 s."""
    while True:
        frame = answered(await question_of(reader), b'{"table":{}}')
        for at in range(len(frame)):
            writer.write(frame[at : at + 1])
            await asyncio.sleep(0.2)


@cache
def _much():
    return b'{"subscriptionGroupTable":{' + b",".join(b'"%d":{}' % n for n in range(1_200_000))


async def _pours(reader, writer):
    """Answer each request with 16 MB that take long to read, as fast as they are taken."""
    while True:
        writer.write(answered(await question_of(reader), _much()))
        await writer.drain()


async def _answers_wrong(reader, writer):
    """Answer requests that nobody has sent, and garbage to those for the groups."""
    while True:
        question = await question_of(reader)
        for opaque in range(1_000_000, 1_000_100):
            writer.write(answered(question.__class__(code=0, opaque=opaque), b"{}"))
        writer.write(answered(question, b"\xff" * 1_000))
        await writer.drain()


async def _answers_late(reader, writer):
    """Answer each request just when its time is over."""
    tasks = set()

    async def late(question):
        await asyncio.sleep(9.0)
        writer.write(answered(question, b'{"subscriptionGroupTable":{"healthy-group":{}},"table":{}}'))

    while True:
        task = asyncio.create_task(late(await question_of(reader)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


async def _reads_nothing(reader, writer):
    """Take the first request, and read no further one; say a byte a second."""
    await question_of(reader)
    while True:
        writer.write(b"\0")
        await writer.drain()
        await asyncio.sleep(1.0)


async def _hangs_up(reader, writer):
    """Close each connection at its first request."""
    await question_of(reader)
    writer.transport.abort()


# Cases

Case = Callable[[ExitStack, float], HonestBroker]
"""Starts the servers of a case, for an interval in seconds, and returns the honest one, which is not started."""
CASES: dict[str, Case] = {}


def case(name):
    """Register a case by its name."""

    def add(build):
        CASES[name] = build
        return build

    return add


def listed(addresses, prefix="evil"):
    """Return brokers as a name server lists them."""
    return [(f"{prefix}-{number:04}", (CLUSTER, address)) for number, address in enumerate(addresses)]


def _beside(servers):
    return lambda open_, _interval: HonestBroker(brokers=listed(open_.enter_context(servers())))


case("nothing")(lambda _open, _interval: HonestBroker())
case("five silent brokers")(_beside(lambda: silent_servers(5)))
case("300 silent brokers")(_beside(lambda: silent_servers(300)))
case("20 brokers behind a firewall")(_beside(lambda: dropping_servers(20)))
case("twelve frames without an end")(_beside(lambda: talking_servers(12, _begins_frames)))
case("twelve frames that nobody asked for")(_beside(lambda: talking_servers(12, _begins_unasked)))
case("twelve that pour 16 MB")(_beside(lambda: talking_servers(12, _pours)))
case("20 that drip")(_beside(lambda: talking_servers(20, _drips)))
case("20 with wrong answers")(_beside(lambda: talking_servers(20, _answers_wrong)))
case("20 that answer at the deadline")(_beside(lambda: talking_servers(20, _answers_late)))
case("20 that read nothing")(_beside(lambda: talking_servers(20, _reads_nothing)))
case("100 that hang up")(_beside(lambda: talking_servers(100, _hangs_up)))


@case("five silent ones come, then one answer is missing")
def _silent_come(open_, interval):
    began, missed = time.monotonic(), []

    class Missing(HonestBroker):
        def frame(self, question):
            late = time.monotonic() - began > 2.5 * interval
            if late and question.code == GROUPS and not missed:
                missed.append(question)
            if late and missed and time.monotonic() - began < 3.5 * interval and question.code == GROUPS:
                return b""
            return super().frame(question)

        def content(self, question):
            if time.monotonic() - began > 1.5 * interval:
                self._brokers = dict(listed(addresses))
            return super().content(question)

    addresses = open_.enter_context(silent_servers(5))
    return Missing()


@case("307 of 10 MB from a hundred groups")
def _large_states(_open, _interval):
    rows = ((key(n), process_queue()) for n in range(26_000))
    body = running_info(table(rows))

    def odd(question):
        group = (question.fields or {}).get("consumerGroup", "")
        return answered(question, body) if question.code == STATE and group.startswith("large") else None

    return HonestBroker(odd, groups=[f"large-{n}" for n in range(100)])


@case("20,000 invented groups")
def _invented(_open, _interval):
    broker = HonestBroker(groups=[f"invented-{n}" for n in range(20_000)], clients=0)
    config = {"groupName": "", "consumeEnable": True, "consumeBroadcastEnable": True, "retryQueueNums": 1}
    groups = {group: config | {"groupName": group} for group in broker.groups}
    body = json.dumps({"subscriptionGroupTable": groups}).encode()
    broker._odd = lambda question: answered(question, body) if question.code == GROUPS else None
    return broker


@case("20,000 topics of one member")
def _topics(_open, _interval):
    topics = {f"topic-{n}": {"topic": f"topic-{n}", "subString": "*"} for n in range(20_000)}
    body = json.dumps({"connectionSet": [{"clientId": CLIENT, "clientAddr": "h:1"}], "subscriptionTable": topics})

    def odd(question):
        is_list = question.code == LIST and question.fields["consumerGroup"] == ODD
        return answered(question, body.encode()) if is_list else None

    return HonestBroker(odd)


def _namesakes(number):
    def build(_open, _interval):
        groups = [f"a-namesake-{n}" for n in range(number)]
        broker = HonestBroker(groups=groups)
        for group in groups:
            broker.members[group] = ["java-1"]
        broker.frozen = set(groups)
        return broker

    return build


case("a frozen client of the neighbour's name")(_namesakes(1))
case("forty frozen clients of the neighbour's name")(_namesakes(40))


@case("60 groups of three frozen clients")
def _frozen(_open, _interval):
    groups = [f"a-frozen-{n}" for n in range(60)]
    broker = HonestBroker(groups=groups, clients=3)
    broker.frozen = set(groups)
    return broker


@case("12 frozen clients at a broker with 16 threads")
def _few_threads(_open, interval):
    groups = [f"a-frozen-{n}" for n in range(4)]
    broker = HonestBroker(groups=groups, clients=3, threads=16, frozen_seconds=interval)
    broker.frozen = set(groups)
    return broker


@case("a broker that lists the neighbour's members")
def _lists_neighbour(open_, _interval):
    class Liar(HonestBroker):
        """Lists the healthy group and its clients, and swallows the requests to them."""

        def is_frozen(self, question):
            return question.code == STATE

    liar = open_.enter_context(Liar())
    return HonestBroker(brokers=[("a-liar", (CLUSTER, liar.address))])


@case("a name server that stops answering for routes")
def _no_routes(_open, _interval):
    class Slow(HonestBroker):
        def frame(self, question):
            is_odd = question.code == ReadCode.GET_ROUTEINFO_BY_TOPIC and question.fields["topic"].startswith("odd")
            return b"" if is_odd else super().frame(question)

    return Slow()


@case("2,000 frozen clients of one group")
def _many_frozen(_open, _interval):
    broker = HonestBroker(groups=["a-frozen"], clients=2_000)
    broker.frozen = {"a-frozen"}
    return broker


@case("a 203 of 17 MB")
def _oversized(_open, _interval):
    frame = b"x" * (17 * MEGABYTE)

    def odd(question):
        is_list = question.code == LIST and question.fields["consumerGroup"] == ODD
        return answered(question, frame) if is_list else None

    return HonestBroker(odd)


@case("100 topics each of 300 groups")
def _topics_of_many(_open, _interval):
    groups = [f"a-group-{n}" for n in range(300)]
    topics = {f"topic-{n}": {"topic": f"topic-{n}", "subString": "*"} for n in range(100)}

    def odd(question):
        group = (question.fields or {}).get("consumerGroup", "")
        if question.code != LIST or not group.startswith("a-group"):
            return None
        own = {f"{group}-{name}": one | {"topic": f"{group}-{name}"} for name, one in topics.items()}
        body = {"connectionSet": [{"clientId": f"{group}-0", "clientAddr": "h:1"}], "subscriptionTable": own}
        return answered(question, json.dumps(body).encode())

    return HonestBroker(odd, groups=groups)


@case("much at once, in small")
def _much(open_, interval):
    """All of it in a size that takes a test little processor time."""
    frozen = [f"a-frozen-{n}" for n in range(10)]
    invented = [f"invented-{n}" for n in range(200)]
    topics = {f"topic-{n}": {"topic": f"topic-{n}", "subString": "*"} for n in range(1_000)}
    heartbeat = {"connectionSet": [{"clientId": CLIENT, "clientAddr": "h:1"}], "subscriptionTable": topics}
    many_topics, oversized = json.dumps(heartbeat).encode(), b"x" * (17 * MEGABYTE)

    def odd(question):
        group = (question.fields or {}).get("consumerGroup")
        if question.code == LIST and group in {ODD, "oversized"}:
            return answered(question, many_topics if group == ODD else oversized)
        return None

    talks = {_begins_frames: 2, _begins_unasked: 2, _drips: 2, _answers_wrong: 2, _hangs_up: 5}
    servers = [silent_servers(20), dropping_servers(5)]
    servers += [talking_servers(number, talk) for talk, number in talks.items()]
    addresses = [address for server in servers for address in open_.enter_context(server)]
    broker = HonestBroker(odd, listed(addresses), ["oversized", *frozen, *invented], clients=0, frozen_seconds=interval)
    broker.members |= {group: ["java-1", f"{group}-client"] for group in frozen}
    broker.frozen = set(frozen)
    return broker


@case("5,000 brokers at closed ports")
def _closed_ports(_open, _interval):
    return HonestBroker(brokers=listed(f"127.0.0.1:{port}" for port in range(1, 1_001)) * 5)


@case("100,000 pushed requests")
def _pushed(_open, _interval):
    class Pushing(HonestBroker):
        pushed = 0

        def frame(self, question):
            more = b""
            if question.code == STATE and self.pushed < 100_000:
                header = b'{"code":40,"flag":0,"opaque":1}'
                one = struct.pack(">II", len(header) + 4, len(header)) + header
                more, self.pushed = one * 10_000, self.pushed + 10_000
            return more + super().frame(question)

    return Pushing()
