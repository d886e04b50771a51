"""Record rebalances as episodes: from the first cause to the last move.

An episode opens with an observed cause (a member joined or left, subscriptions or read queues changed, a client
restarted), or with a move that no observed cause explains: a cause that is observed within `CAUSE_WITHIN` still becomes
the trigger (a client that leaves unlocks before it unregisters). Two moves need no cause: that of a queue whose owner
had not pulled for longer than pullMaxIdleTime and drops it to take it again; and that of a queue whose lock had been
refused to the next owner until then.

It settles when every member that answers has answered since the last cause, the owners are those that the strategy
names, and each of them has begun, where that is reported. If the strategy is unknown, it settles when every queue that
moved has an owner that has begun and none has changed for three poll intervals; and in any case
`Policy.rebalance_settle_after` after its last change. It has converged if every queue has its owner, and the owners
have begun.

The effect on a queue (`QueueMove.kind`) follows from its owners before and at the end, regardless of those in between.
A broker that restarts interrupts all of its queues: it has lost the locks. The pause of a queue runs from the last
activity of its old owner before it lost the queue (its unlock, or otherwise its last granted lock, pull or commit)
until the new owner was granted the lock, or (concurrent) first pulled. If the broker's hook reports both, the pause is
exact. Otherwise it is the difference of stamps in answers, an upper bound: the old owner may have continued after its
last observed stamp, and the new owner may have begun before its first.

Fewest moves: if each member that keeps a topic had kept as many of its queues as it has at the end, only the rest would
have moved. For each topic, a client gains as many queues as it has more after than before; the sum of these gains is
the minimum.

Messages that are consumed again: by the broker's hook, the new owner begins where it first pulls. Those beyond that
offset that its former owner had committed, or that were committed for it, are certainly consumed again; those that the
former owner had pulled further may be. The estimate is what it had consumed, by its rate since its last commit. A
former owner that unlocks has committed what it consumed, so the bounds coincide. A client that keeps its process queue,
as after its broker's restart, reads nothing again. Rereads of several owners within a rebalance are added up. By polls
alone, the new owner began at the last observed commit or later, and its former owner can't have consumed more than
there was: there is no estimate.
"""

from collections import Counter
from typing import NamedTuple

from rebalance_model.entities import MessageQueue, queue_order
from rebalance_model.observe.effects import MoveKind, QueueMove, RebalanceSettled, stable_id
from rebalance_model.observe.facts.group_facts import is_subscribed
from rebalance_model.observe.group import causes
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import BROADCASTING, Episode, GroupState, HookQueueView, Move, QueueState
from rebalance_model.observe.step import GroupStep

CAUSES_MAX = 64
"""Further causes within one episode are counted by its moves, not listed."""
CAUSE_WITHIN = 5_000
"""A cause observed this long after a move still becomes the trigger; milliseconds."""
BEGUN_WITHIN = 5_000
"""A new owner pulls within this time, unless its pull interval is long; milliseconds."""
QUIET_INTERVALS = 3
"""Without a known strategy, poll intervals without a change until a rebalance settles."""
UNEXPLAINED, PULL_EXPIRED_REPAIR = "UNEXPLAINED", "PULL_EXPIRED_REPAIR"


def open_or_extend(step: GroupStep, code: str, subject: str, *, client_id: str | None, unseen: bool = False) -> Episode:
    """Add a cause to the open episode, or open one; return the episode."""
    causes.note(step, code, subject, client_id, unseen=unseen)
    return _add_cause(step, code, subject, client_id)


def _add_cause(step: GroupStep, code: str, subject: str, client_id: str | None) -> Episode:
    state = step.state
    episode = state.episode
    if episode is None:
        episode = state.episode = Episode(
            rebalance_id=stable_id(state.cluster, state.group, "rebalance", step.now, code, subject),
            start_time=step.now,
            trigger=code,
            trigger_client=client_id,
            causes=[],
            members_before=state.members,
            last_cause=step.now,
            last_change=step.now,
        )
    if episode.trigger == UNEXPLAINED and code != UNEXPLAINED and _explains(step, code, episode):
        episode.trigger, episode.trigger_client, episode.causes = code, client_id, []
    cause = f"{code} {subject}".rstrip()
    is_repeated = episode.causes[-1:] == [cause] and step.now - episode.last_cause <= CAUSE_WITHIN  # by another broker
    if not is_repeated and len(episode.causes) < CAUSES_MAX:
        episode.causes.append(cause)
    episode.last_cause = max(episode.last_cause, step.now)
    episode.last_change = max(episode.last_change, step.now)
    return episode


def note_move(step: GroupStep, mq: MessageQueue, former: str | None, owner: str | None) -> str:
    """Add a queue's change of owner to the open episode, or open one for it; return the rebalance's id.

    A retry queue moves with its group: it opens no episode, and is not among the moves.
    """
    if mq.is_retry:
        return step.state.episode.rebalance_id if step.state.episode is not None else ""
    queue = step.state.queues[mq]
    episode = step.state.episode or _open_by_move(step, mq, former, owner)
    if episode.trigger == UNEXPLAINED and owner is not None and _is_new(step.state, mq, former):
        open_or_extend(step, "ROUTE_CHANGED", mq.topic, client_id=None)
    move = _move_of(queue, episode, mq, former or queue.former_owner)
    move.to_client, move.begun_at, move.begun_is_exact = owner, None, False
    _note_change(step, episode)
    if owner is not None:
        if queue.hook_view is not None and queue.hook_view.holder == owner:
            queue.hook_view.begun_at = 0  # it had denied the queue: its next lock or pull marks a new beginning
        note_answer(step, episode, mq, owner)
    return episode.rebalance_id


def note_begun(step: GroupStep, mq: MessageQueue, at: int, *, is_exact: bool) -> None:
    """Record that the queue's holder was granted the lock or (concurrent) pulled, at ``at``."""
    episode = step.state.episode
    move = episode.moves.get(mq) if episode is not None else None
    if episode is not None and move is not None and move.begun_at is None:
        move.begun_at, move.begun_is_exact = at, is_exact
        _note_change(step, episode)


def note_answer(step: GroupStep, episode: Episode, mq: MessageQueue, client_id: str) -> None:
    """Record from a client's answer that it has begun, by its lock (ordered) or pull, where no hook reports it."""
    move = episode.moves.get(mq)
    if move is None or move.to_client != client_id or _reports(step, mq) is not None:
        return
    client = step.state.clients.get(client_id)
    process_queue = client.queues.get(mq) if client is not None else None
    if (
        client is None
        or process_queue is None
        or process_queue.dropped
        or (client.orderly and not process_queue.locked)
    ):
        return
    sign = process_queue.last_lock_timestamp if client.orderly else process_queue.last_pull_timestamp
    if sign is None:
        return
    began = client.time_of(sign)
    if move.from_client != client_id or began > (move.polled_sign or 0):
        note_begun(step, mq, began, is_exact=False)


def interrupt_all(step: GroupStep, broker: str) -> None:
    """Record that the broker has restarted: the owners of its queues must take them again."""
    for mq, queue in step.state.queues.items():
        if mq.broker == broker and queue.owner is not None:
            _interrupt(step, mq, queue, queue.owner)


def note_retaken(step: GroupStep, mq: MessageQueue, client_id: str, now: int) -> None:
    """Record that a client has made a new process queue for a concurrent queue that it has, and find out why.

    No other call reports that it had dropped the queue.
    """
    queue = step.state.queues[mq]
    if step.hook_view(mq).process_queue.is_pull_expired(now, step.policy.pull_max_idle_time):
        open_or_extend(step, PULL_EXPIRED_REPAIR, str(mq), client_id=client_id)
    queue.rebalance_id = ""
    _interrupt(step, mq, queue, client_id)


def add_reread(step: GroupStep, mq: MessageQueue) -> None:
    """Record what the holder has read again before it loses the queue within the same rebalance."""
    episode, queue = step.state.episode, step.state.queues[mq]
    move = episode.moves.get(mq) if episode is not None else None
    if episode is not None and move is not None and _is_within(episode, move, queue.hook_view):
        move.reread = _added(move.reread, _reread_by_hook(queue))


def note_last_sign(step: GroupStep, mq: MessageQueue, client_id: str, sign: int) -> None:
    """Record the last activity of a client that had the queue; it is reported late."""
    episode = step.state.episode
    move = episode.moves.get(mq) if episode is not None else None
    if move is not None and move.from_client == client_id and move.hook_sign is not None:
        move.hook_sign = max(move.hook_sign, sign)


def settle(step: GroupStep) -> None:
    """Close the episode if the owners are the expected ones and every member has answered."""
    state, episode = step.state, step.state.episode
    if episode is None or (episode.waits_for is not None and _keeps_open(step, episode, episode.waits_for)):
        return
    if not _all_have_answered(state, episode):
        return
    if state.members and not state.strategy:
        return
    episode.waits_for = next((mq for mq in state.queues if _keeps_open(step, episode, mq)), None)
    if episode.waits_for is None:
        _close(step, episode, converged=_all_have_owners(state, episode))


def _keeps_open(step: GroupStep, episode: Episode, mq: MessageQueue) -> bool:
    """Return whether the queue's owner is not the expected one, or has not begun."""
    queue = step.state.queues[mq]
    if queue.owner != queue.expected_owner and not mq.is_retry:
        return True
    move = episode.moves.get(mq)
    return move is not None and not _has_begun(step, mq, move)


def deadline(state: GroupState, policy: Policy) -> int | None:
    """Return when the open episode is closed even if its owners are not the expected ones; None: no episode."""
    if state.episode is None:
        return None
    unknown = bool(state.members) and (state.message_model == BROADCASTING or not state.strategy)
    unknown = unknown and all(move.begun_at is not None for move in state.episode.moves.values())
    limit_ms = QUIET_INTERVALS * policy.poll_interval if unknown else policy.rebalance_settle_after
    return state.episode.last_change + limit_ms + 1


def close_overdue(step: GroupStep) -> None:
    """Close the open episode if its deadline has passed."""
    episode, ends = step.state.episode, deadline(step.state, step.policy)
    if episode is not None and ends is not None and ends <= step.now:
        known = not step.state.members or bool(step.state.strategy) or not _all_have_owners(step.state, episode)
        _close(step, episode, converged=False if known else None)


def _open_by_move(step: GroupStep, mq: MessageQueue, former: str | None, owner: str | None) -> Episode:
    """Open an episode for a move without an observed cause; its trigger is a partly listed member if there is one."""
    if (partly := _partly_listed(step.state)) is not None:
        return _add_cause(step, "CONNECTIONS_CHANGED", partly, partly)
    if former is not None and owner is None and _is_pull_expired(step, mq):
        return _add_cause(step, PULL_EXPIRED_REPAIR, str(mq), former)
    return _add_cause(step, UNEXPLAINED, str(mq), None)


def _explains(step: GroupStep, code: str, episode: Episode) -> bool:
    """Return whether the cause explains earlier moves; a broker that restarts was away before, and its queues moved."""
    return code in ("BROKER_RESTARTED", "ROUTE_CHANGED") or step.now - episode.start_time <= CAUSE_WITHIN


def _partly_listed(state: GroupState) -> str | None:
    """Return a member that only some brokers list; clients that query another broker divide the queues without it."""
    lists = [view.listed() for view in state.views.values() if not view.failing]
    return next((member for member in state.members if not all(member in listed for listed in lists)), None)


def _is_new(state: GroupState, mq: MessageQueue, former: str | None) -> bool:
    """Return whether the queue never had an owner; without a route, that shows that the queue is new."""
    return former is None and state.queues[mq].former_owner is None and mq.topic not in state.routes


def _is_pull_expired(step: GroupStep, mq: MessageQueue) -> bool:
    """Return whether its owner, by the broker's hook, has not pulled for so long that it must re-acquire the queue."""
    hook_view, hook = step.state.queues[mq].hook_view, step.hook_of(mq.broker)
    if hook_view is None or hook is None:
        return False
    return hook_view.process_queue.is_pull_expired(step.now, step.policy.pull_max_idle_time)


def _move_of(queue: QueueState, episode: Episode, mq: MessageQueue, former: str | None) -> Move:
    """Return the queue's move in the episode; create the first one."""
    move = episode.moves.get(mq)
    if move is None:
        seen = queue.owner_seen
        sign = seen[1] if seen is not None and seen[0] == former else None
        commit = queue.commit_offset if queue.commit_known else None
        move = episode.moves[mq] = Move(former, None, sign, commit=commit)
        move.hook_sign = _hook_sign(queue.hook_view, former)
    return move


def _hook_sign(hook_view: HookQueueView | None, client_id: str | None) -> int | None:
    """Return the last activity of a client that had the queue, or still has it by the hook; None: unknown."""
    if hook_view is None:
        return None
    sign = hook_view.last_sign if hook_view.holder == client_id else 0
    if hook_view.lost_by == client_id:
        sign = max(sign, hook_view.lost_by_sign)
    return sign or None


def _is_within(episode: Episode, move: Move, hook_view: HookQueueView | None) -> bool:
    """Return whether the queue's present holder took it, or began again, in this rebalance."""
    if hook_view is None or hook_view.former is None:
        return False
    return move.begun_is_exact or hook_view.former.lost_at >= episode.start_time


def _interrupt(step: GroupStep, mq: MessageQueue, queue: QueueState, client_id: str) -> None:
    """Record that an owner must take its queue again: part of the open episode, if there is one."""
    episode = step.state.episode
    if episode is None or mq.is_retry:
        return
    move = _move_of(queue, episode, mq, client_id)
    move.to_client, move.begun_at, move.begun_is_exact = client_id, None, False
    queue.rebalance_id = episode.rebalance_id
    _note_change(step, episode)


def _note_change(step: GroupStep, episode: Episode) -> None:
    episode.last_change = max(episode.last_change, step.now)


def _reports(step: GroupStep, mq: MessageQueue) -> HookQueueView | None:
    """Return what the broker's hook has seen of the queue, if it reports now."""
    queue = step.state.queues[mq]
    return queue.hook_view if step.hook_of(mq.broker) is not None else None


def _has_begun(step: GroupStep, mq: MessageQueue, move: Move) -> bool:
    """Return whether the new owner has begun, where that is reported; its first pull shows what it reads again."""
    hook_view = _reports(step, mq)
    if move.to_client is None:
        return True
    if move.begun_at is None:
        client = step.state.clients.get(move.to_client)
        return hook_view is None and (not step.state.is_polled or client is None or client.silent)
    return hook_view is None or hook_view.start_offset >= 0 or step.now - move.begun_at > BEGUN_WITHIN


def _all_have_owners(state: GroupState, episode: Episode) -> bool:
    """Return whether every queue that the group should consume has an owner."""
    return not any(
        queue.owner is None and (mq in episode.moves or mq.topic in state.routes) and _is_consumed(state, mq)
        for mq, queue in state.queues.items()
        if not mq.is_retry
    )


def _is_consumed(state: GroupState, mq: MessageQueue) -> bool:
    """Return whether the topic still has the queue, and members, if there are any, subscribe it."""
    is_there = state.queues[mq].in_route or mq.topic not in state.routes
    return is_there and (not state.members or is_subscribed(state, mq.topic))


def _all_have_answered(state: GroupState, episode: Episode) -> bool:
    for member in state.members:
        client = state.clients.get(member)
        if client is None or (not client.silent and client.asked_at_answer < episode.last_cause):
            return False
    return True


def _close(step: GroupStep, episode: Episode, *, converged: bool | None) -> None:
    state = step.state
    state.episode = None
    moves = tuple(
        _queue_move(step, mq, episode)
        for mq in sorted(episode.moves, key=queue_order)
        if state.queues[mq].owner is not None or _is_consumed(state, mq)
    )
    if not moves and (episode.trigger == UNEXPLAINED or not episode.members_before):
        return  # a normal start
    kinds = Counter(move.kind for move in moves)
    pauses = sorted(move.pause_ms for move in moves if move.pause_ms is not None)
    again = _reread_in_all([move for move in moves if _is_handed_on(move) or move.reconsumed_min is not None])
    step.emit(
        RebalanceSettled(
            **step.next_row(),
            rebalance_id=episode.rebalance_id,
            start_time=episode.start_time,
            end_time=episode.last_change,
            trigger=episode.trigger,
            trigger_client=episode.trigger_client,
            causes=tuple(episode.causes),
            members_before=episode.members_before,
            members_after=state.members,
            queues_moved=kinds["MOVED"],
            queues_interrupted=kinds["INTERRUPTED"],
            queues_unassigned=kinds["UNASSIGNED"],
            moves=moves,
            pause_ms_max=max(pauses, default=None),
            converged=converged,
            queues_moved_min=_fewest(moves),
            pause_ms_p50=pauses[(len(pauses) - 1) // 2] if pauses else None,
            pause_is_at_most=any(move.pause_is_at_most for move in moves),
            reconsumed=again.likely,
            reconsumed_min=again.least,
            reconsumed_max=again.most,
        )
    )


def _queue_move(step: GroupStep, mq: MessageQueue, episode: Episode) -> QueueMove:
    queue, move = step.state.queues[mq], episode.moves[mq]
    sign, is_exact = _last_sign(step, mq, move)
    has_pause = sign is not None and move.to_client is not None and move.begun_at is not None
    again = _reread_of_move(queue, move, seen_by_hook=_is_within(episode, move, queue.hook_view))
    return QueueMove(
        queue=mq,
        from_client=move.from_client,
        to_client=move.to_client,
        kind=_kind(move),
        pause_ms=max(0, (move.begun_at or 0) - (sign or 0)) if has_pause else None,
        pause_is_at_most=has_pause and not (is_exact and move.begun_is_exact),
        reconsumed=again.likely,
        reconsumed_min=again.least,
        reconsumed_max=again.most,
    )


def _is_handed_on(move: QueueMove) -> bool:
    """Return whether the queue had an owner before, and has one now."""
    return move.from_client is not None and move.to_client is not None


def _kind(move: Move) -> MoveKind:
    if move.to_client is None:
        return "UNASSIGNED"
    return "INTERRUPTED" if move.from_client == move.to_client else "MOVED"


def _last_sign(step: GroupStep, mq: MessageQueue, move: Move) -> tuple[int | None, bool]:
    """Return the old owner's last activity, and whether that is exact."""
    hook, sign = step.hook_of(mq.broker), move.hook_sign
    if sign is not None and hook is not None and hook.lost_at <= sign:
        return sign, True
    return max(sign or 0, move.polled_sign or 0) or None, False


def _fewest(moves: tuple[QueueMove, ...]) -> int:
    """Return the fewest queues that could have moved; unmoved queues have the same owner before and after."""
    gains: Counter[tuple[str, str]] = Counter()
    for move in moves:
        if move.to_client is not None:
            gains[move.queue.topic, move.to_client] += 1
        if move.from_client is not None:
            gains[move.queue.topic, move.from_client] -= 1
    return sum(gain for gain in gains.values() if gain > 0)


class _Reconsumed(NamedTuple):
    """Messages that are consumed again; None if unknown."""

    likely: int | None = None
    least: int | None = None
    most: int | None = None


def _reread_of_move(queue: QueueState, move: Move, *, seen_by_hook: bool) -> _Reconsumed:
    """Return the reread of one queue; None values if it had no owner before or has none now, without others in between.

    It is ``seen_by_hook`` if its broker's hook reports the present holder, and the holder before.
    """
    if move.to_client is None:
        least, likely, most = move.reread
        return _Reconsumed(likely, least, most) if move.reread != (0, 0, 0) else _Reconsumed()
    if seen_by_hook and queue.hook_view is not None and queue.hook_view.holder == move.to_client:
        last = _reread_by_hook(queue)
        if last.least is not None:
            least, likely, most = _added(move.reread, last)
            return _Reconsumed(likely, least, most)
    if move.from_client is None or move.commit is None or queue.broker_offset is None:
        return _Reconsumed()
    return _Reconsumed(None, 0, max(0, queue.broker_offset - move.commit))


def _reread_by_hook(queue: QueueState) -> _Reconsumed:
    """Return what the present holder reads again of the messages consumed before it had the queue."""
    hook_view = queue.hook_view
    former, start = (hook_view.former, hook_view.start_offset) if hook_view is not None else (None, -1)
    if former is None or start < 0 or former.commit < 0:
        return _Reconsumed()
    if hook_view is not None and former.client_id == hook_view.holder and hook_view.asked_at <= former.lost_at:
        return _Reconsumed(0, 0, 0)
    pulled = former.pulled
    if queue.broker_offset is not None and queue.stats_at >= former.lost_at:
        pulled = min(pulled, queue.broker_offset)  # there were no more messages to pull
    least = max(0, former.commit - start)
    most = max(least, pulled - start) if pulled >= 0 else None
    if former.consumed < 0:
        return _Reconsumed(None, least, most)
    likely = max(least, former.consumed - start)
    return _Reconsumed(likely if most is None else min(likely, most), least, most)


def _added(sums: tuple[int, int | None, int | None], more: _Reconsumed) -> tuple[int, int | None, int | None]:
    """Add to what was read again at least, likely and at most; an unknown part makes the sum unknown."""
    least, likely, most = sums
    return (
        least + (more.least or 0),
        None if likely is None or more.likely is None else likely + more.likely,
        None if most is None or more.most is None else most + more.most,
    )


def _reread_in_all(moves: list[QueueMove]) -> _Reconsumed:
    """Return the sums of a rebalance; one unknown queue makes the estimate and the upper bound unknown."""
    sums: tuple[int, int | None, int | None] = (0, 0, 0)
    for move in moves:
        sums = _added(sums, _Reconsumed(move.reconsumed, move.reconsumed_min, move.reconsumed_max))
    if moves and all(move.reconsumed_min is None for move in moves):  # nothing is known
        return _Reconsumed()
    least, likely, most = sums
    return _Reconsumed(likely, least, most)
