"""One step: the state, the time and cause of the conclusions, and the conclusions.

A `GroupStep` is a step of a group, a `ClusterStep` one of the cluster; both have the same incident lifecycle.
"""

from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple, TypeAlias, TypedDict

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import AnyEffect, AssignmentChange
from rebalance_model.observe.events import Event, key_of
from rebalance_model.observe.facts.group_facts import NO_POPS, GroupFacts
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import (
    BrokerView,
    ClusterState,
    GroupState,
    HookQueueView,
    HookView,
    IncidentKey,
    IncidentState,
    Judged,
    QueueState,
    RouteSplit,
)

CORRECTIONS_MAX = 64
"""At most this many corrections are listed in one GroupSnapshot."""
DECIDED_WITHIN = 30_000
"""The time after ticks or answers stopped until it is known whether a broker is unreachable; milliseconds."""
_OfMembers: TypeAlias = Literal["MEMBERS", "CHANNELS", "DECLARED", "SUBSCRIPTIONS", "ORDER", "PROXIES", "CAUSES"]
_OfQueues: TypeAlias = Literal["OWNERS", "ROUND", "ROUTES", "ENDED", "SKIPPED", "OFFSETS", "RETURNED", "POPPED"]
_OfAll: TypeAlias = Literal["REPORT", "DEAD_LETTERS", "EXPIRING", "SOURCES", "CLUSTER", "TIME"]
What: TypeAlias = Literal[_OfMembers, _OfQueues, _OfAll]
"""The parts of a group that may have changed.

REPORT: what its row shows, and no rule about a group is about. CHANNELS: members' connections. DECLARED: how members
consume. SUBSCRIPTIONS: what they subscribe. ORDER: whether it is ordered. ROUND: every member was asked, and a queue is
not where it belongs. ROUTES: a topic's queues. ENDED: which queues have ended. SKIPPED: messages that it skipped.
OFFSETS: those of a group without members. RETURNED: messages that came back. POPPED: the topics that are popped.
PROXIES: clients of proxies. CAUSES: of rebalances. EXPIRING: which messages are stored. SOURCES: what sources show.
CLUSTER: incidents of its brokers.
"""
ALL: frozenset[What] = frozenset(("SOURCES", "CLUSTER", "TIME"))
"""The changes that any rule about a group may follow from."""
COLLISION = "CLIENT_ID_COLLISION"
"""The code of incidents about two processes with one client id."""
BROKER_NAME_SHARED = "BROKER_NAME_SHARED"
"""The code of incidents about two brokers with one name."""
PROXY_UNREACHABLE = "PROXY_UNREACHABLE"
"""The code of incidents about a proxy that does not answer."""
LARGE, LARGE_CHECK_EVERY = 256, 1_000
"""A check judges all of a group: with this many queues, a group has at most one check in this many milliseconds."""


class Moment:
    """The instant of a conclusion, and the event that led to it."""

    def __init__(self, now: int, event: Event | None, known_at: int, cluster: ClusterState | None = None) -> None:
        """Describe the moment; times are epoch milliseconds.

        Args:
            now: the time on the timeline.
            event: the event that shows it; None: time alone.
            known_at: the log's highest stamp folded so far.
            cluster: the state of the group's cluster, read only; None: nothing is known of it.
        """
        self.now = now
        self.event = event
        self.known_at = known_at
        self.cluster = cluster or ClusterState("")

    @property
    def cause(self) -> str:
        """Return the event that shows it, ``source_id|key|seq``; empty: time alone."""
        event = self.event
        return f"{event.source_id}|{key_of(event)}|{event.seq}" if event is not None else ""


class Common(TypedDict):
    """The fields that all rows of a group share; see `effects`."""

    cluster: str
    group: str
    time: int
    known_at: int
    seq: int
    cause: str


class Step:
    """Collects the effects of one event, or of the timers that are due at one moment."""

    state: Judged

    def __init__(self, state: Judged, policy: Policy, moment: Moment) -> None:
        self.state = state
        self.policy = policy
        self.moment = moment
        self.now = moment.now
        self.effects: list[AnyEffect] = []
        self.resolved: set[str | None] = set()
        """The ids of the parents of the incidents that were resolved; None: one had none."""

    def schedule_check(self, at: int) -> None:
        """Schedule a judgement of everything at that time, or before."""
        at = max(at, self.now + 1)
        if not self.state.next_check or at < self.state.next_check:
            self.state.next_check = at

    def touch(self, incident: IncidentState) -> None:
        """Record that an incident has changed, so that the rows about its subject may change."""

    def parents(self, codes: Collection[str], subject: str, queue: MessageQueue | None) -> Iterator[IncidentState]:
        """Yield open incidents of these codes on the same queue, its broker, or the whole group, in this order."""
        for code in codes:
            for where in dict.fromkeys((subject, queue.broker if queue is not None else "", "")):
                found = self.state.incidents.get(IncidentKey(code, where))
                if found is not None:
                    yield found

    def alert_after(self, incident: IncidentState) -> int | None:
        """Return when an alert of the incident may be sent; None: at once."""
        del incident
        return None

    def next_row(self) -> Common:
        """Return the common fields of the next row."""
        self.state.rows += 1
        return {
            "cluster": self.state.cluster,
            "group": self.state.group,
            "time": self.now,
            "known_at": self.moment.known_at,
            "seq": self.state.rows,
            "cause": self.moment.cause,
        }

    def emit(self, effect: AnyEffect) -> None:
        """Add a conclusion."""
        self.effects.append(effect)


class ClusterStep(Step):
    """A step of the cluster."""

    state: ClusterState

    def __init__(self, state: ClusterState, policy: Policy, moment: Moment) -> None:
        super().__init__(state, policy, moment)
        self.touched: dict[str, None] = {}
        """Brokers and collectors whose incidents have changed."""

    def touch(self, incident: IncidentState) -> None:
        """Record the broker or collector, so that its groups are checked."""
        self.touched[incident.subject] = None


class ThreadPool(NamedTuple):
    """A consumer's pool of listener threads, all of which are taken."""

    topics: tuple[str, ...]
    """The topics whose messages wait."""
    holder: str | None
    """The topic whose listeners have the threads; None: unknown."""


class GroupStep(Step):
    """A step of a group."""

    state: GroupState

    def __init__(self, state: GroupState, policy: Policy, moment: Moment) -> None:
        super().__init__(state, policy, moment)
        self.group_touched = False
        """True if the group's own row may have changed."""
        self.route_splits: tuple[RouteSplit, ...] | None = None
        """The topics of which members have different routes, where the group is judged; None: unknown."""
        self._facts: GroupFacts | None = None
        self._proxies_away: list[IncidentState] | None = None
        self._found_collisions: list[IncidentState] | None = None
        self.touched: dict[MessageQueue, None] = {}
        """Queues whose state may have changed materially; a dictionary keeps their order."""
        self.queues_to_judge: dict[MessageQueue, Literal["OFFSETS"] | None] = {}
        """Queues, and what alone is new of each; None: anything."""
        self.clients_to_judge: dict[str, None] = {}
        self.brokers_to_judge: dict[str, None] = {}
        self.changes: dict[What, None] = {}
        """The changed parts of the group that its rules are about: they are judged."""
        self.pools: dict[str, ThreadPool | None] = {}
        """By client, its pool if that is exhausted, once a rule has requested it (`rules.thread_pool`)."""
        self.cluster = moment.cluster
        """The state of the group's cluster."""

    @property
    def facts(self) -> GroupFacts:
        """Return what is known of the group, until that changes."""
        if self._facts is None:
            state, collector = self.state, self.state.collector
            is_polled = bool(collector) and collector not in state.silent
            missing: tuple[Literal["POLLS", "OFFSETS", "DEAD_LETTERS"], ...] = ("POLLS", "OFFSETS", "DEAD_LETTERS")
            absent = () if is_polled else missing
            self._facts = GroupFacts(state, self.policy, self.now, is_polled, state.pops or NO_POPS, absent)
        return self._facts

    def changed(self, what: What) -> None:
        """Note what has changed of the group: the one place that decides what is judged and written again by it."""
        self.group_touched = True
        self._facts = None
        if what != "REPORT":
            self.changes[what] = None

    def shown_by_one(self, what: What) -> None:
        """Note what one of many members shows, as they answer one after the other.

        A large group is judged by it within a second, with what the others have shown until then: its members' first
        answers would judge it as often as there are members, and each time all of them.
        """
        if len(self.state.queues) < LARGE:
            self.changed(what)
            return
        self._facts = None
        self.schedule_check(self.now + 1)

    def schedule_check(self, at: int) -> None:
        """Schedule a judgement of everything at that time, or before; for a large group up to a second later."""
        if 0 < self.state.next_check <= at:
            return  # the usual case: one is due earlier
        if len(self.state.queues) >= LARGE:
            at = -(-max(at, self.now + 1) // LARGE_CHECK_EVERY) * LARGE_CHECK_EVERY
        super().schedule_check(at)

    def touch(self, incident: IncidentState) -> None:
        """Record the incident's queue and the group, so that their rows are written if they have changed."""
        self.group_touched = True
        if incident.queue is not None:
            self.touched[incident.queue] = None

    def parents(self, codes: Collection[str], subject: str, queue: MessageQueue | None) -> Iterator[IncidentState]:
        """Yield open incidents of these codes on the same queue, its broker or the whole group, then on the cluster.

        An incident of the group, or of one of its clients, may be explained by any of its brokers; one of a queue by
        two processes with one client id: they shift the shares of all members.
        """
        yield from super().parents(codes, subject, queue)
        if queue is not None and COLLISION in codes:
            yield from self._collisions()
        views = (subject,) if subject in self.state.views else tuple(self.state.views)
        brokers = (queue.broker,) if queue is not None else views
        if PROXY_UNREACHABLE in codes:
            yield from self.proxies_away()
        for code in codes:
            for broker in brokers:
                if (found := self.cluster.incidents.get(IncidentKey(code, broker))) is not None:
                    yield found

    def proxies_away(self) -> list[IncidentState]:
        """Return the open incidents about the proxies that last listed the group's clients; none if another one does.

        The proxies of a cluster list each other's clients. One that has restarted lists none until they return, for
        which they have until its incident is resolved.
        """
        if self._proxies_away is not None or not self.state.proxies:
            return self._proxies_away or []
        incidents = [
            (view, self.cluster.incidents.get(IncidentKey(PROXY_UNREACHABLE, name)))
            for name, view in self.state.proxies.items()
        ]
        left = self.state.proxied_left_at
        listing = [
            (view, away) for view, away in incidents if view.clients or (away is not None and left >= away.opened_at)
        ]
        is_listed = any(view.answers and away is None for view, away in listing)
        self._proxies_away = [] if is_listed else [away for _, away in listing if away is not None]
        return self._proxies_away

    def _collisions(self) -> list[IncidentState]:
        """Return the open collisions of client ids, found once in a step, because that takes a scan."""
        if self._found_collisions is None:
            self._found_collisions = [one for one in self.state.incidents.values() if one.code == COLLISION]
        return self._found_collisions

    def alert_after(self, incident: IncidentState) -> int | None:
        """Return when an alert may be sent: it must first be known whether the incident's broker is unreachable."""
        broker = self.cluster.brokers.get(incident.queue.broker) if incident.queue is not None else None
        if broker is None or incident.severity != "critical" or incident.absorbed:
            return None
        stopped = broker.hook and not self.cluster.keeps_up(broker.hook)
        in_vain = any(reach.unanswered for source, reach in broker.reached_by.items() if self.cluster.keeps_up(source))
        return self.now + DECIDED_WITHIN if stopped or in_vain else None

    def queue(self, mq: MessageQueue) -> QueueState:
        """Return the queue's state, created on first sight; the queue is marked as changed."""
        self.touched[mq] = None
        queue_state = self.state.queues.get(mq)
        if queue_state is None:
            queue_state = self.state.queues[mq] = QueueState()
        return queue_state

    def hook_view(self, mq: MessageQueue) -> HookQueueView:
        """Return what the broker's hook has seen of the queue; created on first sight."""
        queue = self.state.queues.get(mq) or self.queue(mq)
        if queue.hook_view is None:
            queue.hook_view = HookQueueView()
        return queue.hook_view

    def is_unsettled(self, mq: MessageQueue) -> bool:
        """Return whether an incident of the queue is open or pending, so that any news of the queue may change it."""
        return bool(self.state.unsettled) and str(mq) in self.state.unsettled

    def live_hook(self, view: BrokerView | None) -> HookView | None:
        """Return the broker's hook, unless it is silent or late."""
        hook = view.hook if view is not None else None
        return hook if hook is not None and hook.source not in self.state.silent else None

    def hook_of(self, broker: str) -> HookView | None:
        """Return the hook of a broker, by its name, unless it is silent or late."""
        return self.live_hook(self.state.views.get(broker))

    def correct(self, what: str) -> None:
        """Record what a poll corrected in the view rebuilt from events; the next GroupSnapshot contains it."""
        if len(self.state.corrections) < CORRECTIONS_MAX:
            self.state.corrections += (what,)
            self.changed("REPORT")

    def assignment(self, mq: MessageQueue, client_id: str, *, assigned: bool, evidence: str, rebalance_id: str) -> None:
        """Write a row for one change of a queue's owner."""
        self.emit(
            AssignmentChange(
                **self.next_row(),
                topic=mq.topic,
                broker=mq.broker,
                queue_id=mq.queue_id,
                client_id=client_id,
                action="ASSIGNED" if assigned else "RELEASED",
                evidence=evidence,
                expected_owner=self.state.queues[mq].expected_owner,
                rebalance_id=rebalance_id,
            )
        )
