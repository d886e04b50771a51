"""Rebalances as episodes: from the first cause to the last move.

An episode opens with a cause that was seen (a member came or went, subscriptions or read queues changed, a client
restarted), or with a move that no seen cause explains: one that is seen within `CAUSE_WITHIN` is the trigger all the
same (a client that leaves unlocks before it says so). Two moves explain themselves: that of a queue whose owner had not
pulled for longer than pullMaxIdleTime, and gives it up to take it anew; and that of a lock which its heir had been
refused until then.

It settles when every member that answers has answered since the last cause, the owners are those that the strategy
names, and each of them has begun, where that is reported. Where the strategy is not known it settles when every queue
that moved has an owner that has begun and none has changed for three poll intervals; and in any case
`Policy.rebalance_settle_after` after its last change. It has converged if every queue has its owner, and the owners
have begun.

What it did to a queue (`QueueMove.kind`) follows from who had it before and who has it at the end, however many had it
in between. A broker that restarts interrupts all of its queues: it has forgotten the locks. The pause of a queue runs
from the last sign of its old owner before it lost the queue (it unlocked it, or else was last granted the lock, pulled
or committed) until the heir was granted the lock, or (concurrent) first pulled. Where the broker's hook reports both,
that is exact. Else it is the difference of stamps in answers: the old owner went on, perhaps, after the last one that
was seen, and the heir began before its first: the pause is at most so long.

Fewest moves: had the members who had them kept as many queues of each topic as they were to have, only the rest would
have moved. Each client gains so many of a topic as it has more of it after than before; the sum of what is gained is
the fewest.
"""

from collections import Counter

from rebalance_model.entities import MessageQueue, queue_order
from rebalance_model.observe.effects import MoveKind, QueueMove, RebalanceSettled
from rebalance_model.observe.group import causes, reconsumed
from rebalance_model.observe.group.expectation import broadcasts, is_subscribed
from rebalance_model.observe.identity import stable_id
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import Episode, FormerHolder, GroupState, HookQueue, Move, QueueState
from rebalance_model.observe.turn import Turn

CAUSES_MAX = 64
"""More causes within one episode are counted by its moves, not listed."""
CAUSE_WITHIN = 5_000
BEGUN_WITHIN = 5_000
"""An heir pulls within so long, unless its pull interval is long."""
QUIET_INTERVALS = 3
UNEXPLAINED, PULL_EXPIRED_REPAIR = "UNEXPLAINED", "PULL_EXPIRED_REPAIR"


def open_or_extend(turn: Turn, code: str, subject: str, *, client_id: str | None) -> Episode:
    """Add a cause to the open episode, or open one."""
    causes.note(turn, code, subject, client_id)
    return _take_cause(turn, code, subject, client_id)


def _take_cause(turn: Turn, code: str, subject: str, client_id: str | None) -> Episode:
    state = turn.state
    episode = state.episode
    if episode is None:
        episode = state.episode = Episode(
            rebalance_id=stable_id(state.cluster, state.group, "rebalance", turn.now, code, subject),
            start_time=turn.now,
            trigger=code,
            trigger_client=client_id,
            causes=[],
            members_before=state.members,
            last_cause=turn.now,
            last_change=turn.now,
        )
    if episode.trigger == UNEXPLAINED and code != UNEXPLAINED and _explains(turn, code, episode):
        episode.trigger, episode.trigger_client, episode.causes = code, client_id, []
    cause = f"{code} {subject}".rstrip()
    told = episode.causes[-1:] == [cause] and turn.now - episode.last_cause <= CAUSE_WITHIN  # by another broker
    if not told and len(episode.causes) < CAUSES_MAX:
        episode.causes.append(cause)
    episode.last_cause = max(episode.last_cause, turn.now)
    episode.last_change = max(episode.last_change, turn.now)
    return episode


def note_move(turn: Turn, mq: MessageQueue, former: str | None, owner: str | None) -> str:
    """Add a queue's change of owner to the open episode, or open one for it; returns the rebalance's id.

    A retry queue moves with its group: it opens none, and is not among the moves.
    """
    if mq.is_retry:
        return turn.state.episode.rebalance_id if turn.state.episode is not None else ""
    queue = turn.state.queues[mq]
    episode = turn.state.episode or _open_by_move(turn, mq, former, owner)
    if episode.trigger == UNEXPLAINED and owner is not None and _is_new(turn.state, mq, former):
        open_or_extend(turn, "ROUTE_CHANGED", mq.topic, client_id=None)
    move = _move_of(queue, episode, mq, former or queue.former_owner)
    move.to_client, move.begun_at, move.begun_is_exact = owner, None, False
    _note_change(turn, episode)
    if owner is not None:
        note_answer(turn, mq, owner)
    return episode.rebalance_id


def note_begun(turn: Turn, mq: MessageQueue, at: int, *, is_exact: bool) -> None:
    """The queue's holder has been granted the lock or (concurrent) pulls, at ``at``."""
    episode = turn.state.episode
    move = episode.moves.get(mq) if episode is not None else None
    if episode is not None and move is not None and move.begun_at is None:
        move.begun_at, move.begun_is_exact = at, is_exact
        _note_change(turn, episode)


def note_answer(turn: Turn, mq: MessageQueue, client_id: str) -> None:
    """A client has answered: its lock (ordered) or pull shows that it has begun, where no hook does."""
    episode = turn.state.episode
    move = episode.moves.get(mq) if episode is not None else None
    if move is None or move.to_client != client_id or _reports(turn, mq) is not None:
        return
    client = turn.state.clients.get(client_id)
    held = client.queues.get(mq) if client is not None else None
    if client is None or held is None or held.dropped or (client.orderly and not held.locked):
        return
    began = client.time_of((held.lock if client.orderly else held.pull).value)
    if move.from_client != client_id or began > (move.polled_sign or 0):
        note_begun(turn, mq, began, is_exact=False)


def interrupt_all(turn: Turn, broker: str) -> None:
    """The broker has restarted: its queues' owners have to begin again."""
    for mq, queue in turn.state.queues.items():
        if mq.broker == broker and queue.owner is not None:
            _interrupt(turn, mq, queue, queue.owner)


def note_retaken(turn: Turn, mq: MessageQueue, client_id: str, now: int) -> None:
    """A client makes a process queue anew of a concurrent queue that it has: why?

    Nothing else reports that it was given up.
    """
    queue = turn.state.queues[mq]
    if 0 < turn.hook_queue(mq).pull_time < now - turn.policy.pull_max_idle_time:
        open_or_extend(turn, PULL_EXPIRED_REPAIR, str(mq), client_id=client_id)
    queue.rebalance_id = ""
    _interrupt(turn, mq, queue, client_id)


def add_reread(turn: Turn, mq: MessageQueue) -> None:
    """Keep what the holder has read again before it loses the queue within the same rebalance."""
    episode, queue = turn.state.episode, turn.state.queues[mq]
    move = episode.moves.get(mq) if episode is not None else None
    if episode is not None and move is not None and _is_within(episode, move, queue.hook):
        move.reread = reconsumed.added(move.reread, reconsumed.by_hook(queue))


def note_last_sign(turn: Turn, mq: MessageQueue, former: FormerHolder) -> None:
    """A last sign of who had the queue has come late."""
    episode = turn.state.episode
    move = episode.moves.get(mq) if episode is not None else None
    if move is not None and move.from_client == former.client_id and move.hook_sign is not None:
        move.hook_sign = max(move.hook_sign, former.last_sign)


def settle(turn: Turn) -> None:
    """Close the episode if the owners are where they belong and every member has had its say."""
    state, episode = turn.state, turn.state.episode
    if episode is None or (episode.waits_for is not None and _keeps_open(turn, episode, episode.waits_for)):
        return
    if not _all_have_answered(state, episode):
        return
    if state.members and not state.strategy:
        return
    episode.waits_for = next((mq for mq in state.queues if _keeps_open(turn, episode, mq)), None)
    if episode.waits_for is None:
        _close(turn, episode, converged=_all_have_owners(state, episode))


def _keeps_open(turn: Turn, episode: Episode, mq: MessageQueue) -> bool:
    """Whether the queue's owner is not the expected one, or has not begun."""
    queue = turn.state.queues[mq]
    if queue.owner != queue.expected and not mq.is_retry:
        return True
    move = episode.moves.get(mq)
    return move is not None and not _has_begun(turn, mq, move)


def deadline(state: GroupState, policy: Policy) -> int | None:
    """When the open episode is closed although its owners do not match."""
    if state.episode is None:
        return None
    unknown = bool(state.members) and (broadcasts(state) or not state.strategy)
    unknown = unknown and all(move.begun_at is not None for move in state.episode.moves.values())
    patience = QUIET_INTERVALS * policy.poll_interval if unknown else policy.rebalance_settle_after
    return state.episode.last_change + patience + 1


def give_up(turn: Turn) -> None:
    """Close the open episode if its deadline has come."""
    episode, ends = turn.state.episode, deadline(turn.state, turn.policy)
    if episode is not None and ends is not None and ends <= turn.now:
        known = not turn.state.members or bool(turn.state.strategy) or not _all_have_owners(turn.state, episode)
        _close(turn, episode, converged=False if known else None)


def _open_by_move(turn: Turn, mq: MessageQueue, former: str | None, owner: str | None) -> Episode:
    """No cause that storms count, but what one leads to: a member that some brokers only list has queues move on."""
    if (partly := _partly_listed(turn.state)) is not None:
        return _take_cause(turn, "CONNECTIONS_CHANGED", partly, partly)
    if former is not None and owner is None and _is_pull_expired(turn, mq):
        return _take_cause(turn, PULL_EXPIRED_REPAIR, str(mq), former)
    return _take_cause(turn, UNEXPLAINED, str(mq), None)


def _explains(turn: Turn, code: str, episode: Episode) -> bool:
    """A broker that restarts was gone before, and its clients' other queues may have moved since then."""
    return code in ("BROKER_RESTARTED", "ROUTE_CHANGED") or turn.now - episode.start_time <= CAUSE_WITHIN


def _partly_listed(state: GroupState) -> str | None:
    """A member that is one by some brokers only: whoever asks another one shares out the queues without it."""
    views = [view for view in state.views.values() if not view.failing]
    return next((member for member in state.members if not all(view.lists(member) for view in views)), None)


def _is_new(state: GroupState, mq: MessageQueue, former: str | None) -> bool:
    """Whether nobody ever had the queue; where no route says which queues there are, that shows that it is new."""
    return former is None and state.queues[mq].former_owner is None and mq.topic not in state.routes


def _is_pull_expired(turn: Turn, mq: MessageQueue) -> bool:
    """Whether its owner, as the broker's hook tells, has not pulled for so long that it must take the queue anew."""
    told, hook = turn.state.queues[mq].hook, turn.live_hook(turn.state.views.get(mq.broker))
    if told is None or hook is None or not told.pull_time:
        return False
    return turn.now - told.pull_time > turn.policy.pull_max_idle_time


def _move_of(queue: QueueState, episode: Episode, mq: MessageQueue, former: str | None) -> Move:
    """The queue's move in the episode, made if it is the first."""
    move = episode.moves.get(mq)
    if move is None:
        seen = queue.owner_seen
        sign = seen[1] if seen is not None and seen[0] == former else None
        commit = queue.commit_offset if queue.commit_known else None
        move = episode.moves[mq] = Move(former, None, sign, commit=commit)
        told = queue.hook.former if queue.hook is not None else None
        if told is not None and told.client_id == former:
            move.hook_sign = told.last_sign or None
    return move


def _is_within(episode: Episode, move: Move, told: HookQueue | None) -> bool:
    """Whether the queue's present holder took it, or began again, in this rebalance."""
    if told is None or told.former is None:
        return False
    return move.begun_is_exact or told.former.lost_at >= episode.start_time


def _interrupt(turn: Turn, mq: MessageQueue, queue: QueueState, client_id: str) -> None:
    """A client has a queue and has to begin again: part of the open episode, if there is one."""
    episode = turn.state.episode
    if episode is None or mq.is_retry:
        return
    move = _move_of(queue, episode, mq, client_id)
    move.to_client, move.begun_at, move.begun_is_exact = client_id, None, False
    queue.rebalance_id = episode.rebalance_id
    _note_change(turn, episode)


def _note_change(turn: Turn, episode: Episode) -> None:
    episode.last_change = max(episode.last_change, turn.now)


def _reports(turn: Turn, mq: MessageQueue) -> HookQueue | None:
    """What the broker's hook reports of the queue, while it does."""
    queue = turn.state.queues[mq]
    return queue.hook if turn.live_hook(turn.state.views.get(mq.broker)) is not None else None


def _has_begun(turn: Turn, mq: MessageQueue, move: Move) -> bool:
    """Whether the heir has begun, where that is reported; its first pull shows what it reads again, and is awaited."""
    told = _reports(turn, mq)
    if move.to_client is None:
        return True
    if move.begun_at is None:
        client = turn.state.clients.get(move.to_client)
        return told is None and (not turn.state.is_polled or client is None or client.silent)
    return told is None or told.start_offset >= 0 or turn.now - move.begun_at > BEGUN_WITHIN


def _all_have_owners(state: GroupState, episode: Episode) -> bool:
    """Whether no queue is left unassigned that the group should consume."""
    return not any(
        queue.owner is None and (mq in episode.moves or mq.topic in state.routes) and _is_consumed(state, mq)
        for mq, queue in state.queues.items()
        if not mq.is_retry
    )


def _is_consumed(state: GroupState, mq: MessageQueue) -> bool:
    """Whether the topic still has the queue, and members subscribe it, if there are any."""
    is_there = state.queues[mq].in_route or mq.topic not in state.routes
    return is_there and (not state.members or is_subscribed(state, mq.topic))


def _all_have_answered(state: GroupState, episode: Episode) -> bool:
    for member in state.members:
        client = state.clients.get(member)
        if client is None or (not client.silent and client.asked_at_answer < episode.last_cause):
            return False
    return True


def _close(turn: Turn, episode: Episode, *, converged: bool | None) -> None:
    state = turn.state
    state.episode = None
    moves = tuple(
        _queue_move(turn, mq, episode)
        for mq in sorted(episode.moves, key=queue_order)
        if state.queues[mq].owner is not None or _is_consumed(state, mq)
    )
    if not moves and (episode.trigger == UNEXPLAINED or not episode.members_before):
        return  # an ordinary start
    kinds = Counter(move.kind for move in moves)
    pauses = sorted(move.pause_ms for move in moves if move.pause_ms is not None)
    again = reconsumed.in_all([move for move in moves if _is_handed_on(move) or move.reconsumed_min is not None])
    turn.emit(
        RebalanceSettled(
            **turn.next_row(),
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


def _queue_move(turn: Turn, mq: MessageQueue, episode: Episode) -> QueueMove:
    queue, move = turn.state.queues[mq], episode.moves[mq]
    sign, is_exact = _last_sign(turn, mq, move)
    known = sign is not None and move.to_client is not None and move.begun_at is not None
    again = reconsumed.of_move(queue, move, seen_by_hook=_is_within(episode, move, queue.hook))
    return QueueMove(
        queue=mq,
        from_client=move.from_client,
        to_client=move.to_client,
        kind=_kind(move),
        pause_ms=max(0, (move.begun_at or 0) - (sign or 0)) if known else None,
        pause_is_at_most=known and not (is_exact and move.begun_is_exact),
        reconsumed=again.likely,
        reconsumed_min=again.least,
        reconsumed_max=again.most,
    )


def _is_handed_on(move: QueueMove) -> bool:
    """Whether somebody had the queue before, and somebody has it now."""
    return move.from_client is not None and move.to_client is not None


def _kind(move: Move) -> MoveKind:
    if move.to_client is None:
        return "UNASSIGNED"
    return "INTERRUPTED" if move.from_client == move.to_client else "MOVED"


def _last_sign(turn: Turn, mq: MessageQueue, move: Move) -> tuple[int | None, bool]:
    """The old owner's last sign, and whether that is exact."""
    hook, sign = turn.live_hook(turn.state.views.get(mq.broker)), move.hook_sign
    if sign is not None and hook is not None and hook.lost_at <= sign:
        return sign, True
    return max(sign or 0, move.polled_sign or 0) or None, False


def _fewest(moves: tuple[QueueMove, ...]) -> int:
    """The fewest queues that could have moved; those that did not move are with one client before and after."""
    gains: Counter[tuple[str, str]] = Counter()
    for move in moves:
        if move.to_client is not None:
            gains[move.queue.topic, move.to_client] += 1
        if move.from_client is not None:
            gains[move.queue.topic, move.from_client] -= 1
    return sum(gain for gain in gains.values() if gain > 0)
