"""A cluster for the poll collector that answers as a test says."""

import asyncio
from collections import defaultdict

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import (
    DEADLINE,
    Connection,
    OffsetInfo,
    Subscription,
    ThreadStack,
    TimeSpanInfo,
    TopicOffset,
)
from streaming.collect.client import RpcFailedError
from streaming.collect.client_responses import NO_MEMBERS
from streaming.collect.cluster_responses import Listed, ListedBroker
from streaming.collect.rpc import RoundRequests

A, B = ListedBroker("C", "broker-a", "h:1"), ListedBroker("C", "broker-b", "h:2")


class ScriptedCluster:
    """Answers as `Rpc` does; ``delays``, events to wait for (``gates``) and ``failures`` are by (request, subject)."""

    def __init__(self, brokers=(A,), members=("c1", "c2"), groups=("g",)):
        self.requests = RoundRequests()
        self.listed = list(brokers)
        self.queues = []
        self.members = list(members)
        self.group_names = set(groups)
        self.groups_of = {}
        self.fifo = set()
        """The groups with consumeMessageOrderly."""
        self.members_of = {}
        """By broker, what differs from the others' answers."""
        self.booted = {}
        """By address, when the broker there started; 7: not given."""
        self.backlogs = {}
        """By broker, what its revive group has not consumed."""
        self.delays = {}
        self.gates = {}
        self.failures = {}
        self.asked = []
        self.under_way = defaultdict(int)
        self.most_under_way = defaultdict(int)

    async def _answer(self, question, about, seconds, payload):
        self.asked.append((question, about))
        self.under_way[about] += 1
        self.most_under_way[about] = max(self.most_under_way[about], self.under_way[about])
        try:
            async with asyncio.timeout(seconds):
                await asyncio.sleep(self.delays.get((question, about), 0))
                if (question, about) in self.gates:
                    await self.gates[question, about].wait()
        except TimeoutError:
            raise RpcFailedError(DEADLINE, "late") from None
        finally:
            self.under_way[about] -= 1
        if (question, about) in self.failures:
            raise self.failures[question, about]
        return payload

    async def brokers(self, seconds):
        return await self._answer("brokers", "", seconds, Listed(self.listed))

    def begin_round(self):
        pass

    def is_large(self, broker, group, client=""):
        del broker, group, client
        return False

    def pause(self, broker):
        del broker
        return 0.0

    async def keep_connections(self, brokers):
        del brokers

    async def groups(self, broker, seconds):
        names = self.groups_of.get(broker.name, self.group_names)
        return await self._answer("groups", broker.name, seconds, {name: name in self.fifo for name in names})

    async def broker_status(self, broker, collector, seconds):
        boot_time = self.booted.get(broker.address, 7)
        payload = {"boot_time": boot_time, "now": boot_time + 9_000, "asked": int(collector.partition("@")[2])}
        if (failure := self.failures.get(("broker_status", broker.address))) is not None:
            raise failure
        return await self._answer("broker_status", broker.name, seconds, payload)

    async def revive_backlog(self, broker, seconds):
        return await self._answer("revive_backlog", broker.name, seconds, self.backlogs.get(broker.name))

    async def route(self, topic, seconds):
        queues = [MessageQueue(topic, broker.name, 0) for broker in self.listed]
        return await self._answer("route", topic, seconds, {"queues": queues})

    async def connection(self, broker, group, seconds):
        connections = [
            Connection(client_id=member, channel="h:9") for member in self.members_of.get(broker.name, self.members)
        ]
        subscriptions = [Subscription(topic=topic, sub_string="*") for topic in (f"%RETRY%{group}", "T")]
        payload = {"connections": connections, "subscriptions": subscriptions} if connections else NO_MEMBERS
        return await self._answer("connection", broker.name, seconds, payload)

    async def proxy_connection(self, address, group, seconds):
        del group
        connections = [Connection(client_id=f"{address}-{number}", channel="h:9") for number in range(2)]
        payload = {"connections": connections, "subscriptions": [Subscription(topic="T", sub_string="*")]}
        return await self._answer("proxy_connection", address, seconds, payload)

    async def consume_stats(self, broker, group, seconds):
        queues = [
            OffsetInfo(mq=MessageQueue(topic, broker.name, 0), broker_offset=1, consumer_offset=1)
            for topic in (f"%RETRY%{group}", "T", "Old")
        ]
        return await self._answer("consume_stats", broker.name, seconds, {"queues": queues})

    async def consume_time_span(self, broker, group, topic, seconds):
        del group
        queues = [TimeSpanInfo(mq=MessageQueue(topic, broker.name, 0), delay_time=5)]
        return await self._answer("consume_time_span", topic, seconds, {"queues": queues})

    async def topic_stats(self, broker, topic, seconds):
        row = TopicOffset(mq=MessageQueue(topic, broker.name, 0), min_offset=2, max_offset=5)
        return await self._answer("topic_stats", topic, seconds, {"queues": [row]})

    async def running_info(self, broker, group, client_id, seconds, *, stacks=False):
        del broker, group
        threads = [ThreadStack(name="ConsumeMessageThread_1", state="WAITING", frames=("a.Listener.consume",))]
        payload = {"orderly": True, "queues": self.queues, "stacks": threads if stacks else []}
        return await self._answer("running_info", client_id, seconds, payload)
