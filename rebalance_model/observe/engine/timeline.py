"""Fold the events of a shard in time order, and advance time between them.

There is one clock here: that of the timeline. A timer that is due at a moment runs before an event of the same
millisecond. Groups are independent of each other, so a group's rows do not depend on which groups share its shard.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress

from rebalance_model.observe.changes import (
    BrokerRestarted,
    ClusterChanged,
    EventsLost,
    HookRestarted,
    SourceBack,
    SourceChange,
    SourceForgotten,
    SourceSilent,
)
from rebalance_model.observe.cluster_observer import ClusterObserver
from rebalance_model.observe.effects import AnyEffect
from rebalance_model.observe.engine.sources import NEVER, OutOfWait, TimelineState
from rebalance_model.observe.events import (
    AnyEvent,
    Broadcast,
    BrokerStatus,
    Event,
    GroupEvent,
    HookEvent,
    PollEvent,
    ProxyConnection,
    TelemetryLost,
    Tick,
    source_of,
)
from rebalance_model.observe.group_observer import GroupObserver, begun_again
from rebalance_model.observe.group_store import GroupStore, key_of_state
from rebalance_model.observe.losses import Losses
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import (
    ClusterState,
    GroupState,
    InvariantError,
    LostPart,
    Remains,
    Silence,
    UnreadableStateError,
    decode_group,
    encode_group,
    remains_of,
)
from rebalance_model.observe.state.clocks import Clocks
from rebalance_model.observe.step import Moment

ENDED_AFTER = 5_000
"""The time after its last tick when an ended source is silent, milliseconds; sources of a recording end together."""

UNTICKED_MS_MAX = 3_600_000
"""The time that may pass at once before the first tick. The first event of a log may be of a host whose clock is at
1970, and each minute since then would have a snapshot."""

CHECKED_EVERY = 16
"""Events after which the state of a group without queues is checked; see `Timeline._check`."""

_SILENCE, _CLUSTER, _GROUP = range(3)
"""The kinds of timers, in the order in which they run at the same moment."""


class Timeline:
    """The groups of a shard and the states of their clusters, on one timeline."""

    def __init__(
        self,
        state: TimelineState,
        groups: GroupStore,
        policy: Policy,
        clocks: Clocks,
        losses: Losses | None = None,
        *,
        writes_cluster: bool,
    ) -> None:
        """Continue from a state.

        Args:
            state: what was kept beside the groups.
            groups: the store of the groups.
            policy: the thresholds.
            clocks: the corrections of the sources' clocks; read only.
            losses: a list of groups that were reset; None: a failure is raised.
            writes_cluster: whether this shard writes the rows about the cluster.
        """
        self.state = state
        self.idle_limit = NEVER
        """The time that may pass without a tick, milliseconds; longer spans do not count (`_skip_idle_time`)."""
        self._store = groups
        self._policy = policy
        self._clocks = clocks
        self._losses = losses or Losses(contained=False)
        self.contradictions: dict[str, str] = {}
        """By group, the first invariant that its state violated, in a sentence: an internal error."""
        self._writes_cluster = writes_cluster
        self._clusters = {name: self._observer_of(one) for name, one in state.clusters.items()}
        self._groups: dict[str, GroupObserver] = {}
        self._forgotten: list[GroupState] = []
        self._heap = [(due, key) for key, due in state.checks.items()]
        heapq.heapify(self._heap)

    @property
    def followed(self) -> Collection[str]:
        """Return the collectors that groups follow."""
        return self.state.followers.keys()

    def fold(self, event: AnyEvent) -> list[AnyEffect]:
        """Advance time to the event, apply it, and return the resulting rows."""
        effects = self.advance(event.time) if self._may_be_due(event.time) else []
        self.state.now = max(self.state.now, event.time)
        source = source_of(event)
        moment = self.moment(event.cluster, event)
        if isinstance(event, GroupEvent):
            return effects + self._fold(event, source, moment)
        return effects + self._fold_broadcast(event, source, moment)

    def skip(self, event: AnyEvent) -> list[AnyEffect]:
        """Skip an event that comes too late: note its presence, and that its content was lost.

        A collector that no group follows is not waited for; what it reports of brokers is folded nevertheless.
        """
        if isinstance(event, GroupEvent):
            return self._change(f"{event.cluster}/{event.group}", lambda group: group.skip(event))
        moment = self.moment(event.cluster)
        if isinstance(event, TelemetryLost):
            self._apply_to_groups(source_of(event), moment, EventsLost(event))
        return self._on_cluster(event, moment)

    def note_out_of_wait(self, out: OutOfWait) -> None:
        """Note that a source is no longer waited for: it becomes silent at the moment given."""
        self.state.falls_silent[out.source] = out

    def note_behind(self, source: str) -> list[AnyEffect]:
        """Note that a silent source ticks again, but far behind the others."""
        moment = self._moment_of(source)
        silence = moment.cluster.silent.get(source)
        if silence is None or silence.why == "LATE":
            return []
        return self._note_silence(source, Silence(silence.since, "LATE"), moment)

    def forget_source(self, source: str) -> tuple[list[AnyEffect], dict[str, set[str]]]:
        """Forget a source that has been silent for long, and what only it has reported.

        Returns:
            The resulting rows, and by group that it has reported the brokers that are forgotten with it.
        """
        name = source.partition("/")[0]
        cluster, moment = self._cluster(name), self.moment(name)
        groups = list(self.state.groups_of.get(source, ()))
        brokers = {key: set(self._group(key).state.views) for key in groups}
        rows = cluster.forget_source(source, moment)
        effects = rows if self._writes_cluster else []
        effects += self._apply_to_groups(source, moment, SourceForgotten(source, cluster.take_changed()))
        self.state.forget_source(source, [key for key in groups if source in self._group(key).sources()])
        if cluster.is_empty:
            del self._clusters[name]
            self.state.forget_cluster(name)
        return effects, {key: known - self._group(key).state.views.keys() for key, known in brokers.items()}

    def advance(self, to: int) -> list[AnyEffect]:
        """Advance time: run all timers that are due until then, in order; return the resulting rows."""
        state = self.state
        effects: list[AnyEffect] = []
        since, limit = state.ticked, self.idle_limit
        if not since:
            since, limit = state.now, max(limit, UNTICKED_MS_MAX)
        if state.clusters and to - since > limit:
            self._skip_idle_time(since, to)
        while (timer := self._next(to)) is not None:
            state.now = max(state.now, timer[0])
            with self._losses.containing():
                effects += self._run_timer(*timer)
        state.now = max(state.now, to)
        return effects

    def _may_be_due(self, to: int) -> bool:
        """Return whether a timer may be due until then, or the time until then may not count; usually none is."""
        state, heap = self.state, self._heap
        if state.falls_silent or (heap and heap[0][0] <= to) or not state.ticked or to - state.ticked > self.idle_limit:
            return True
        return bool([one for one in self._clusters.values() if 0 < one.state.next_check <= to])

    def flush(self) -> None:
        """Write the changed groups to the store."""
        for key, group in self._groups.items():
            self._store.put(key_of_state(key), self._encoded(key, group.state))
        self._groups.clear()

    def take_forgotten(self) -> list[GroupState]:
        """Return the groups that were forgotten since the last call."""
        forgotten, self._forgotten = self._forgotten, []
        return forgotten

    def groups(self) -> Iterator[GroupState]:
        """Yield the groups that were changed since the last flush."""
        return (group.state for group in self._groups.values())

    def find(self, cluster: str, group: str) -> GroupState | None:
        """Return a group's state; None if none of its events has been folded, or it was forgotten."""
        key = f"{cluster}/{group}"
        known = key in self._groups or self._store.get(key_of_state(key)) is not None
        return self._group(key).state if known else None

    def group(self, cluster: str, group: str) -> GroupState:
        """Return a group's state; create it on first sight."""
        return self._group(f"{cluster}/{group}").state

    # Time

    def _next(self, to: int) -> tuple[int, int, str] | None:
        """Return the next timer until then: its time, kind (`_SILENCE`, `_CLUSTER`, `_GROUP`) and name; None: none."""
        while self._heap and self.state.checks.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # rescheduled since
        first = (self._heap[0][0], _GROUP, self._heap[0][1]) if self._heap and self._heap[0][0] <= to else None
        for out in self.state.falls_silent.values():
            if out.at <= to and (first is None or (out.at, _SILENCE, out.source) < first):
                first = (out.at, _SILENCE, out.source)
        for name, cluster in self._clusters.items():
            at = cluster.deadline()
            if at is not None and at <= to and (first is None or (at, _CLUSTER, name) < first):
                first = (at, _CLUSTER, name)
        return first

    def _run_timer(self, due: int, kind: int, name: str) -> list[AnyEffect]:
        if kind == _SILENCE:
            out = self.state.falls_silent.pop(name)
            return self._note_silence(name, Silence(out.at, out.why, out.wrong_clock), self._moment_of(name))
        if kind == _CLUSTER:
            moment, cluster = self.moment(name), self._cluster(name)
            return self._follow_up(cluster, cluster.advance(moment), moment)
        heapq.heappop(self._heap)
        del self.state.checks[name]
        moment = self._moment_of(name)
        effects = self._change(name, lambda group: group.advance(due, moment))
        group = self._group(name)
        try:
            is_over = group.is_forgotten(moment.cluster, self.state.now)
        except Exception as error:  # noqa: BLE001  `_fail` raises it where failures are not contained
            self._fail(name, error, None)
            return effects
        if is_over:
            self._forget(group.state)
        return effects

    def _skip_idle_time(self, since: int, to: int) -> None:
        """Skip the period from ``since``, the last report of any source: it proves nothing, and does not count."""
        idle_ms, self.state.now = to - since, to
        self.state.ticked = to if self.state.ticked else 0
        self.state.falls_silent.clear()
        for cluster in self.state.clusters.values():
            for pending in cluster.pending.values():
                pending.since += idle_ms
            cluster.next_check = max(cluster.next_check, to) if cluster.next_check else 0
        for key in sorted({key for groups in self.state.groups_of.values() for key in groups}):
            self._change(key, lambda group: group.skip_idle_time(to, idle_ms))

    def moment(self, cluster: str, event: AnyEvent | None = None) -> Moment:
        """Return the present moment of a cluster, shown by the event; None: by time alone."""
        observer = self._clusters.get(cluster) or self._cluster(cluster)
        return Moment(self.state.now, event, self.state.known_at, observer.state)

    def _cluster(self, name: str) -> ClusterObserver:
        observer = self._clusters.get(name)
        if observer is None:
            observer = self._clusters[name] = self._observer_of(self.state.cluster(name))
        return observer

    def _observer_of(self, cluster: ClusterState) -> ClusterObserver:
        return ClusterObserver(cluster, self._policy, self._clocks, self._losses)

    def _moment_of(self, source: str) -> Moment:
        return self.moment(source.partition("/")[0])

    # Clusters

    def _fold_broadcast(self, event: Broadcast, source: str, moment: Moment) -> list[AnyEffect]:
        """Process a source's report of itself, or of a broker."""
        effects: list[AnyEffect] = []
        if isinstance(event, Tick):
            self.state.ticked = max(self.state.ticked, event.time)
        of_collector = source in moment.cluster.collectors  # which reports it in every round
        boots = isinstance(event, BrokerStatus) and not (of_collector or event.asked)
        if isinstance(event, Tick) or boots:
            effects += self._note_back(source, moment)
        if isinstance(event, Tick) and event.end:
            self.note_out_of_wait(OutOfWait(source, event.time, event.time + ENDED_AFTER, "SILENT"))
        effects += self._on_cluster(event, moment)
        if isinstance(event, BrokerStatus):
            effects += self._note_boot(event, source, moment)
        elif isinstance(event, TelemetryLost):
            effects += self._apply_to_groups(source, moment, EventsLost(event))
        return effects

    def _on_cluster(self, event: Broadcast, moment: Moment) -> list[AnyEffect]:
        """Fold a broadcast into the state of the cluster."""
        cluster = self._cluster(event.cluster)
        return self._follow_up(cluster, cluster.handle(event, moment), moment)

    def _on_proxy(self, event: ProxyConnection, moment: Moment) -> list[AnyEffect]:
        """Pass on whether a proxy answers, in the shard whose rows about the cluster are written."""
        if not self._writes_cluster:
            return []
        cluster = self._cluster(event.cluster)
        return self._follow_up(cluster, cluster.on_proxy(event, moment), moment)

    def _note_silence(self, source: str, silence: Silence, moment: Moment) -> list[AnyEffect]:
        return self._on_source(SourceSilent(source, silence), moment)

    def _note_back(self, source: str, moment: Moment) -> list[AnyEffect]:
        """Note that a silent source is back with its boot or its tick; it has reported its losses before that."""
        if (out := self.state.falls_silent.get(source)) is not None and out.tick < moment.now:
            del self.state.falls_silent[source]
        if source not in moment.cluster.silent:
            return []
        return self._on_source(SourceBack(source), moment)

    def _on_source(self, change: SourceSilent | SourceBack, moment: Moment) -> list[AnyEffect]:
        """Pass on what has become of a source, to its groups and to the cluster."""
        cluster = self._cluster(moment.cluster.cluster)
        rows = cluster.on_source(change, moment)
        effects = self._apply_to_groups(change.source, moment, change)
        return effects + self._follow_up(cluster, rows, moment)

    def _follow_up(self, cluster: ClusterObserver, rows: list[AnyEffect], moment: Moment) -> list[AnyEffect]:
        """Notify the groups of brokers and collectors with another incident; return all resulting rows."""
        effects, changed = rows if self._writes_cluster else [], cluster.take_changed()
        if not changed:
            return effects
        prefix = f"{cluster.state.cluster}/"
        keys = {key for groups in self.state.groups_of.values() for key in groups if key.startswith(prefix)}
        for key in sorted(keys):
            effects += self._change(key, lambda group: group.on_source(ClusterChanged(changed), moment))
        return effects

    # Groups

    def _fold(self, event: PollEvent | HookEvent, source: str, moment: Moment) -> list[AnyEffect]:
        key = f"{event.cluster}/{event.group}"
        group = self._groups.get(key) or self._group(key)
        state, former = group.state, group.state.collector
        effects = self._on_proxy(event, moment) if isinstance(event, ProxyConnection) else []
        of_cluster = len(effects)
        try:
            if source in state.silent and source not in moment.cluster.silent:  # it was forgotten, and is back
                effects += group.on_source(SourceBack(source), moment)
            effects += group.handle(event, moment)
            if event.seq % CHECKED_EVERY == 0:
                self._check(state, event.seq)
            reporters = group.sources() if key not in self.state.groups_of.get(source, ()) else ()
            self._schedule(key, group)
        except Exception as error:  # noqa: BLE001  `_fail` raises it where failures are not contained
            state.collector = former
            self._fail(key, error, event)
            return effects[:of_cluster]
        if state.collector != former:
            self._count_follower(former, -1)
            self._count_follower(state.collector, +1)
        for one in reporters:
            self.state.groups_of.setdefault(one, {})[key] = None
        return effects

    def _check(self, group: GroupState, seq: int) -> None:
        """Check the invariants of the group's state, and note a violation; folding continues in any case.

        A check takes longer the more queues there are, and is made less often: it costs 0.4 % of the time of an event,
        independent of the group's size. Which events are checked does not depend on where the log is cut.
        """
        if seq % (CHECKED_EVERY * (1 + len(group.queues))) == 0:
            try:
                group.validate()
            except InvariantError as error:
                self.contradictions.setdefault(group.key, str(error))

    def _note_boot(self, event: BrokerStatus, source: str, moment: Moment) -> list[AnyEffect]:
        """Note when a broker started, and whether that is a restart.

        A hook reports it once, at its start. A collector reports it every round, and a changed time is a restart.
        """
        name = f"{source} {event.broker}"
        before = self.state.boots.get(name)
        if event.boot_time in (None, before):
            return []
        self.state.boots[name] = event.boot_time
        effects = self._apply_to_groups(source, moment, HookRestarted(event))
        if before is not None:
            effects += self._apply_to_groups(source, moment, BrokerRestarted(event))
        return effects

    def _apply_to_groups(self, source: str, moment: Moment, change: SourceChange) -> list[AnyEffect]:
        """Apply what has become of a source to every group that it reports."""
        keys = sorted(self.state.groups_of.get(source, ()))
        return [row for key in keys for row in self._change(key, lambda group: group.on_source(change, moment))]

    def _change(self, key: str, change: Callable[[GroupObserver], list[AnyEffect]]) -> list[AnyEffect]:
        """Change a group, and schedule its next check; if that fails, the group begins again."""
        group = self._group(key)
        try:
            effects = change(group)
            self._schedule(key, group)
        except Exception as error:  # noqa: BLE001  `_fail` raises it where failures are not contained
            self._fail(key, error, None)
            return []
        return effects

    def _group(self, key: str) -> GroupObserver:
        group = self._groups.get(key)
        if group is None:
            blob = self._store.get(key_of_state(key))
            try:
                group = self._groups[key] = self._observer(key, self._state(key, blob))
            except UnreadableStateError as error:
                group = self._begin_again(key, "GROUP", error, remains_of(blob or b""), blob)
        return group

    def _state(self, key: str, blob: bytes | None) -> GroupState:
        cluster, _, name = key.partition("/")
        if blob is None:
            return GroupState(cluster, name)
        state = decode_group(blob)
        if state.key != key:
            raise UnreadableStateError(f"it is of {state.key!r}")
        return state

    def _observer(self, key: str, state: GroupState) -> GroupObserver:
        cluster, _, name = key.partition("/")
        return GroupObserver(state, self._policy.of_group(cluster, name))

    # Losses

    def note_lost(self, key: str, part: LostPart, reason: str) -> None:
        """Note the loss of state that is kept beside the group's own: an incident reports it."""
        group = self._group(key)
        group.note_lost(part, reason, self.state.now)
        self._schedule(key, group)

    def index_groups(self, keys: Collection[str], reason: str) -> None:
        """Restore the time, the sources and the checks of all groups; an incident of each names the loss."""
        for key in keys:
            with suppress(UnreadableStateError):
                last_seen = decode_group(self._store.get(key_of_state(key)) or b"").last_seen
                self.state.now = max(self.state.now, last_seen)
        for key in sorted(keys):
            group = self._group(key)
            for source in group.sources():
                self.state.groups_of.setdefault(source, {})[key] = None
            self._count_follower(group.state.collector, +1)
            self.note_lost(key, "SHARD", reason)

    def _fail(self, key: str, error: Exception, event: Event | None) -> None:
        """Reset a group whose event or timer could not be processed: its state may be half changed."""
        state = self._groups[key].state
        self._begin_again(key, "EVENT", error, Remains(state.rows, state.incidents, state.lost, state.collector), event)

    def _begin_again(
        self, key: str, part: LostPart, error: Exception, remains: Remains, value: bytes | Event | None
    ) -> GroupObserver:
        reason = self._losses.note(part, key, error, value)
        cluster, _, name = key.partition("/")
        self._count_follower(remains.collector, -1)
        group = self._groups[key] = self._observer(key, begun_again(cluster, name, remains, self.state.now))
        group.note_lost(part, reason, self.state.now)
        self._schedule(key, group)
        return group

    def _encoded(self, key: str, state: GroupState) -> bytes:
        try:
            return encode_group(state)
        except Exception as error:  # noqa: BLE001  `_fail` raises it where failures are not contained
            self._fail(key, error, None)
        return encode_group(self._groups[key].state)

    def _schedule(self, key: str, group: GroupObserver) -> None:
        due, checks = group.deadline(), self.state.checks
        if due is not None and checks.get(key) != due:
            checks[key] = due
            heapq.heappush(self._heap, (due, key))

    def _count_follower(self, collector: str, change: int) -> None:
        if collector:
            counts = Counter(self.state.followers)
            counts[collector] += change
            self.state.followers = dict(+counts)

    def _forget(self, group: GroupState) -> None:
        """Forget a group at its timer, not at the end of a batch: results do not depend on batch cuts."""
        del self._groups[group.key]
        self.state.checks.pop(group.key, None)
        self._count_follower(group.collector, -1)
        for groups in self.state.groups_of.values():
            groups.pop(group.key, None)
        self._store.remove(key_of_state(group.key))
        self._forgotten.append(group)
