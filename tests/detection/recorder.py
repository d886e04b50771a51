"""Record the brokers' and clients' actions of which a snapshot shows no trace. Times are true epoch milliseconds."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from rebalance_model.allocation import AllocateStrategy
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.engine.sources import JUMP
from simulation.broker import Broker
from simulation.cluster import SimulatedCluster
from simulation.network import SimulatedChannel
from simulation.rocketmq.broker.consumer_offset_manager import ConsumerOffsetManager
from tests.detection.pop_recorder import PopRecorder

MAX_RETRY_MS = 45_000
"""A client requests the lock of a queue that it should have every 1 s or 20 s: a longer interval ends a series."""
HOOK_RECOVERY_MS = 45_000
"""The time after which a hook that started, or lost events, has reported every member and lock again."""
FIRST_MESSAGE_MS = 5_000
"""The time within which the new owner of a queue with lag consumes its first message."""

GroupQueue = tuple[str, MessageQueue]
"""A group and a queue."""


@dataclass
class Refusals:
    """A client's successive lock requests for one queue that the broker refused."""

    first: int
    last: int
    count: int = 1


@dataclass
class Duplicates:
    """Messages that were consumed again."""

    time: int
    by_new_owner: bool
    """Whether they had been committed, and the client had just become the owner."""
    high_commit: int
    """The highest offset committed before."""
    recommitted_at: int | None = None
    """When an offset of at least `high_commit` was committed."""


@dataclass
class Regression:
    """A commit below the previous one."""

    time: int
    high_commit: int


class RecordedOffsets(ConsumerOffsetManager):
    """A broker's offsets, whose commits are recorded."""

    recorder: "Recorder | None" = None
    broker: str = ""

    def commit_offset(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        former = self.query_offset(group, topic, queue_id)
        if self.recorder is not None:
            self.recorder.on_commit(group, MessageQueue(topic, self.broker, queue_id), former, offset)
        return super().commit_offset(group, topic, queue_id, offset)


@dataclass
class Recorder:
    """The history of a cluster that its present state does not contain."""

    cluster: SimulatedCluster
    refusals: dict[GroupQueue, dict[str, Refusals]] = field(default_factory=lambda: defaultdict(dict))
    """By client: since its last lock."""
    contended: dict[GroupQueue, dict[str, Refusals]] = field(default_factory=lambda: defaultdict(dict))
    """By client: only the refusals because another member holds the lock, since the lock last changed hands."""
    free_requested_at: dict[GroupQueue, int] = field(default_factory=dict)
    """When a free lock was last requested: no series of refusals continues over this time."""
    orphan_refused_at: dict[GroupQueue, int] = field(default_factory=dict)
    """When a client was last refused because a client that has left the group holds the lock."""
    handovers: dict[GroupQueue, list[tuple[str, int, frozenset[str]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """The last four clients that got the lock: client id, time and the members at that time."""
    regressions: dict[GroupQueue, Regression] = field(default_factory=dict)
    """Until a commit reaches the previous offset again."""
    regressed_at: dict[GroupQueue, int] = field(default_factory=dict)
    """When the committed offset last decreased."""
    advanced_at: dict[GroupQueue, int] = field(default_factory=dict)
    """When the committed offset last increased."""
    former_ends: dict[MessageQueue, int] = field(default_factory=dict)
    """The newest offset that each queue had when its topic was deleted."""
    lost_locks: dict[str, dict[GroupQueue, str]] = field(default_factory=dict)
    """By broker: the holder of each lock when the broker stopped, until the lock is granted again."""
    high_commits: dict[GroupQueue, int] = field(default_factory=dict)
    """The highest offset ever committed."""
    consumed_to: dict[GroupQueue, int] = field(default_factory=dict)
    """The offset after the last message that a listener accepted."""
    duplicates: dict[GroupQueue, Duplicates] = field(default_factory=dict)
    """The latest ones."""
    mixed_groups: set[str] = field(default_factory=set)
    """Groups that have had ordered and concurrent members at once: the hook alone does not know their mode."""
    broadcasting: set[tuple[str, str]] = field(default_factory=set)
    """The group and client id of clients that have broadcast: what they consume is no duplicate of the others'."""
    last_down: dict[str, int] = field(default_factory=dict)
    """When the hook of a broker, or the ``collector``, last did not report."""
    down_since: dict[str, int] = field(default_factory=dict)
    """The same, since when; only of those that do not report now."""
    up_before_ms: dict[str, int] = field(default_factory=dict)
    """How long they had reported before `down_since`."""
    outage_ms: dict[str, int] = field(default_factory=dict)
    """How long the last outage of each lasted."""

    pops: PopRecorder = field(init=False)
    plans: dict[object, dict[MessageQueue, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pops = PopRecorder(self.cluster)
        for broker in self.cluster.brokers.values():
            broker.offsets = RecordedOffsets(recorder=self, broker=broker.name)
            self._record_locks(broker)
        self._record_duplicates()

    def plan(
        self, strategy: AllocateStrategy, route: tuple[MessageQueue, ...], ids: tuple[str, ...]
    ) -> dict[MessageQueue, str]:
        """Return the client id to which the strategy assigns each queue; computed once."""
        key = strategy.java_class, route, ids
        if key not in self.plans:
            shares = strategy.plan("", list(route), list(ids)) if route else {}
            self.plans[key] = {mq: cid for cid, share in shares.items() for mq in share or ()}
        return self.plans[key]

    def sample(self) -> None:
        """Record which sources report now, and which clients broadcast."""
        now = self.cluster.world.true_ms
        self.pops.update()
        configs = [client.consumer.config for client in self.cluster.clients.values()]
        self.broadcasting |= {(one.group, one.client_id) for one in configs if not one.clustering}
        reports = {name: one.up and not one.hook._disk_full for name, one in self.cluster.brokers.items()}
        for name, is_up in {**reports, "collector": self.cluster.collector is not None}.items():
            if is_up:
                if (since := self.down_since.pop(name, None)) is not None:
                    self.outage_ms[name] = now - since
                self.last_down.setdefault(name, now)
                continue
            if name not in self.down_since:
                self.down_since[name], self.up_before_ms[name] = now, now - self.last_down.get(name, now)
            self.last_down[name] = now

    def was_hook_complete(self, broker: str) -> bool:
        """Return whether the broker's hook had reported everything when it last stopped."""
        return self.up_before_ms.get(broker, 0) > HOOK_RECOVERY_MS

    def is_time_doubted(self, broker: str) -> bool:
        """Return whether hooks alone showed no time for so long that the first ticks after it are doubted (`JUMP`)."""
        return len(self.cluster.brokers) == 1 and self.outage_ms.get(broker, 0) > JUMP

    def on_commit(self, group: str, mq: MessageQueue, former: int, offset: int) -> None:
        """Record a commit; `former` is the committed offset before it."""
        key, now = (group, mq), self.cluster.world.true_ms
        self.high_commits[key] = max(offset, self.high_commits.get(key, 0))
        duplicates = self.duplicates.get(key)
        if duplicates is not None and duplicates.recommitted_at is None and offset >= duplicates.high_commit:
            duplicates.recommitted_at = now
        if offset > former:
            self.advanced_at[key] = now
        if offset < former:
            self.regressed_at[key] = now
            self.regressions.setdefault(key, Regression(now, former))
        regression = self.regressions.get(key)
        if regression is not None and offset >= regression.high_commit:
            del self.regressions[key]

    def _record_duplicates(self) -> None:
        truth = self.cluster.world.truth
        consumes = truth.consumes

        def record(client: tuple[str, str], queue: MessageQueue, offsets: range, times: tuple[int, int]) -> None:
            key = client[0], queue
            if client in self.broadcasting:
                return consumes(client, queue, offsets, times)
            if offsets.start < self.consumed_to.get(key, 0) and not queue.is_retry:
                owned = truth._owned.get((*client, queue))  # None: the listener still ran when the queue was lost
                is_new = owned is not None and times[0] - owned[-1].begin < FIRST_MESSAGE_MS
                high_commit = self.high_commits.get(key, 0)
                self.duplicates[key] = Duplicates(times[1], is_new and offsets.start < high_commit, high_commit)
            self.consumed_to[key] = max(offsets.stop, self.consumed_to.get(key, 0))
            return consumes(client, queue, offsets, times)

        truth.consumes = record

    def _record_locks(self, broker: Broker) -> None:
        lock, stop = broker.lock_batch_mq, broker.stop

        def lock_batch_mq(
            channel: SimulatedChannel, group: str, client_id: str, queues: Iterable[MessageQueue]
        ) -> frozenset[MessageQueue]:
            queues = list(queues)
            locks = dict(broker.locks.mq_lock_table.get(group, {}))
            granted = lock(channel, group, client_id, queues)
            for mq in queues:
                holder = locks[mq].client_id if mq in locks else None
                self._on_lock_request(group, mq, client_id, holder, granted=mq in granted)
            return granted

        def stop_broker() -> None:
            self.lost_locks[broker.name] = {
                (group, mq): entry.client_id
                for group, locks in broker.locks.mq_lock_table.items()
                for mq, entry in locks.items()
            }
            stop()

        broker.delete_topic = partial(self._delete_topic, broker, broker.delete_topic)
        broker.lock_batch_mq = lock_batch_mq
        broker.stop = stop_broker

    def _delete_topic(self, broker: Broker, delete: Callable[[str], None], topic: str) -> None:
        """Forget the marks of the topic's queues: what it will hold when it is created again is new."""
        now = self.cluster.world.scheduler.now
        self.former_ends |= {mq: log.max_offset(now) for mq, log in broker.logs.items() if mq.topic == topic}
        delete(topic)
        tables: list[dict[GroupQueue, int]] = [self.high_commits, self.consumed_to, self.advanced_at]
        for table in (*tables, self.regressions, self.duplicates):
            for key in [key for key in table if (key[1].topic, key[1].broker) == (topic, broker.name)]:
                del table[key]

    def _on_lock_request(
        self, group: str, mq: MessageQueue, client_id: str, holder: str | None, *, granted: bool
    ) -> None:
        """Record the broker's answer; `holder` had the lock before the request."""
        now, refusals = self.cluster.world.true_ms, self.refusals[group, mq]
        info = self.cluster.brokers[mq.broker].manager.consumer_table.get(group)
        has_left = info is None or holder not in info.client_ids()
        if has_left and not granted:
            self.orphan_refused_at[group, mq] = now
        self._record_contention(group, mq, client_id, holder, granted=granted)
        if not granted:
            series = refusals.setdefault(client_id, Refusals(now, now, 0))
            series.last, series.count = now, series.count + 1
            return
        self.lost_locks.get(mq.broker, {}).pop((group, mq), None)
        refusals.pop(client_id, None)
        handovers = self.handovers[group, mq]
        if not handovers or handovers[-1][0] != client_id:
            members = frozenset(info.client_ids() if info else ())
            self.handovers[group, mq] = [*handovers, (client_id, now, members)][-4:]

    def _record_contention(
        self, group: str, mq: MessageQueue, client_id: str, holder: str | None, *, granted: bool
    ) -> None:
        now, contended, handovers = self.cluster.world.true_ms, self.contended[group, mq], self.handovers[group, mq]
        infos = [b.manager.consumer_table.get(group) for b in self.cluster.brokers.values() if b.up]
        is_member = any(one is not None and holder in one.client_ids() for one in infos)
        if holder is None:
            self.free_requested_at[group, mq] = now
        if (granted and not (handovers and handovers[-1][0] == client_id)) or (holder is not None and not is_member):
            contended.clear()
        elif granted:
            contended.pop(client_id, None)
        else:
            series = contended.get(client_id)
            if series is None or now - series.last > MAX_RETRY_MS:
                series = contended[client_id] = Refusals(now, now, 0)
            series.last, series.count = now, series.count + 1
