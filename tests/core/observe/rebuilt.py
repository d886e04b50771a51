"""The observer beside the cluster that it observes: what it rebuilt, laid over the brokers' own tables."""

import functools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from rebalance_model.broker.consumer_group_info import ConsumerGroupInfo
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import AnyEffect, GroupSnapshot
from rebalance_model.observe.engine.ordering import Ordering, Waiting
from rebalance_model.observe.engine.sources import TimelineState
from rebalance_model.observe.engine.timeline import Timeline
from rebalance_model.observe.events import (
    AnyEvent,
    BrokerStatus,
    GetConsumerListByGroup,
    PullMessage,
    Tick,
    UpdateConsumerOffset,
    key_of,
)
from rebalance_model.observe.group.membership import HEARD_FROM_ALL
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.hooks.hook import PULL_SILENCE
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import BrokerView, GroupState
from simulation import story
from simulation.broker import Broker
from simulation.cluster import SimulatedCluster
from simulation.emitter import CLUSTER, Sink
from simulation.scenario import Scenario
from simulation.truth import Fault, Owned

CHANNEL_EXPIRED = 120_000
SCAN_PERIOD = 10_000
HAND_OVER = 1_000
"""Calls that are under way when two states are compared; milliseconds of true time."""
PULLED_AGAIN = PULL_SILENCE + 16_000
"""A concurrent client drops a queue without a word: its heir is believed when it alone pulls, 15 s apart at most."""
ASKED_AGAIN = 11_000
"""A poll asks every client within so long."""


@dataclass(frozen=True)
class Difference:
    """One thing in which the rebuilt state is not the simulation's."""

    time: int
    """True time."""
    broker: str
    group: str
    what: str
    rebuilt: object
    real: object
    why: str | None
    """The name of the reason for which it may be so."""
    queue: MessageQueue | None = None
    """Whose owner it is about."""


@dataclass
class Comparison:
    """Fold a scenario's telemetry as it is emitted, and compare at each tick and member list of a broker's hook."""

    scenario: Scenario
    seed: int
    poll: bool
    differences: list[Difference] = field(default_factory=list)
    effects: list[AnyEffect] = field(default_factory=list)
    instants: int = 0
    _done: set[tuple[str, int, str]] = field(default_factory=set)
    _booted: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """When each broker started, by its clock."""
    _committed: defaultdict[tuple[str, str], set[tuple[str, int]]] = field(default_factory=lambda: defaultdict(set))
    """By broker and group, the queues with a commit since the broker's start."""

    def __post_init__(self) -> None:
        # By hooks alone nothing shows that a clock is wrong; what polls make of it: `engine/test_delay.py`.
        brokers = tuple(msgspec.structs.replace(one, clock_offset_ms=0) for one in self.scenario.brokers)
        self.scenario = msgspec.structs.replace(self.scenario, brokers=brokers)
        self.ordering = Ordering(Waiting(), [], Policy())
        clocks = self.ordering.state.clocks
        self.timeline = Timeline(TimelineState(), GroupsInMemory(), Policy(), clocks, writes_cluster=True)
        self.cluster = self._cluster(self._compare_event)
        self._folded = self._fold()

    def _cluster(self, sink: Sink) -> SimulatedCluster:
        cluster = SimulatedCluster(self.scenario, self.seed, sink, hook=True, poll=self.poll)
        story.schedule(cluster)
        return cluster

    def _fold(self) -> Iterator[AnyEvent]:
        """Run the whole log once before, as the timeline will process it: it waits for late events."""
        log: list[AnyEvent] = []
        self._cluster(log.append).run_until(self.scenario.minutes * 60)
        for event in log:
            if (late := self.ordering.push(event, event.time, 1)) is not None:
                self.timeline.skip(late)
                self._done.add((late.source_id, late.seq, key_of(late)))
            if isinstance(event, Tick):
                yield from self._release()
        self.ordering.end()
        yield from self._release()

    def _release(self) -> Iterator[AnyEvent]:
        self.timeline.idle_limit = self.ordering.idle_limit
        for out in self.ordering.out_of_wait():
            self.timeline.note_out_of_wait(out)
        for event in self.ordering.released(self.timeline.followed):
            self.effects += self.timeline.fold(event)
            yield event

    def _fold_up_to(self, event: AnyEvent) -> None:
        """So the rebuilt state is that of the cluster's present."""
        while (event.source_id, event.seq, key_of(event)) not in self._done:
            one = next(self._folded)
            self._done.add((one.source_id, one.seq, key_of(one)))

    def run(self) -> "Comparison":
        self.cluster.run_until(self.scenario.minutes * 60)
        return self

    def allowed(self) -> Counter[str]:
        """Return how often there was each difference that may be there, by its name."""
        return Counter(why for one in self.differences if (why := self._why(one)) is not None)

    def unexplained(self) -> list[Difference]:
        return [one for one in self.differences if self._why(one) is None]

    def corrections(self) -> list[str]:
        return [one for e in self.effects if isinstance(e, GroupSnapshot) for one in e.corrections]

    def state(self, group: str) -> GroupState:
        return self.timeline.group(CLUSTER, group)

    def _compare_event(self, event: AnyEvent) -> None:
        if event.source_id.startswith("poll"):
            return  # nothing is compared at it; events of hooks in its millisecond may still come
        self._fold_up_to(event)
        if isinstance(event, BrokerStatus):
            self._booted[event.broker].append(event.time)
            for group in self.cluster.groups:
                self._committed[event.broker, group].clear()
        elif isinstance(event, UpdateConsumerOffset | PullMessage) and _commits(event):
            self._committed[event.broker, event.group].add((event.topic, event.queue_id))
        elif isinstance(event, GetConsumerListByGroup):
            self._compare(event.broker, event.group, listed=True)
        elif isinstance(event, Tick):
            for group in self.cluster.groups:
                if group in self.cluster.brokers[event.broker].groups.subscription_group_table:
                    self._compare(event.broker, group)

    def _compare(self, name: str, group: str, *, listed: bool = False) -> None:
        """All there is after a tick; after a member list (38) the members, which must be the broker's then."""
        state, broker = self.state(group), self.cluster.brokers[name]
        state.validate()
        self.instants += 1
        view = state.views.get(name, BrokerView(ConsumerGroupInfo(), asked=0))
        self._note(name, group, _members(broker, group, view, listed=listed))
        if not listed:
            self._note(name, group, _locks(broker, group, view))
            self._note(name, group, self._offsets(broker, group, state))
            self._note(name, group, self._owners(broker, group, state))

    def _note(self, broker: str, group: str, differences: "Found") -> None:
        for why, what, rebuilt, real in differences:
            queue = what if isinstance(what, MessageQueue) else None
            reason = why or ("lost" if self._lost_lately(broker) else None)
            now = self.cluster.world.true_ms
            self.differences.append(Difference(now, broker, group, str(what), rebuilt, real, reason, queue))

    def _why(self, difference: Difference) -> str | None:
        """That a queue goes over just now, or went over lately, is looked up in the whole truth."""
        if difference.why is not None or difference.queue is None:
            return difference.why
        since = min((abs(difference.time - at) for at in self._moves[difference.queue]), default=difference.time)
        if since <= HAND_OVER:
            return "hand-over"
        if self.cluster.groups[difference.group].ordered:
            return None
        if since <= (ASKED_AGAIN if self.poll else PULLED_AGAIN):
            return "dropped in silence"
        return "dropped in silence for nobody" if difference.real == [] and not self.poll else None

    @functools.cached_property
    def _moves(self) -> defaultdict[MessageQueue, list[int]]:
        """Return when each queue was taken or dropped, over the whole story."""
        moves = defaultdict(list)
        for one in self.cluster.world.truth.records:
            if isinstance(one, Owned):
                moves[one.queue] += [one.begin, one.end or one.begin]
        return moves

    def _offsets(self, broker: Broker, group: str, state: GroupState) -> "Found":
        """The queues with commits since the broker's start; offsets that it had stored before are in no event."""
        committed = self._committed[broker.name, group]
        real = {}
        for key, by_queue in broker.offsets.offset_table.items():
            topic, _, of_group = key.partition("@")
            if of_group == group:
                real |= {(topic, q): offset for q, offset in by_queue.items() if (topic, q) in committed}
        rebuilt = {
            (mq.topic, mq.queue_id): queue.hook_view.commit_offset
            for mq, queue in state.queues.items()
            if mq.broker == broker.name and queue.hook_view is not None and queue.hook_view.commit_offset >= 0
        }
        for queue in real.keys() | rebuilt.keys():
            if rebuilt.get(queue) != real.get(queue):
                yield None, f"offset of {queue}", rebuilt.get(queue), real.get(queue)

    def _owners(self, broker: Broker, group: str, state: GroupState) -> "Found":
        truth = self.cluster.world.truth.owners(group)
        for mq, queue in state.queues.items():
            owners = truth.get(mq, [])
            if mq.broker == broker.name and ([] if queue.owner is None else [queue.owner]) != owners:
                yield self._why_another_owner(broker, group, mq, queue.owner), mq, queue.owner, owners

    def _why_another_owner(self, broker: Broker, group: str, mq: MessageQueue, owner: str | None) -> str | None:
        owners = self.cluster.world.truth.owners(group).get(mq, [])
        if len(owners) > 1 and owner in owners:
            return "two owners"
        if owner is None and not any(_is_known(broker, group, mq, one) for one in owners):
            return "unknown to the broker"
        boots = self._booted[broker.name]
        if not owners and len(boots) > 1 and broker.clock.now() - boots[-1] <= HEARD_FROM_ALL:
            return "restart"
        return None

    def _lost_lately(self, broker: str) -> bool:
        """Return whether the hook has missed events, and its clients have not repeated everything since."""
        losses = [one for one in self._faults("hook-full") if one.subject == broker]
        return any(one.end is None or self.cluster.world.true_ms - one.end <= HEARD_FROM_ALL for one in losses)

    def _faults(self, kind: str) -> list[Fault]:
        return [one for one in self.cluster.world.truth.records if isinstance(one, Fault) and one.kind == kind]


Found = Iterator[tuple[str | None, str | MessageQueue, object, object]]
"""Why it may be there (None: it may not), what it is (a queue: its owner), what was rebuilt, what is real."""


def _commits(event: UpdateConsumerOffset | PullMessage) -> bool:
    if isinstance(event, PullMessage):
        return event.commit_offset >= 0 and event.code in (None, 0)
    return event.code == 0


def _members(broker: Broker, group: str, view: BrokerView, *, listed: bool) -> Found:
    real = broker.manager.consumer_table.get(group, ConsumerGroupInfo())
    table, rebuilt = real.channel_info_table, view.info.channel_info_table
    for channel, info in rebuilt.items():
        if channel not in table:
            yield (None if listed else _why_still(broker, info.last_update_timestamp)), "channel", info, None
    for channel, info in table.items():
        if rebuilt.get(channel) != info:
            yield None, "channel", rebuilt.get(channel), info
    if rebuilt.keys() == table.keys() and view.info != real:
        yield None, "group", view.info, real


def _why_still(broker: Broker, heard_at: int) -> str | None:
    """A closed channel stays until a member list, which is compared separately, or until the scan is over."""
    age = broker.clock.now() - heard_at
    if age > CHANNEL_EXPIRED + SCAN_PERIOD:
        return None
    return "scan" if age > CHANNEL_EXPIRED else "closed channel"


def _locks(broker: Broker, group: str, view: BrokerView) -> Found:
    real = broker.locks.mq_lock_table.get(group, {})
    rebuilt = view.hook.locks if view.hook is not None else {}
    for mq in real.keys() | rebuilt.keys():
        if real.get(mq) != rebuilt.get(mq):
            yield None, f"lock of {mq}", rebuilt.get(mq), real.get(mq)


def _is_known(broker: Broker, group: str, mq: MessageQueue, client_id: str) -> bool:
    """Return whether the broker knows the client as a member, and of an ordered queue as the one whose lock it is."""
    info = broker.manager.consumer_table.get(group, ConsumerGroupInfo())
    locks = broker.locks.mq_lock_table.get(group)
    locked = locks is None or ((entry := locks.get(mq)) is not None and entry.client_id == client_id)
    return locked and client_id in info.client_ids()
