"""Observe a cluster: its brokers, their hooks, and the collectors.

Only broadcasts are used, of which every shard has a copy, folded in time order. So every shard gets the same incidents
with the same ids: shard 0 writes them, and the others use them as parents. LATE and BUFFER_FULL are the exception: they
depend on when rows arrive in one shard's log, so shards may see them at other times.
"""

from rebalance_model.observe.changes import SourceBack, SourceSilent
from rebalance_model.observe.effects import AnyEffect
from rebalance_model.observe.events import (
    Broadcast,
    BrokerStatus,
    ClockStep,
    ProxyConnection,
    ProxyStatus,
    TelemetryLost,
    Tick,
    instance_of,
    source_of,
)
from rebalance_model.observe.losses import Losses
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.rules import (
    broker_name_shared,
    broker_unreachable,
    delayed_stuck,
    proxy_unreachable,
    revive_behind,
)
from rebalance_model.observe.rules.lifecycle import apply, end
from rebalance_model.observe.rules.registry import CLUSTER_RULES
from rebalance_model.observe.state import ClockSet, ClusterBroker, ClusterProxy, ClusterState, Loss, Reach, Sequence
from rebalance_model.observe.state.clocks import Bounds, Clocks, bounds_of_now
from rebalance_model.observe.step import ClusterStep, Moment

FORGOTTEN = "its source has been silent for long, and was forgotten"
"""Why the incidents of a broker or collector are resolved that nothing reports any more."""


class ClusterObserver:
    """One cluster: broadcasts, timers and changes of its sources go in, rows come out."""

    def __init__(self, state: ClusterState, policy: Policy, clocks: Clocks, losses: Losses) -> None:
        """Continue from a state, which changes in place.

        Args:
            state: the cluster.
            policy: the thresholds.
            clocks: what is known of the sources' clocks; read only.
            losses: where a broadcast or a judgement is noted that fails.
        """
        self.state = state
        self.policy = policy
        self._clocks = clocks
        self._losses = losses
        self._changed: dict[str, None] = {}

    def handle(self, event: Broadcast, moment: Moment) -> list[AnyEffect]:
        """Process a broadcast; a repeated one changes nothing, and one that fails costs itself."""
        step = self._step(moment)
        try:
            self._observe(step, event)
        except Exception as error:  # noqa: BLE001  it is raised where failures are not contained
            self._losses.note("EVENT", "", error, event)
        return self._concluded(step)

    def _observe(self, step: "_Step", event: Broadcast) -> None:
        step.observe(event)
        if isinstance(event, BrokerStatus) and event.asked:
            broker = self.state.brokers.get(event.broker)
            measured = self._clocks.measured_by(broker.hook, event.asked) if broker is not None else None
            if measured is not None:
                step.note_clock(event.broker, *measured)

    def on_proxy(self, event: ProxyConnection, moment: Moment) -> list[AnyEffect]:
        """Process what a collector of an earlier release reports of a proxy: it sends no PROXY_STATUS."""
        step = self._step(moment)
        with self._losses.containing(event):
            proxy = self.state.proxies.get(event.proxy)
            if proxy is None or not proxy.is_stated:
                step.note_proxy(event, source_of(event), is_stated=False)
        return self._concluded(step)

    def on_source(self, change: SourceSilent | SourceBack, moment: Moment) -> list[AnyEffect]:
        """Process what has become of a source."""
        step = self._step(moment)
        with self._losses.containing():
            if isinstance(change, SourceSilent):
                self.state.silent[change.source] = change.silence
            else:
                self.state.silent.pop(change.source, None)
                self.state.ended.pop(change.source, None)
            step.judge_of(change.source)
        return self._concluded(step)

    def forget_source(self, source: str, moment: Moment) -> list[AnyEffect]:
        """Forget a source that has been silent for long, and what only it has reported."""
        step = self._step(moment)
        with self._losses.containing():
            step.forget_source(source)
        return self._concluded(step)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing reports the cluster any more."""
        state = self.state
        return not (state.sequences or state.sources or state.brokers or state.proxies or state.incidents)

    def advance(self, moment: Moment) -> list[AnyEffect]:
        """Run the check that is due (`deadline`); return the resulting rows."""
        step = self._step(moment)
        self.state.next_check = 0
        step.judge_all()
        return self._concluded(step)

    def deadline(self) -> int | None:
        """Return when the next check is due; None: none is."""
        return self.state.next_check or None

    def take_changed(self) -> dict[str, None]:
        """Return the brokers and collectors with another incident since the last call: their groups may change."""
        changed, self._changed = self._changed, {}
        return changed

    def _step(self, moment: Moment) -> "_Step":
        return _Step(self.state, self.policy, moment, self._losses)

    def _concluded(self, step: "_Step") -> list[AnyEffect]:
        step.judge()
        self._changed |= step.touched
        return step.effects


class _Step(ClusterStep):
    """One step of a cluster: changes are recorded, then judged."""

    def __init__(self, state: ClusterState, policy: Policy, moment: Moment, losses: Losses) -> None:
        super().__init__(state, policy, moment)
        self._losses = losses
        self._to_judge: dict[str, None] = {}

    def judge(self) -> None:
        """Judge what has changed; a broker or a source that can't be judged costs itself."""
        for subject in self._to_judge:
            with self._losses.containing():
                if broker_unreachable.is_gone(self, subject):
                    self._forget(subject)
                apply(self, CLUSTER_RULES, subject)

    def observe(self, event: Broadcast) -> None:
        """Record a broadcast; a repeated one changes nothing."""
        state, source = self.state, source_of(event)
        number = Sequence(instance_of(event.source_id)[1], event.seq)
        known = state.sequences.get(source)
        if known is not None and known.covers(number.start, number.seq):
            return
        state.sequences[source] = number
        if isinstance(event, Tick):
            self._note_tick(event, source)
        elif isinstance(event, TelemetryLost):
            state.losses[source] = Loss(event.from_time, event.to_time, event.count, event.reason)
        elif isinstance(event, ClockStep):
            self._note_clock_set(event, source)
        elif isinstance(event, ProxyStatus):
            self.note_proxy(event, source, is_stated=True)
        elif isinstance(event, BrokerStatus) and (source in state.collectors or event.asked or event.error is not None):
            self._note_answer(event, source)  # a hook reports it, too, when its broker starts

    def note_proxy(self, event: ProxyStatus | ProxyConnection, collector: str, *, is_stated: bool) -> None:
        """Record whether a collector has reached a proxy; an error code from the proxy is an answer."""
        proxies = self.state.proxies
        if event.proxy not in proxies and len(proxies) >= proxy_unreachable.PROXIES_MAX:
            return
        view = proxies.setdefault(event.proxy, ClusterProxy())
        view.is_stated = view.is_stated or is_stated
        is_silence = event.error is not None and event.error.is_silence
        at = event.asked or event.time, self.now
        proxy_unreachable.noted(view, collector, at, self.policy.poll_interval, is_silence=is_silence)
        self._to_judge[event.proxy] = None

    def note_clock(self, broker: str, bounds: Bounds, asked: int) -> None:
        """Record how far a broker's clock is ahead.

        Args:
            broker: the broker's name.
            bounds: minimum and maximum, milliseconds.
            asked: when the request that shows it was sent.
        """
        view = self.state.brokers.setdefault(broker, ClusterBroker())
        limit = self.policy.clock_skew
        if view.skew is None or _is_off(view.skew, limit) != _is_off(bounds, limit):
            view.skew_since = asked
        if view.skew != bounds:
            view.skew = bounds
            self._to_judge[broker] = None

    def _forget(self, broker: str) -> None:
        """Forget a broker that the cluster no longer has, with its hooks; its incidents end, and groups are told."""
        state = self.state
        for subject in [broker, *(name for name in state.sources if name.rpartition(":")[0] == broker)]:
            end(self, CLUSTER_RULES, subject, broker_unreachable.GONE)
            state.sources.pop(subject, None)
        del state.brokers[broker]
        kept = self.now - self.policy.broker_gone_after
        state.gone = {name: at for name, at in state.gone.items() if at > kept} | {broker: self.now}
        self.touched[broker] = None

    def forget_source(self, source: str) -> None:
        """Forget a source, with the brokers and proxies that only it has reported; their incidents end."""
        state = self.state
        for reported in (
            state.sequences, state.silent, state.ended, state.losses, state.clocks_set, state.collectors
        ):  # fmt: skip
            reported.pop(source, None)
        for subject in [subject for subject, known in state.sources.items() if known == source]:
            end(self, CLUSTER_RULES, subject, FORGOTTEN)
            del state.sources[subject]
        for name, broker in tuple(state.brokers.items()):
            broker.reached_by.pop(source, None)
            broker.hook = "" if broker.hook == source else broker.hook
            if not broker.hook and not broker.reached_by:
                self._forget_unreported(state.brokers, name)
        for address, proxy in tuple(state.proxies.items()):
            proxy.reached_by.pop(source, None)
            if not proxy.reached_by:
                self._forget_unreported(state.proxies, address)

    def _forget_unreported(self, subjects: dict[str, ClusterBroker] | dict[str, ClusterProxy], name: str) -> None:
        """Forget a broker or a proxy that no source reports any more; its incidents end."""
        end(self, CLUSTER_RULES, name, FORGOTTEN)
        del subjects[name]
        self.touched[name] = None

    def _note_tick(self, tick: Tick, source: str) -> None:
        """Record a tick, of a broker's hook if it names a broker, else of a collector; its source may be late."""
        state = self.state
        subject = tick.broker or instance_of(tick.source_id)[0]
        if tick.broker_id:
            subject = f"{subject}:{tick.broker_id}"
        if (silence := state.silent.get(source)) is not None and silence.why == "LATE":
            silence.ticked = max(silence.ticked, tick.time)
        if state.sources.get(subject) == source and tick.end == (source in state.ended):
            return
        state.sources[subject] = source
        if not tick.broker:
            state.collectors[source] = None
        elif not tick.broker_id:
            state.brokers.setdefault(tick.broker, ClusterBroker()).hook = source
        if tick.end:
            state.ended[source] = tick.time
        else:
            state.ended.pop(source, None)
        self.judge_of(source)

    def _note_clock_set(self, event: ClockStep, source: str) -> None:
        """Record that a source's clock was set; what was measured by it, or of it, is void."""
        self.state.clocks_set[source] = ClockSet(self.now, event.step)
        for view in self.state.brokers.values():
            if source == view.hook or source in self.state.collectors:
                view.skew = None
        self.judge_all()

    def _note_answer(self, status: BrokerStatus, collector: str) -> None:
        """Record whether a collector has reached a broker; an error code from the broker is an answer."""
        is_silence = status.error is not None and status.error.is_silence
        if is_silence and not status.listed and status.broker in self.state.gone:
            return
        self.state.gone.pop(status.broker, None)
        view = self.state.brokers.setdefault(status.broker, ClusterBroker())
        reach = view.reached_by.setdefault(collector, Reach())
        if not is_silence:
            view.reached_by[collector] = Reach(reported_at=self.now)
        else:
            reach.reported_at = self.now
            if status.listed is not None:
                reach.unlisted_since = 0 if status.listed else reach.unlisted_since or self.now
            reach.unanswered += 1
            if reach.unanswered == 1:
                reach.asked_in_vain, reach.first_at = status.asked or status.time, status.time
            elif reach.unanswered == 2:
                reach.second_at = status.time
        if status.now and status.answered and not view.hook:
            bounds = bounds_of_now(status.asked, status.answered, status.now)
            self.note_clock(status.broker, bounds, status.asked)
        if status.boot_time is not None and not status.broker_id:
            broker_name_shared.note(view, status.boot_time, self.now)
        if status.delay_levels is not None:
            levels = [(one.level, one.offset, one.newest) for one in status.delay_levels]
            interval = self.policy.poll_interval
            view.delayed = delayed_stuck.noted(view.delayed, levels, status.timer_behind, self.now, interval)
        if status.revive_backlog is not None:
            interval = self.policy.poll_interval
            answer = status.revive_backlog, status.revive_late
            view.revive = revive_behind.noted(view.revive, *answer, self.now, interval)
        self._to_judge[status.broker] = None

    def judge_of(self, source: str) -> None:
        """Record that what depends on a source is to be judged: everything, or a broker if it is its hook."""
        state = self.state
        if source in state.collectors:
            self.judge_all()
            return
        self._to_judge |= {subject: None for subject, known in state.sources.items() if known == source}
        self._to_judge |= {name: None for name, broker in state.brokers.items() if broker.hook == source}

    def judge_all(self) -> None:
        """Record that everything is to be judged."""
        self._to_judge |= dict.fromkeys(sorted({*self.state.brokers, *self.state.sources, *self.state.proxies}))


def _is_off(bounds: Bounds, limit: int) -> int:
    """Return 1 if the clock is certainly ahead, -1 if behind, 0 if neither is certain."""
    return (bounds[0] > limit) - (bounds[1] < -limit)
