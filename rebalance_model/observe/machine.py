"""The observer of one consumer group: what was seen, and what is due, become conclusions.

    step(state, event, policy)          -> effects of what was seen
    advance(state, now, policy, cause)  -> effects of what is due by `now`, as a tick says
    next_deadline(state, policy)        -> when something will be due, by the clock that is followed

Total and deterministic: any valid event of the group, in any order, has a result, and the same log has the same one.

Only ticks let time pass. What is due carries its deadline's time, or that of the group's last event where it became
known only then (a client's silence is known when its question fails): the rows of a group never go back in time.

One collector is followed at a time, by its clock; what another one says of the group is skipped, until the followed
one has been silent for `FOLLOW_INTERVALS` poll intervals of the other's own clock. So two collectors for safety do no
harm, and stamps of two clocks are never compared. Hook events are validated and archived; their rules need the
broker's clock and are not folded here yet.
"""

from collections.abc import Iterator

from rebalance_model.entities import MessageQueue
from rebalance_model.observe import rebalances, snapshots
from rebalance_model.observe.ages import Ages
from rebalance_model.observe.answers import fold_running_info
from rebalance_model.observe.effects import AnyEffect
from rebalance_model.observe.events import (
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    PollEvent,
    clock_of,
    instance_of,
    key_of,
)
from rebalance_model.observe.incidents import apply
from rebalance_model.observe.membership import fold_connections, fold_route
from rebalance_model.observe.offsets import fold_stats
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.rules import lock_expired, ordered_queue_stuck, pull_expired
from rebalance_model.observe.state import GroupState, Sequence
from rebalance_model.observe.turn import Turn

FOLLOW_INTERVALS = 3
"""A followed collector that says nothing of the group for so many poll intervals is left for another that does."""
_AGED = (lock_expired, pull_expired)


def step(state: GroupState, event: PollEvent, policy: Policy) -> list[AnyEffect]:
    """Fold one event of the group; one that was folded before, or of a collector not followed, changes nothing."""
    if not _is_new(state, event) or not _is_followed(state, event, policy):
        return []
    state.last_seen = event.time
    state.last_event = max(state.last_event, event.time)
    if state.next_snapshot == 0:
        state.next_snapshot = _next_snapshot(event.time, policy)
    turn = Turn(state, policy, time=state.last_event, cause=f"{event.source_id}|{key_of(event)}|{event.seq}")
    if isinstance(event, ConsumerConnection):
        fold_connections(turn, event)
    elif isinstance(event, ConsumerRunningInfo):
        fold_running_info(turn, event)
    elif isinstance(event, ConsumeStats):
        for mq in fold_stats(turn, event):
            apply(turn, ordered_queue_stuck.CODE, mq, ordered_queue_stuck.judge(state, mq, turn.time, policy))
    else:
        fold_route(turn, event)
    _judge_ages(turn)
    rebalances.settle(turn)
    snapshots.snapshot_changes(turn)
    return turn.effects


def advance(state: GroupState, now: int, policy: Policy, cause: str) -> list[AnyEffect]:
    """What is due by ``now`` of the followed clock, in order; ``cause`` names the tick."""
    effects: list[AnyEffect] = []
    while (due := next_deadline(state, policy)) is not None and due <= now:
        turn = Turn(state, policy, time=max(due, state.last_event), cause=cause)
        turn.aged |= {mq: None for mq, age_due in _ages_due(state, policy) if age_due <= due}
        _judge_ages(turn)
        rebalances.give_up(turn, due)
        snapshots.snapshot_changes(turn)
        if state.next_snapshot <= due:
            state.next_snapshot = _next_snapshot(due, policy)
            snapshots.snapshot_all(turn)
        state.last_event = turn.time
        effects += turn.effects
    return effects


def next_deadline(state: GroupState, policy: Policy) -> int | None:
    """When something will be due next, by the followed clock; None for a group without any event."""
    if state.next_snapshot == 0:
        return None
    settle_due = rebalances.deadline(state, policy)
    dues = [state.next_snapshot, *(due for _, due in _ages_due(state, policy))]
    return min(dues if settle_due is None else [*dues, settle_due])


def is_forgotten(state: GroupState, now: int, policy: Policy) -> bool:
    """Whether the group has no member, no incident and no event for group_memory."""
    return not state.members and not state.incidents and now - state.last_seen > policy.group_memory


def _ages_due(state: GroupState, policy: Policy) -> Iterator[tuple[MessageQueue, int]]:
    """When queues of members that do not answer pass the limits of the rules about ages."""
    for client_id, client in state.clients.items():
        if not client.silent:
            continue
        for mq in client.queues:
            if state.queues[mq].owner == client_id:
                for rule in _AGED:
                    if (due := rule.due(state, mq, policy)) is not None:
                        yield mq, due


def _judge_ages(turn: Turn) -> None:
    for mq in turn.aged:
        ages = Ages.of(turn.state, mq, turn.time)
        for rule in _AGED:
            apply(turn, rule.CODE, mq, rule.judge(turn.state, mq, ages, turn.policy))


def _next_snapshot(now: int, policy: Policy) -> int:
    """The next multiple of the interval, so that it does not depend on when a batch ran."""
    return (now // policy.snapshot_interval + 1) * policy.snapshot_interval


def _is_new(state: GroupState, event: PollEvent) -> bool:
    """Whether the event was not folded before; a jump of its seq ends what was covered until then."""
    instance, start = instance_of(event.source_id)
    name = f"{event.source}/{instance}"
    last = state.sequences.get(name)
    if last is not None and (start < last.start or (start == last.start and event.seq <= last.seq)):
        return False
    if last is not None and (start > last.start or event.seq > last.seq + 1):
        state.covered_since = event.time
    state.sequences[name] = Sequence(start, event.seq)
    return True


def _is_followed(state: GroupState, event: PollEvent, policy: Policy) -> bool:
    clock = clock_of(event)
    if not state.clock:
        state.clock = clock
    if clock != state.clock:
        waited_since = state.followed_at.setdefault(clock, event.time)
        if event.time - waited_since <= FOLLOW_INTERVALS * policy.poll_interval:
            return False
        state.clock = clock
        state.covered_since = event.time
        state.next_snapshot = _next_snapshot(event.time, policy)
    state.followed_at.clear()
    return True
