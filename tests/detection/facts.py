"""What is really so in a simulated cluster at one moment: read off its brokers, clients, logs and name server."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from rebalance_model.allocation import AllocateStrategy
from rebalance_model.broker.consumer_offset_manager import ConsumerOffsetManager
from rebalance_model.client.process_queue import ProcessQueue
from rebalance_model.entities import MessageQueue
from rebalance_model.simulation.broker import Broker
from rebalance_model.simulation.client import Client
from rebalance_model.simulation.cluster import Cluster
from rebalance_model.simulation.network import Channel
from rebalance_model.simulation.process import ProcessState

IN_A_ROW = 45_000
"""Who wants a queue asks for its lock every second, or every 20 s: after so long without, it begins anew."""
HOOK_BACK = 45_000
"""A hook that begins, or lost something, knows every member and lock again after so long."""
BEGINS_WITHIN = 5_000
"""Who takes a queue in which messages wait consumes the first of them within so long."""
POLLS_BACK = 35_000
"""A collector that begins has asked everything three times."""


@dataclass
class Asked:
    """One client's asking in vain, and in a row, for a lock."""

    first: int
    last: int
    count: int = 1


@dataclass
class Reread:
    """Messages that are consumed again."""

    time: int
    committed: bool
    """Whether they had been committed, and the client has just begun."""
    mark: int
    """The highest commit ever until then."""
    passed: int | None = None
    """When a commit came that is no lower."""


@dataclass
class Fallen:
    """A commit below the one before it."""

    time: int
    mark: int


class RecordedOffsets(ConsumerOffsetManager):
    """A broker's offsets, and what went back."""

    record: "Record | None" = None
    broker: str = ""

    def commit_offset(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        former = self.query_offset(group, topic, queue_id)
        if self.record is not None:
            self.record.committed(group, MessageQueue(topic, self.broker, queue_id), former, offset)
        return super().commit_offset(group, topic, queue_id, offset)


@dataclass
class Record:
    """What only shows as it happens."""

    cluster: Cluster
    asked: dict[tuple[str, MessageQueue], dict[str, Asked]] = field(default_factory=lambda: defaultdict(dict))
    contended: dict[tuple[str, MessageQueue], dict[str, Asked]] = field(default_factory=lambda: defaultdict(dict))
    """The same for the sake of members, since another client got it."""
    freed: dict[tuple[str, MessageQueue], int] = field(default_factory=dict)
    """When a lock was asked for that nobody had: who was refused before was not all the time since then."""
    orphaned: dict[tuple[str, MessageQueue], int] = field(default_factory=dict)
    """When somebody was last refused for the sake of a client that is gone."""
    takers: dict[tuple[str, MessageQueue], list[tuple[str, int, frozenset[str]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    fallen: dict[tuple[str, MessageQueue], Fallen] = field(default_factory=dict)
    """Until a commit passes the mark."""
    went_back: dict[tuple[str, MessageQueue], int] = field(default_factory=dict)
    """When a commit last went back."""
    advanced: dict[tuple[str, MessageQueue], int] = field(default_factory=dict)
    lost_locks: dict[str, dict[tuple[str, MessageQueue], str]] = field(default_factory=dict)
    """By broker: who held which lock when it stopped."""
    committed_to: dict[tuple[str, MessageQueue], int] = field(default_factory=dict)
    """The highest commit ever."""
    consumed_to: dict[tuple[str, MessageQueue], int] = field(default_factory=dict)
    """One past the last message that a listener has accepted."""
    reread: dict[tuple[str, MessageQueue], Reread] = field(default_factory=dict)
    """The last time."""
    mixed: set[str] = field(default_factory=set)
    """Groups that have had ordered and concurrent members at once: what they are is not known by the hook alone."""
    down: dict[str, int] = field(default_factory=dict)
    """When a broker, its hook or the collector last was not there."""
    down_since: dict[str, int] = field(default_factory=dict)
    """Since when it is not."""
    up_for: dict[str, int] = field(default_factory=dict)
    """For how long it had been there before."""

    plans: dict[object, dict[MessageQueue, str]] = field(default_factory=dict)

    def plan(
        self, strategy: AllocateStrategy, route: tuple[MessageQueue, ...], ids: tuple[str, ...]
    ) -> dict[MessageQueue, str]:
        """Who should have which queue."""
        key = strategy.java_class, route, ids
        if key not in self.plans:
            shares = strategy.plan("", list(route), list(ids)) if route else {}
            self.plans[key] = {mq: cid for cid, share in shares.items() for mq in share or ()}
        return self.plans[key]

    def __post_init__(self) -> None:
        for broker in self.cluster.brokers.values():
            broker.offsets = RecordedOffsets(record=self, broker=broker.name)
            self._listen(broker)
        truth = self.cluster.world.truth
        consumes = truth.consumes

        def consumed(who: tuple[str, str], queue: MessageQueue, offsets: range, times: tuple[int, int]) -> None:
            key = who[0], queue
            if offsets.start < self.consumed_to.get(key, 0) and not queue.is_retry:
                owned = truth._owned.get((*who, queue))  # else what a listener had in hand when it lost the queue
                begins = owned is not None and times[0] - owned[-1].begin < BEGINS_WITHIN
                mark = self.committed_to.get(key, 0)
                self.reread[key] = Reread(times[1], begins and offsets.start < mark, mark)
            self.consumed_to[key] = max(offsets.stop, self.consumed_to.get(key, 0))
            consumes(who, queue, offsets, times)

        truth.consumes = consumed

    def look(self) -> None:
        """See which sources are there."""
        now = self.cluster.world.true_ms
        there = {name: one.up and not one.hook._disk_full for name, one in self.cluster.brokers.items()}
        for name, is_there in {**there, "collector": self.cluster.collector is not None}.items():
            if is_there:
                self.down_since.pop(name, None)
                self.down.setdefault(name, now)
                continue
            if name not in self.down_since:
                self.down_since[name], self.up_for[name] = now, now - self.down.get(name, now)
            self.down[name] = now

    def was_hooked(self, broker: str) -> bool:
        """Whether its hook had told everything when it last went down."""
        return self.up_for.get(broker, 0) > HOOK_BACK

    def committed(self, group: str, mq: MessageQueue, former: int, offset: int) -> None:
        key, now = (group, mq), self.cluster.world.true_ms
        self.committed_to[key] = max(offset, self.committed_to.get(key, 0))
        again = self.reread.get(key)
        if again is not None and again.passed is None and offset >= again.mark:
            again.passed = now
        if offset > former:
            self.advanced[key] = now
        if offset < former:
            self.went_back[key] = now
            self.fallen.setdefault(key, Fallen(now, former))
        known = self.fallen.get(key)
        if known is not None and offset >= known.mark:
            del self.fallen[key]

    def _listen(self, broker: Broker) -> None:
        lock, stop = broker.lock_batch_mq, broker.stop

        def lock_batch_mq(
            channel: Channel, group: str, client_id: str, queues: Iterable[MessageQueue]
        ) -> frozenset[MessageQueue]:
            queues = list(queues)
            held = dict(broker.locks.mq_lock_table.get(group, {}))
            granted = lock(channel, group, client_id, queues)
            for mq in queues:
                holder = held[mq].client_id if mq in held else None
                self._answered(group, mq, client_id, holder, granted=mq in granted)
            return granted

        def stopped() -> None:
            self.lost_locks[broker.name] = {
                (group, mq): entry.client_id
                for group, locks in broker.locks.mq_lock_table.items()
                for mq, entry in locks.items()
            }
            stop()

        broker.lock_batch_mq = lock_batch_mq
        broker.stop = stopped

    def _answered(self, group: str, mq: MessageQueue, client_id: str, holder: str | None, *, granted: bool) -> None:
        now, asked = self.cluster.world.true_ms, self.asked[group, mq]
        info = self.cluster.brokers[mq.broker].manager.consumer_table.get(group)
        gone = info is None or holder not in info.client_ids()
        if gone and not granted:
            self.orphaned[group, mq] = now
        self._contends(group, mq, client_id, holder, granted=granted)
        if not granted:
            known = asked.setdefault(client_id, Asked(now, now, 0))
            known.last, known.count = now, known.count + 1
            return
        self.lost_locks.get(mq.broker, {}).pop((group, mq), None)
        asked.pop(client_id, None)
        taken = self.takers[group, mq]
        if not taken or taken[-1][0] != client_id:
            members = frozenset(info.client_ids() if info else ())
            self.takers[group, mq] = [*taken, (client_id, now, members)][-4:]

    def _contends(self, group: str, mq: MessageQueue, client_id: str, holder: str | None, *, granted: bool) -> None:
        now, asked, taken = self.cluster.world.true_ms, self.contended[group, mq], self.takers[group, mq]
        infos = [b.manager.consumer_table.get(group) for b in self.cluster.brokers.values() if b.up]
        is_member = any(one is not None and holder in one.client_ids() for one in infos)
        if holder is None:
            self.freed[group, mq] = now
        if (granted and not (taken and taken[-1][0] == client_id)) or (holder is not None and not is_member):
            asked.clear()
        elif granted:
            asked.pop(client_id, None)
        else:
            known = asked.get(client_id)
            if known is None or now - known.last > IN_A_ROW:
                known = asked[client_id] = Asked(now, now, 0)
            known.last, known.count = now, known.count + 1


@dataclass
class Facts:
    """One group at one moment."""

    cluster: Cluster
    record: Record
    group: str

    @cached_property
    def now(self) -> int:
        """True time."""
        return self.cluster.world.true_ms

    @cached_property
    def ordered(self) -> bool:
        return self.cluster.groups[self.group].ordered

    @cached_property
    def clients(self) -> list[Client]:
        """Who runs or is frozen."""
        every = self.cluster.clients.values()
        return [c for c in every if c.consumer.config.group == self.group and c.process.state is not ProcessState.DEAD]

    @cached_property
    def by_id(self) -> dict[str, Client]:
        return {client.consumer.config.client_id: client for client in self.clients}

    @cached_property
    def up(self) -> list[Broker]:
        return [broker for broker in self.cluster.brokers.values() if broker.up]

    @cached_property
    def lists(self) -> dict[str, list[str]]:
        """The ids, one for each channel, that each broker that is up gives its clients."""
        infos = {b.name: b.manager.consumer_table.get(self.group) for b in self.up}
        return {name: info.client_ids() if info is not None else [] for name, info in infos.items()}

    @cached_property
    def members(self) -> set[str]:
        return set().union(*self.lists.values()) if self.lists else set()

    @cached_property
    def held(self) -> dict[MessageQueue, list[tuple[Client, ProcessQueue]]]:
        """Who has which queue, dropped or not; retry topics left out."""
        held: dict[MessageQueue, list[tuple[Client, ProcessQueue]]] = {}
        for client in self.clients:
            for mq, process_queue in client.owned.items():
                if not mq.is_retry:
                    held.setdefault(mq, []).append((client, process_queue))
        return held

    @cached_property
    def topics(self) -> set[str]:
        """What the living subscribe; without anybody, what the group is meant to."""
        said = {t for c in self.clients for t in c.consumer.subscription_inner if not t.startswith("%RETRY%")}
        return said or set(self.cluster.groups[self.group].topics)

    @cached_property
    def route(self) -> dict[str, tuple[MessageQueue, ...]]:
        found = {topic: self.cluster.world.name_server.route(topic) for topic in self.topics}
        return {topic: tuple(route) for topic, route in found.items() if route is not None}

    @cached_property
    def routed(self) -> list[MessageQueue]:
        return [mq for route in self.route.values() for mq in route]

    def lag(self, mq: MessageQueue) -> int:
        """Messages that wait, a commit of 0 included."""
        broker = self.cluster.brokers[mq.broker]
        log = broker.logs.get(mq)
        if log is None:
            return 0
        end = log.max_offset(self.cluster.world.scheduler.now)
        return end - max(broker.offsets.query_offset(self.group, mq.topic, mq.queue_id), 0)

    def committed(self, mq: MessageQueue) -> int:
        return self.cluster.brokers[mq.broker].offsets.query_offset(self.group, mq.topic, mq.queue_id)

    def answers(self, client: Client) -> bool:
        """Whether it runs, and every broker that lists it reaches it."""
        if client.process.state is not ProcessState.RUNNING:
            return False
        cid = client.consumer.config.client_id
        return not any(self.is_cut(client, name) for name, ids in self.lists.items() if cid in ids)

    def is_cut(self, client: Client, broker: str) -> bool:
        return self.cluster.world.network.is_cut(client.name, broker)

    @cached_property
    def all_answer(self) -> bool:
        """Whether every member is a client that answers, and is listed everywhere alike."""
        ids = {client.consumer.config.client_id for client in self.clients if self.answers(client)}
        return ids == self.members and len({tuple(one) for one in self.lists.values()}) <= 1

    @cached_property
    def polls(self) -> bool:
        """Whether a collector has watched for long enough."""
        return self.now - self.record.down.get("collector", 0) > POLLS_BACK

    def hooked(self, broker: str) -> bool:
        """Whether the broker's hook has told everything for long enough."""
        return self.now - self.record.down.get(broker, 0) > HOOK_BACK

    def seen_by(self, broker: str) -> frozenset[str]:
        """The telemetry that tells of a broker's queues."""
        up = self.cluster.brokers[broker].up
        telling = {"poll": up and self.polls, "hook": up and self.hooked(broker)}
        return frozenset(name for name, tells in telling.items() if tells)

    @cached_property
    def strategies(self) -> set[str]:
        return {client.consumer.config.strategy.java_class for client in self.clients}

    @cached_property
    def expected(self) -> dict[MessageQueue, str]:
        """Who should have what, by the one strategy of all, the members and the route; empty where that is unclear."""
        lists = {tuple(ids) for ids in self.lists.values()}
        if len(lists) != 1 or len(self.strategies) != 1 or not (ids := next(iter(lists))):
            return {}
        strategy = self.clients[0].consumer.config.strategy
        return {mq: cid for route in self.route.values() for mq, cid in self.record.plan(strategy, route, ids).items()}
