"""The observer of one consumer group: what was seen, and what is due, become conclusions.

    step(state, event, policy, clocks)   -> effects of what was seen
    advance(state, tick, policy, clocks) -> effects of what is due by then, by the tick's clock
    deadlines(state, policy)             -> when something will be due, by each clock

Total and deterministic: any valid event of the group, in any order, has a result, and the same log has the same one.

Only ticks let time pass, each that of its own source. A deadline belongs to the clock of the stamp that it came from;
stamps of two clocks are never subtracted. The rows of a group are dated by one clock, the group's own: that of the
collector whose answers are followed, or, where there is none, of the first broker whose hook was heard. What another
source tells happened, for the rows, when it was heard; its own stamps are in the event that the row's cause names. So
beside a collector a broker whose clock is wrong shifts no row, and the rows of a group never go back in time; but for
once, where the group lived by a clock that was far ahead, and a collector comes.

One collector is followed at a time; what another one says of the group is skipped, until the followed one has been
silent for `FOLLOW_INTERVALS` poll intervals of the other's own clock. So two collectors for safety do no harm. Hooks
are all followed, each for its broker, beside the collector: see `corrections` for how they make one truth.
"""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from rebalance_model.observe.effects import AnyEffect
from rebalance_model.observe.events import (
    Answer,
    BrokerStatus,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeTimeSpan,
    Event,
    HookEvent,
    PollEvent,
    TelemetryLost,
    Tick,
    clock_of,
    instance_of,
    key_of,
)
from rebalance_model.observe.group import causes, rebalances
from rebalance_model.observe.group.membership import fold_connections, fold_route
from rebalance_model.observe.hooks import hook
from rebalance_model.observe.identity import stable_id
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.polls.answers import fold_running_info
from rebalance_model.observe.polls.offsets import fold_stats
from rebalance_model.observe.polls.polled_restart import await_members, stop_waiting
from rebalance_model.observe.state import GroupState, Loss, Rounds, Sequence
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts import snapshots
from rebalance_model.observe.verdicts.judgement import judge, judge_all

Clocks: TypeAlias = Mapping[str, int]
NEVER = 2**63 - 1
"""Nothing is due by a clock, but its source tells of the group."""
FOLLOW_INTERVALS = 3
"""A followed collector that says nothing of the group for so many poll intervals is left for another that does."""
FAR_AHEAD = 60_000
"""Less than that the rows wait for a clock that is behind the former one; milliseconds."""


def step(state: GroupState, event: PollEvent | HookEvent, policy: Policy, clocks: Clocks) -> list[AnyEffect]:
    """Fold one event of the group; one that was folded before, or of a collector not followed, changes nothing.

    ``clocks`` says how far the clock of each source has come, this event included.
    """
    news = _news(state, event, event.seq)
    if news is None or not _is_followed(state, event, policy, clocks):
        return []
    turn = Turn(state, policy, clocks, cause=f"{event.source_id}|{key_of(event)}|{event.seq}")
    now = state.last_seen = turn.now
    if state.next_snapshot == 0:
        state.next_snapshot = _next_snapshot(state, now, policy)
    if isinstance(event, Answer):
        if news != "NEXT":
            state.covered_since = now
        if news == "GAP":
            state.lost_at, turn.group_to_judge = now, True
        _fold_answer(turn, event)
    else:
        hook.fold_hook(turn, event, news)
    return _concluded(turn)


def restart(state: GroupState, event: BrokerStatus, policy: Policy, clocks: Clocks) -> list[AnyEffect]:
    """A broker has started, as its hook says first: what was known of its members and locks holds no more."""
    view = state.views.get(event.broker)
    clock = clock_of(event)
    news = _news(state, event, seq=0)
    if news != "RESTART" or view is None or view.hook is None or view.hook.clock != clock:
        return []
    turn = Turn(state, policy, clocks, cause=f"{event.source_id}||{event.seq}")
    hook.restart(turn, event.broker, view, view.hook, event.time)
    return _concluded(turn)


def reboot(state: GroupState, event: BrokerStatus, policy: Policy, clocks: Clocks) -> list[AnyEffect]:
    """A broker has started, as polls say: where its hook lives it says so itself."""
    view = state.views.get(event.broker)
    turn = Turn(state, policy, clocks, cause=f"{event.source_id}||{event.seq}")
    if view is None or state.hook_clock or state.clock != clock_of(event) or turn.live_hook(view) is not None:
        return []
    await_members(turn, event.broker, view)
    return _concluded(turn)


def miss(state: GroupState, tick: Tick, silent: str, policy: Policy, clocks: Clocks) -> list[AnyEffect]:
    """The ticks of a source have stopped, while the source of this tick goes on."""
    state.silent[silent] = clocks.get(state.clock, 0)
    return _look_at_source(state, tick, silent, policy, clocks)


def hear_again(state: GroupState, tick: Tick, clock: str, policy: Policy, clocks: Clocks) -> list[AnyEffect]:
    """A source that had fallen silent ticks again."""
    state.silent.pop(clock, None)
    return _look_at_source(state, tick, clock, policy, clocks)


def note_loss(state: GroupState, event: TelemetryLost, policy: Policy, clocks: Clocks) -> list[AnyEffect]:
    """A source says what it could not send; whether something of this group was in it, a jump of its seq tells.

    Until then it may have been: no silence of a hook that rests on that time is a client's.
    """
    del policy, clocks
    clock = clock_of(event)
    state.losses[clock] = Loss(event.from_time, event.to_time, event.count, event.reason)
    for view in state.views.values():
        if view.hook is not None and view.hook.clock == clock:
            view.hook.covered_since = max(view.hook.covered_since, event.to_time)
    return []


def _look_at_source(state: GroupState, tick: Tick, clock: str, policy: Policy, clocks: Clocks) -> list[AnyEffect]:
    turn = Turn(state, policy, clocks, cause=f"{tick.source_id}||{tick.seq}")
    turn.group_to_judge = True
    turn.brokers_to_judge |= {broker: None for broker, view in state.views.items() if view.told_by == clock}
    return _concluded(turn)


def advance(state: GroupState, tick: Tick, policy: Policy, clocks: Clocks) -> list[AnyEffect]:
    """What is due by the tick, by its clock, in order."""
    effects: list[AnyEffect] = []
    clock = clock_of(tick)
    while (due := deadlines(state, policy).get(clock)) is not None and due <= tick.time:
        turn = Turn(state, policy, {**clocks, clock: due}, cause=f"{tick.source_id}||{tick.seq}")
        if state.dues.get(clock, due + 1) <= due:
            del state.dues[clock]
            for broker, view in state.views.items():
                if view.hook is not None and view.hook.clock == clock:
                    hook.scan(turn, broker, view, view.hook, due)
            if clock == state.clock:
                stop_waiting(turn, due)
            judge_all(turn)
        if clock == state.clock:
            _keep_house(turn, due)
        snapshots.snapshot_changes(turn)
        state.last_event = turn.time
        effects += turn.effects
    return effects


def deadlines(state: GroupState, policy: Policy) -> dict[str, int]:
    """When something will be due next, by each clock that the group was told by; empty for one without any event."""
    if state.next_snapshot == 0:
        return {}
    never = {view.told_by: NEVER for view in state.views.values() if view.told_by} | {state.poll_clock: NEVER}
    never.pop("", None)
    dues = [state.next_snapshot, rebalances.deadline(state, policy), state.dues.get(state.clock)]
    return never | state.dues | {state.clock: min(due for due in dues if due is not None)}


def is_forgotten(state: GroupState, now: int, policy: Policy) -> bool:
    """Whether the group has no member, no incident and no event for group_memory."""
    return not state.members and not state.incidents and now - state.last_seen > policy.group_memory


def _keep_house(turn: Turn, due: int) -> None:
    """What is due by the group's own clock beside the rules."""
    rebalances.give_up(turn, due)
    if turn.state.next_snapshot <= due:
        turn.state.next_snapshot = _next_snapshot(turn.state, due, turn.policy)
        snapshots.snapshot_all(turn)


def _concluded(turn: Turn) -> list[AnyEffect]:
    judge(turn)
    rebalances.settle(turn)
    snapshots.snapshot_changes(turn)
    turn.state.last_event = turn.time
    return turn.effects


def _next_snapshot(state: GroupState, now: int, policy: Policy) -> int:
    """The next of the group's moments, one in each interval, so that it does not depend on when a batch ran.

    Each group has its own: a cluster's thousands would else tell their whole states in one batch, all others waiting.
    """
    interval = policy.snapshot_interval
    own = int(stable_id(state.cluster, state.group), 16) % interval
    return ((now - own) // interval + 1) * interval + own


def _fold_answer(turn: Turn, event: PollEvent) -> None:
    if isinstance(event, ConsumerConnection):
        fold_connections(turn, event)
    elif isinstance(event, ConsumerRunningInfo):
        fold_running_info(turn, event)
    elif isinstance(event, ConsumeTimeSpan):
        pass  # a quantity: nothing is judged by it
    elif isinstance(event, ConsumeStats):
        turn.queues_to_judge |= dict.fromkeys(fold_stats(turn, event))
        turn.group_to_judge = turn.group_to_judge or not turn.state.members
    else:
        fold_route(turn, event)


def _news(state: GroupState, event: Event, seq: int) -> hook.News | None:
    """How the event continues what its source has told of the group; None: it was folded before."""
    instance, start = instance_of(event.source_id)
    name = f"{event.source}/{instance}"
    last = state.sequences.get(name)
    if last is not None and last.covers(start, seq):
        return None
    state.sequences[name] = Sequence(start, seq)
    if last is None:
        return "FIRST"
    if start > last.start:
        return "RESTART"
    return "GAP" if seq > last.seq + 1 else "NEXT"


def _is_followed(state: GroupState, event: PollEvent | HookEvent, policy: Policy, clocks: Clocks) -> bool:
    """Whether the event counts; sees to it that the group lives by the clock of a source that is heard."""
    clock, is_hook = clock_of(event), not isinstance(event, Answer)
    if not state.clock or (state.hook_clock and not is_hook):
        _live_by(state, clock, policy, clocks, is_hook=is_hook)
    if clock == state.clock:
        state.followed_at.clear()
        return True
    waited_since = state.followed_at.setdefault(clock, event.time)
    if event.time - waited_since > FOLLOW_INTERVALS * policy.poll_interval:
        _live_by(state, clock, policy, clocks, is_hook=is_hook)
        return True
    return is_hook


def _live_by(state: GroupState, clock: str, policy: Policy, clocks: Clocks, *, is_hook: bool) -> None:
    """Take over another clock: what was dated by the former one, and is still open, begins now."""
    now = clocks[clock]
    former, state.clock, state.hook_clock = state.clock, clock, is_hook
    state.poll_clock = state.poll_clock if is_hook else clock
    state.followed_at.clear()
    if not former:
        return
    state.dues[clock] = now + 1  # what was waiting for the former clock is looked at by this one
    state.covered_since, state.lost_at = now, 0
    state.silent = dict.fromkeys(state.silent, now)
    state.next_snapshot = _next_snapshot(state, now, policy)
    if state.last_event - now > FAR_AHEAD:
        state.last_event = now
        if state.episode is not None:
            state.episode.start_time = now
    causes.begin(state, now)
    state.unmanned_since = now if state.unmanned_since else 0
    if state.episode is not None:
        state.episode.last_cause = state.episode.last_change = max(now, state.episode.start_time)
    for client in state.clients.values():
        client.unanswered = 0
    for view in state.views.values():
        view.awaited = dict.fromkeys(view.awaited, now + hook.HEARD_FROM_ALL)
        view.back_at, view.stats_asked = min(view.back_at, now), 0
        if view.hook is not None:
            view.hook.heard_at = now - (clocks.get(view.hook.clock, view.hook.time) - view.hook.time)
    _date_assignments(state, now)
    for queue in state.queues.values():
        if queue.hook is not None:
            queue.hook.told_at = min(queue.hook.told_at, now)


def _date_assignments(state: GroupState, now: int) -> None:
    """Who has what, and for how long nobody, is counted from now."""
    state.manned_since = state.expected_at = state.moved_at = now
    state.rounds = Rounds()
    for route in state.routes.values():
        route.changed_at = now
    for queue in state.queues.values():
        if queue.unowned is not None:
            queue.unowned = msgspec.structs.replace(queue.unowned, since=now)
