"""Short traces of a polled group, written as the poller's observations round by round.

Time passes between the rounds, as in production, so live members must send heartbeats and renew their locks.
Every client's clock is hours off the collector's: a rule that subtracts timestamps of two clocks fails here.
"""

from dataclasses import dataclass, field, replace

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import AnyEffect, AssignmentChange, IncidentTransition, RebalanceSettled
from rebalance_model.observe.engine.sources import OutOfWait, TimelineState
from rebalance_model.observe.engine.timeline import Timeline
from rebalance_model.observe.events import (
    Answer,
    AnyEvent,
    BrokerStatus,
    Connection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    Event,
    OffsetInfo,
    PopProcessQueueInfo,
    ProcessQueueInfo,
    ProxyConnection,
    RpcError,
    Subscription,
    Tick,
    TopicRoute,
)
from rebalance_model.observe.group_observer import GroupObserver
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import ClusterState, GroupState, decode_group, encode_group
from rebalance_model.observe.state.clocks import Clocks
from rebalance_model.observe.step import Moment
from tests.support.evidence import undeclared

START = 1_800_000_000_000
CLIENT_CLOCK_OFF = -7_200_000
AVG = "AllocateMessageQueueAveragely"
TOPIC = "Orders"
PROXY = "proxy-1:8080"


def mq(queue_id: int, topic: str = TOPIC) -> MessageQueue:
    return MessageQueue(topic, "broker-a", queue_id)


@dataclass(frozen=True)
class Held:
    """One process queue; ages are seconds before the client's newest stamp."""

    queue_id: int
    locked: bool = True
    lock_age: float = 5
    pull_age: float | None = 0
    consume_age: float | None = 0
    """None: the client has no such stamp."""
    cached: int = 0
    in_listener: int = 0
    dropped: bool = False
    unlock_attempts: int = 0
    topic: str = TOPIC


@dataclass(frozen=True)
class Member:
    """The answer of one client: the queues that it holds, or an error code."""

    holds: tuple[Held, ...] = ()
    error: int | None = None
    remark: str = ""
    orderly: bool = True
    strategy: str = AVG
    start_time: int = 1
    subscribes: tuple[str, ...] = ()
    versions_are_times: bool = False
    """Whether each answer has other versions of its subscriptions."""
    pops: tuple[str, ...] = ()
    """The topics that it pops."""
    unacked: int = 0
    """How many messages of each it has popped and not acknowledged."""
    threshold: str = ""
    """popThresholdForQueue, as its properties have it; empty: they lack it."""
    consume_type: str = ""
    """As its properties have it; empty: they lack it."""
    message_model: str = ""


def holding(*queue_ids: int, **fields: object) -> Member:
    """Return a healthy member that holds these queues; ``fields`` apply to every `Held`."""
    return Member(tuple(replace(Held(q), **fields) for q in queue_ids))


SILENT = Member(error=207)
GONE = Member(error=1, remark="The Consumer <g> <x> not online")


@dataclass
class Trace:
    """Folds rounds of a poller of one group on a timeline and keeps the effects."""

    policy: Policy = field(default_factory=Policy)
    route: int = 4
    name: str = "g"
    """The group."""
    effects: list[AnyEffect] = field(default_factory=list)
    events: list[Answer] = field(default_factory=list)
    seq: int = 0
    source_id: str = f"poll-1@{START}"
    listed_twice: str | None = None
    """A client that the broker lists on two channels."""
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    topics: tuple[str, ...] = (TOPIC,)
    """What the group subscribes, by the broker's list; each has as many queues."""
    fifo: bool = False
    """Whether clients that pop get the messages of a queue in order (consumeMessageOrderly)."""
    broadcasts: int = 0

    def __post_init__(self) -> None:
        self.stored = GroupsInMemory()
        self.timeline = Timeline(TimelineState(), self.stored, self.policy, Clocks(), writes_cluster=True)

    def restart(self, policy: Policy) -> "Trace":
        """Start the job again, with another policy."""
        self.timeline.flush()
        self.policy = policy
        self.timeline = Timeline(self.timeline.state, self.stored, policy, Clocks(), writes_cluster=True)
        return self

    @property
    def now(self) -> int:
        """Return the present time of the timeline."""
        return self.timeline.state.now

    @property
    def state(self) -> GroupState:
        """Return the state of the group."""
        return self.timeline.group("c", self.name)

    @property
    def cluster(self) -> ClusterState:
        """Return the state of the cluster."""
        return self.moment().cluster

    @property
    def group(self) -> GroupObserver:
        """Return an observer of the group, for what the timeline would not pass on."""
        return GroupObserver(self.state, self.policy)

    def poll(
        self,
        at: float,
        members: dict[str, Member] | None,
        offsets: dict[int, tuple[int, int]] | None = None,
        *,
        route: int | None = None,
    ) -> "Trace":
        """Fold one round ``at`` seconds: the broker's members with the answer of each, and (broker, commit) offsets.

        ``members`` None: the broker does not answer 203; ``offsets`` None: 208 is not requested.
        """
        self.tick(at)
        self.route = route or self.route
        now = START + round(at * 1000)
        for topic in self.topics:
            queues = tuple(mq(queue_id, topic) for queue_id in range(self.route))
            self._fold(TopicRoute(topic=topic, queues=queues, **self._poll(now)))
        self.status(at, error=-1 if members is None else None)
        if members is None:
            self._fold(ConsumerConnection(error=RpcError(code=-1), **self._poll(now)))
        else:
            self._fold(self._connections(members, now))
        if offsets is not None:
            rows = tuple(OffsetInfo(mq=mq(q), broker_offset=b, consumer_offset=c) for q, (b, c) in offsets.items())
            self._fold(ConsumeStats(queues=rows, **self._poll(now)))
        for client_id, member in (members or {}).items():
            self._fold(self._answer(client_id, member, now))
        return self

    def proxy(self, at: float, *clients: str, error: RpcError | None = None, address: str = PROXY, **fields) -> "Trace":
        """Fold a proxy's list of the group's clients, or its error."""
        self.tick(at)
        answer = {"error": error}
        if error is None:
            listed = tuple(Connection(client_id=c, channel=f"{c}:1", language="JAVA", version=493) for c in clients)
            subscribed = tuple(Subscription(topic=topic, sub_string="*") for topic in self.topics if clients)
            answer = {"connections": listed, "subscriptions": subscribed}
        common = self._poll(START + round(at * 1000)) | {"broker": "", "proxy": address}
        self._fold(ProxyConnection(**(common | answer | fields)))
        return self

    def tick(self, at: float) -> "Trace":
        """Advance the time."""
        self._advance(START + round(at * 1000))
        return self

    def status(self, at: float, *, error: int | None = None) -> "Trace":
        """Fold the answer to the collector's request for the broker's own status, or its error."""
        now = START + round(at * 1000)
        answer = {"boot_time": 1} if error is None else {"error": RpcError(code=error)}
        return self._observe(BrokerStatus(asked=now, broker="broker-a", **self._of_collector(now), **answer))

    def falls_silent(self, at: float, source: str) -> list[AnyEffect]:
        """Let a source become silent; return the effects."""
        self.tick(at)
        before = len(self.effects)
        self._observe(self._tick_of(source))
        self.timeline.note_out_of_wait(OutOfWait(source, self.now, self.now, "SILENT"))
        return self.tick(at).effects[before:]

    def is_back(self, at: float, source: str) -> "Trace":
        """Let a silent source report again."""
        return self.tick(at)._observe(self._tick_of(source))

    def _tick_of(self, source: str) -> Tick:
        """Return a tick of the source, which names its broker if it is a hook."""
        broker = next((broker for broker, view in self.state.views.items() if view.hook_source == source), "")
        kind, self.broadcasts = ("hook" if broker else "poll"), self.broadcasts + 1
        name = f"{source.partition('/')[2]}@{START}"
        return Tick(time=self.now, cluster="c", broker=broker, source=kind, source_id=name, seq=self.broadcasts)

    def _of_collector(self, now: int) -> dict[str, object]:
        """Return the common fields of a broadcast; it has a number of its own."""
        self.broadcasts += 1
        return {"time": now, "cluster": "c", "source": "poll", "source_id": self.source_id, "seq": self.broadcasts}

    def incidents(self, *codes: str) -> list[tuple[float, str, str]]:
        """Return seconds, transition and ``CODE sub-cause`` of every transition, or of those of these codes.

        Every client's clock is hours off here, so CLOCK_SKEW is omitted unless it is requested.
        """
        return [
            ((e.time - START) / 1000, e.transition, f"{e.code} {e.sub_cause}".rstrip())
            for e in self.effects
            if isinstance(e, IncidentTransition) and (e.code in codes if codes else e.code != "CLOCK_SKEW")
        ]

    def moves(self) -> list[tuple[float, str, int, str]]:
        """Return seconds, action, queue id and client of every change of an owner."""
        return [
            ((e.time - START) / 1000, e.action, e.queue_id, e.client_id)
            for e in self.effects
            if isinstance(e, AssignmentChange)
        ]

    def rebalances(self) -> list[RebalanceSettled]:
        return [e for e in self.effects if isinstance(e, RebalanceSettled)]

    def owners(self) -> dict[int, str | None]:
        return {m.queue_id: q.owner for m, q in self.state.queues.items() if m.topic == TOPIC}

    def _poll(self, now: int) -> dict[str, object]:
        self.seq += 1
        return {
            "time": now,
            "asked": now,
            "cluster": "c",
            "group": self.name,
            "broker": "broker-a",
            "source": "poll",
            "source_id": self.source_id,
            "seq": self.seq,
        }

    def _fold(self, event: Answer) -> None:
        self.events.append(event)
        self._observe(event)
        reloaded = decode_group(encode_group(self.state))
        assert encode_group(reloaded) == encode_group(self.state), "the state must survive its encoding"

    def _observe(self, event: AnyEvent) -> "Trace":
        self._advance(event.time)
        self._keep(self.timeline.fold(event))
        self.state.validate()
        return self

    def moment(self, event: Event | None = None) -> Moment:
        """Return the present moment, shown by the event."""
        return self.timeline.moment("c", event)

    def _advance(self, to: int) -> None:
        self.timeline.state.known_at = max(self.timeline.state.known_at, to)
        self._keep(self.timeline.advance(to))

    def _keep(self, effects: list[AnyEffect]) -> None:
        for effect in effects:
            assert not self.effects or effect.time >= self.effects[-1].time, "rows must not go back in time"
            assert undeclared(effect) is None
            last = next((one.seq for one in reversed(self.effects) if one.group == effect.group), None)
            assert last is None or effect.seq == last + 1, "rows are numbered without a gap"
            self.effects.append(effect)

    def _connections(self, members: dict[str, Member], now: int) -> ConsumerConnection:
        return ConsumerConnection(
            connections=tuple(
                Connection(client_id=c, channel=f"{c}:{n}")
                for c in members
                for n in range(2 if c == self.listed_twice else 1)
            ),
            subscriptions=tuple(Subscription(topic=one, sub_string="*") for one in self.topics) if members else (),
            consume_message_orderly=self.fifo,
            consume_type=self.consume_type if members else "",
            message_model=self.message_model if members else "",
            consume_from_where="CONSUME_FROM_LAST_OFFSET" if members else "",
            **self._poll(now),
        )

    def _answer(self, client_id: str, member: Member, now: int) -> ConsumerRunningInfo:
        common = self._poll(now)
        if member.error is not None:
            error = RpcError(code=member.error, remark=member.remark)
            return ConsumerRunningInfo(client_id=client_id, error=error, **common)
        return ConsumerRunningInfo(
            client_id=client_id,
            orderly=member.orderly,
            strategy=member.strategy,
            start_time=member.start_time,
            properties=_properties(member),
            subscriptions=tuple(
                Subscription(topic=topic, sub_string="*", sub_version=now if member.versions_are_times else 0)
                for topic in member.subscribes
            ),
            pop_queues=tuple(
                PopProcessQueueInfo(topic=topic, broker="broker-a", queue_id=-1, wait_ack_count=member.unacked)
                for topic in member.pops
            ),
            queues=tuple(_info(held, now + CLIENT_CLOCK_OFF) for held in member.holds),
            **common,
        )


def _properties(member: Member) -> dict[str, str]:
    declared = {"PROP_CONSUME_TYPE": member.consume_type, "messageModel": member.message_model}
    declared |= {"popThresholdForQueue": member.threshold}
    return {name: value for name, value in declared.items() if value}


def _info(queue: Held, client_now: int) -> ProcessQueueInfo:
    def stamp(age_s: float | None) -> int | None:
        return None if age_s is None else client_now - round(age_s * 1000)

    return ProcessQueueInfo(
        mq=mq(queue.queue_id, queue.topic),
        commit_offset=0,
        cached_count=queue.cached,
        transaction_count=queue.in_listener,
        locked=queue.locked,
        lock_time=stamp(queue.lock_age),
        dropped=queue.dropped,
        pull_time=stamp(queue.pull_age),
        consume_time=stamp(queue.consume_age),
        unlock_attempts=queue.unlock_attempts,
    )


def as_json(effects: list[AnyEffect]) -> bytes:
    return msgspec.json.encode(effects)
