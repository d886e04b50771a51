"""Rebalances as episodes: from the first cause to the last move.

An episode opens with a cause that was seen (a member came or went, subscriptions or read queues changed, a client
restarted), or with a move that no seen cause explains: one that is seen within `CAUSE_WITHIN` is the trigger all the
same (a client that leaves unlocks before it says so). Two moves explain themselves: that of a queue whose owner had not
pulled for longer than pullMaxIdleTime, and gives it up to take it anew; and that of a lock which its heir had been
refused until then.

It settles when every member that answers has answered since the last cause, the owners are those that the strategy
names, and the heirs whose pulls are told have begun. Where the strategy is not known it settles when every queue that
moved has an owner again and none has changed for three poll intervals; and in any case
`Policy.rebalance_settle_after` after its last change, as not converged.

Fewest moves: had the members who had them kept as many queues of each topic as they were to have, only the rest would
have moved. Each client, and nobody as one more, gains so many of a topic as it has more of it after than before; the
sum of what is gained is the fewest.
"""

from collections import Counter

from rebalance_model.entities import MessageQueue, queue_order
from rebalance_model.observe.effects import QueueMove, RebalanceSettled
from rebalance_model.observe.group import causes
from rebalance_model.observe.group.expectation import broadcasts
from rebalance_model.observe.group.reconsumed import in_all, of_move
from rebalance_model.observe.identity import stable_id
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import Episode, GroupState, Move
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
    """Add a queue's change of owner to the open episode, or open one for it; returns the rebalance's id."""
    queue = turn.state.queues[mq]
    episode = turn.state.episode or _open_by_move(turn, mq, former, owner)
    if episode.trigger == UNEXPLAINED and owner is not None and _is_new(turn.state, mq, former):
        open_or_extend(turn, "ROUTE_CHANGED", mq.topic, client_id=None)
    move = episode.moves.get(mq)
    if move is None:
        move = episode.moves[mq] = Move(former or queue.former_owner, None, queue.released_at, None)
    if former is not None:
        move.released_at = turn.now
        move.commit = queue.commit_offset if queue.commit_known else None
    move.to_client = owner
    move.assigned_at = turn.now if owner is not None else None
    episode.last_change = max(episode.last_change, turn.now)
    return episode.rebalance_id


def note_retaken(turn: Turn, mq: MessageQueue, client_id: str, now: int) -> None:
    """A client makes a process queue anew of a queue that it has, at ``now`` of the broker's clock: why?

    Of a concurrent queue nothing else tells that it was given up.
    """
    told = turn.hook_queue(mq)
    if told.holder == client_id and 0 < told.pull_time < now - turn.policy.pull_max_idle_time:
        open_or_extend(turn, PULL_EXPIRED_REPAIR, str(mq), client_id=client_id)


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
        _close(turn, episode, converged=True)


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
    unknown = unknown and all(move.to_client is not None for move in state.episode.moves.values())
    patience = QUIET_INTERVALS * policy.poll_interval if unknown else policy.rebalance_settle_after
    return state.episode.last_change + patience + 1


def give_up(turn: Turn) -> None:
    """Close the open episode if its deadline has come."""
    episode, ends = turn.state.episode, deadline(turn.state, turn.policy)
    if episode is not None and ends is not None and ends <= turn.now:
        known = not turn.state.members or bool(turn.state.strategy)
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


def _has_begun(turn: Turn, mq: MessageQueue, move: Move) -> bool:
    """Whether the heir has pulled, where that is told: then it is known what it consumes again."""
    told = turn.state.queues[mq].hook
    if told is None or move.to_client is None or told.holder != move.to_client or told.start_offset >= 0:
        return True
    return turn.now - (move.assigned_at or 0) > BEGUN_WITHIN


def _all_have_answered(state: GroupState, episode: Episode) -> bool:
    for member in state.members:
        client = state.clients.get(member)
        if client is None or (not client.silent and client.asked_at_answer < episode.last_cause):
            return False
    return True


def _close(turn: Turn, episode: Episode, *, converged: bool | None) -> None:
    state = turn.state
    moves = tuple(_queue_move(state, mq, episode.moves[mq]) for mq in sorted(episode.moves, key=queue_order))
    moved = [move for move in moves if move.from_client != move.to_client and not move.queue.is_retry]
    pauses = sorted(move.pause_ms for move in moves if move.pause_ms is not None)
    again = in_all([of_move(state, move.queue, episode.moves[move.queue]) for move in moves if _is_handed_on(move)])
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
            queues_moved=len(moved),
            moves=moves,
            pause_ms_max=max(pauses, default=None),
            converged=converged,
            queues_moved_min=_fewest(moved),
            pause_ms_p50=pauses[(len(pauses) - 1) // 2] if pauses else None,
            reconsumed=again.likely,
            reconsumed_min=again.least,
            reconsumed_max=again.most,
        )
    )
    state.episode = None


def _queue_move(state: GroupState, mq: MessageQueue, move: Move) -> QueueMove:
    known = move.released_at is not None and move.assigned_at is not None
    pause = max(0, (move.assigned_at or 0) - (move.released_at or 0)) if known else None
    again = of_move(state, mq, move)
    return QueueMove(mq, move.from_client, move.to_client, pause, again.likely, again.least, again.most)


def _is_handed_on(move: QueueMove) -> bool:
    """Whether somebody had the queue before, and somebody has it now."""
    return move.from_client is not None and move.to_client is not None and not move.queue.is_retry


def _fewest(moved: list[QueueMove]) -> int:
    """The fewest queues that could have moved; those that did not move are with one client before and after."""
    gains: Counter[tuple[str, str | None]] = Counter()
    for move in moved:
        gains[move.queue.topic, move.to_client] += 1
        gains[move.queue.topic, move.from_client] -= 1
    return sum(gain for gain in gains.values() if gain > 0)
