"""The ground truth of one group at one moment, read from the brokers, clients, logs and name server of the cluster."""

from dataclasses import dataclass
from functools import cached_property

from rebalance_model.entities import MessageQueue
from simulation.broker import Broker
from simulation.client import SimulatedClient
from simulation.cluster import SimulatedCluster
from simulation.pop.proxied_client import SimulatedProxiedClient
from simulation.process import ProcessState
from simulation.rocketmq.client.cached_messages import CachingProcessQueue
from simulation.rocketmq.client.consumer_config import ConsumerKind, MessageModel
from simulation.scenario import GroupSpec
from tests.detection.pop_recorder import PopRecorder
from tests.detection.recorder import HOOK_RECOVERY_MS, Recorder

POLL_RECOVERY_MS = 35_000
"""The time after which a collector that started has polled everything three times."""

Holder = tuple[SimulatedClient, CachingProcessQueue]
"""A client and its process queue of one message queue."""


@dataclass
class Snapshot:
    """One group at one moment."""

    cluster: SimulatedCluster
    recorder: Recorder
    group: str

    @cached_property
    def now(self) -> int:
        """True time; epoch milliseconds."""
        return self.cluster.world.true_ms

    @cached_property
    def ordered(self) -> bool:
        """Return whether the group is meant to consume in order."""
        return self.cluster.groups[self.group].ordered

    @property
    def spec(self) -> GroupSpec:
        """The group as the scenario describes it."""
        return self.cluster.groups[self.group]

    @property
    def pops(self) -> PopRecorder:
        """Return what was called to pop messages."""
        return self.recorder.pops

    @cached_property
    def proxied(self) -> list[SimulatedProxiedClient]:
        """The group's clients behind the proxy whose process runs or is frozen."""
        every = self.cluster.proxied.values()
        return [c for c in every if c.group == self.group and c.process.state is not ProcessState.DEAD]

    def hook_since(self, broker: str) -> int:
        """Return since when the broker's hook has reported every call."""
        return self.recorder.last_down.get(broker, 0)

    @property
    def hooked_since(self) -> int:
        """Return since when the hooks of all brokers have reported every call."""
        return max(self.hook_since(broker) for broker in self.cluster.brokers)

    @cached_property
    def clients(self) -> list[SimulatedClient]:
        """The group's clients whose process runs or is frozen."""
        every = self.cluster.clients.values()
        return [c for c in every if c.consumer.config.group == self.group and c.process.state is not ProcessState.DEAD]

    @cached_property
    def by_id(self) -> dict[str, SimulatedClient]:
        """The clients by client id."""
        return {client.consumer.config.client_id: client for client in self.clients}

    @cached_property
    def up(self) -> list[Broker]:
        """The brokers that run."""
        return [broker for broker in self.cluster.brokers.values() if broker.up]

    @cached_property
    def lists(self) -> dict[str, list[str]]:
        """The member list of each broker that runs: a client id for each channel."""
        infos = {b.name: b.manager.consumer_table.get(self.group) for b in self.up}
        return {name: info.client_ids() if info is not None else [] for name, info in infos.items()}

    @cached_property
    def members(self) -> set[str]:
        """The client ids that any broker lists."""
        return set().union(*self.lists.values()) if self.lists else set()

    @cached_property
    def holders(self) -> dict[MessageQueue, list[Holder]]:
        """The clients that divide the queues and whose table has a queue, dropped or not; without retry topics."""
        holders: dict[MessageQueue, list[Holder]] = {}
        for client in (one for one in self.clients if one.consumer.config.clustering):
            for mq, process_queue in client.owned.items():
                if not mq.is_retry:
                    holders.setdefault(mq, []).append((client, process_queue))
        return holders

    def owners(self, mq: MessageQueue) -> list[Holder]:
        """Return the holders of a queue that have not dropped it."""
        return [(client, queue) for client, queue in self.holders.get(mq, ()) if not queue.dropped]

    @cached_property
    def topics(self) -> set[str]:
        """The topics that the clients subscribe to; without clients, those of the scenario."""
        subscribed = {t for c in self.clients for t in c.consumer.subscription_inner if not t.startswith("%RETRY%")}
        return subscribed or set(self.cluster.groups[self.group].topics)

    @cached_property
    def route(self) -> dict[str, tuple[MessageQueue, ...]]:
        """The name server's queues of each topic."""
        found = {topic: self.cluster.world.name_server.route(topic) for topic in self.topics}
        return {topic: tuple(route) for topic, route in found.items() if route is not None}

    @cached_property
    def routed(self) -> list[MessageQueue]:
        """The queues of all routes."""
        return [mq for route in self.route.values() for mq in route]

    @cached_property
    def removed(self) -> list[MessageQueue]:
        """The queues that the topics had before."""
        brokers = self.cluster.brokers.values()
        return [
            mq
            for broker in brokers
            for mq in broker.logs
            if mq.topic in self.topics and mq.queue_id >= broker.topics.get(mq.topic, 0)
        ]

    def committed(self, mq: MessageQueue) -> int:
        """Return the committed offset; -1: none."""
        return self.cluster.brokers[mq.broker].offsets.query_offset(self.group, mq.topic, mq.queue_id)

    def newest(self, mq: MessageQueue) -> int:
        """Return the offset after the queue's newest message; 0 without a topic."""
        log = self.cluster.brokers[mq.broker].logs.get(mq)
        return log.max_offset(self.cluster.world.scheduler.now) if log is not None else 0

    def lag(self, mq: MessageQueue) -> int:
        """Return the number of messages above the committed offset, or above 0 if there is none."""
        return self.newest(mq) - max(self.committed(mq), 0)

    def lock_holder(self, mq: MessageQueue) -> str | None:
        """Return the client id in the broker's lock table; None if there is none, or the broker is down."""
        broker = self.cluster.brokers[mq.broker]
        entry = broker.locks.mq_lock_table.get(self.group, {}).get(mq) if broker.up else None
        return entry.client_id if entry is not None else None

    @cached_property
    def broadcasts(self) -> bool:
        """Return whether each member of the group is meant to read every queue."""
        return self.cluster.groups[self.group].message_model == MessageModel.BROADCASTING

    @cached_property
    def pulls_itself(self) -> bool:
        """Return whether the group's applications pull by themselves, and commit when they like (lite pull)."""
        return self.cluster.groups[self.group].lite_pull

    def differs(self, client: SimulatedClient) -> bool:
        """Return whether the client consumes in another way than its group: it takes none of the queues' shares."""
        config, kind = client.consumer.config, ConsumerKind.LITE_PULL if self.pulls_itself else ConsumerKind.PUSH
        return config.kind is not kind or config.clustering == self.broadcasts

    def answers(self, client: SimulatedClient) -> bool:
        """Return whether the client knows the request for its state (GET_CONSUMER_RUNNING_INFO)."""
        return client.settings.running_info_code == 0

    def is_reachable(self, client: SimulatedClient) -> bool:
        """Return whether the client runs, and is connected to every broker that lists it."""
        if client.process.state is not ProcessState.RUNNING:
            return False
        cid = client.consumer.config.client_id
        return not any(self.is_cut_off(client, name) for name, ids in self.lists.items() if cid in ids)

    def is_cut_off(self, client: SimulatedClient, broker: str) -> bool:
        """Return whether a partition separates the client from the broker."""
        return self.cluster.world.network.is_cut(client.name, broker)

    @cached_property
    def is_consistent(self) -> bool:
        """Return whether the members are exactly the reachable clients that answer, at every broker."""
        reachable = [client for client in self.clients if self.is_reachable(client) and self.answers(client)]
        ids = {client.consumer.config.client_id for client in reachable}
        return ids == self.members and len({tuple(one) for one in self.lists.values()}) <= 1

    @cached_property
    def is_polled(self) -> bool:
        """Return whether the collector has run long enough to know everything."""
        return self.now - self.recorder.last_down.get("collector", 0) > POLL_RECOVERY_MS

    def is_hooked(self, broker: str) -> bool:
        """Return whether the broker's hook has run long enough to have reported everything."""
        return self.now - self.recorder.last_down.get(broker, 0) > HOOK_RECOVERY_MS

    def has_group(self, broker: str) -> bool:
        """Return whether the group was created on the broker: the collector asks it about no other."""
        return self.group in self.cluster.brokers[broker].groups.subscription_group_table

    def telemetry_of(self, broker: str) -> frozenset[str]:
        """Return the kinds of telemetry that report the broker's queues."""
        up = self.cluster.brokers[broker].up
        reporting = {"poll": up and self.is_polled and self.has_group(broker), "hook": up and self.is_hooked(broker)}
        return frozenset(name for name, reports in reporting.items() if reports)

    @cached_property
    def telemetry(self) -> frozenset[str]:
        """The kinds of telemetry that report every broker that runs."""
        reporting = {"poll": self.is_polled, "hook": all(self.is_hooked(broker.name) for broker in self.up)}
        return frozenset(name for name, reports in reporting.items() if reports)

    @cached_property
    def strategies(self) -> set[str]:
        """The Java classes of the clients' strategies."""
        return {client.consumer.config.strategy.java_class for client in self.clients}

    @cached_property
    def expected(self) -> dict[MessageQueue, str]:
        """The expected owner's client id; empty if lists or strategies differ, or the group does not divide by them."""
        lists = {tuple(ids) for ids in self.lists.values()}
        if self.broadcasts or self.pulls_itself or len(lists) != 1 or len(self.strategies) != 1:
            return {}
        if not (ids := next(iter(lists))):
            return {}
        strategy = self.clients[0].consumer.config.strategy
        plans = [self.recorder.plan(strategy, route, ids) for route in self.route.values()]
        return {mq: cid for plan in plans for mq, cid in plan.items()}
