"""Rebalances as episodes: from the first cause to the last move (first form).

An episode opens with a cause that was seen (a member came or went, the read queues changed, a client restarted), or
with a move that no seen cause explains: one that is seen within `CAUSE_WITHIN` is the trigger all the same (a client
that leaves unlocks before it says so). It settles when every member that answers has answered since the last cause and
the owners are those that the strategy names. Where the strategy is not known it settles when every queue that moved has
an owner again and none has changed for three poll intervals; and in any case `Policy.rebalance_settle_after` after its
last change, as not converged.
"""

from rebalance_model.entities import MessageQueue, queue_order
from rebalance_model.observe.effects import QueueMove, RebalanceSettled
from rebalance_model.observe.expectation import broadcasts
from rebalance_model.observe.identity import stable_id
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import Episode, GroupState, Move
from rebalance_model.observe.turn import Turn

CAUSES_MAX = 64
"""More causes within one episode are counted by its moves, not listed."""
CAUSE_WITHIN = 5_000
QUIET_INTERVALS = 3
UNEXPLAINED = "UNEXPLAINED"


def open_or_extend(turn: Turn, code: str, subject: str, *, client_id: str | None) -> Episode:
    """Add a cause to the open episode, or open one."""
    state = turn.state
    episode = state.episode
    if episode is None:
        episode = state.episode = Episode(
            rebalance_id=stable_id(state.cluster, state.group, "rebalance", turn.time, code, subject),
            start_time=turn.time,
            trigger=code,
            trigger_client=client_id,
            causes=[],
            members_before=state.members,
            last_cause=turn.time,
            last_change=turn.time,
        )
    if episode.trigger == UNEXPLAINED and code != UNEXPLAINED and turn.time - episode.start_time <= CAUSE_WITHIN:
        episode.trigger, episode.trigger_client, episode.causes = code, client_id, []
    if len(episode.causes) < CAUSES_MAX:
        episode.causes.append(f"{code} {subject}".rstrip())
    episode.last_cause = max(episode.last_cause, turn.time)
    episode.last_change = max(episode.last_change, turn.time)
    return episode


def note_move(turn: Turn, mq: MessageQueue, former: str | None, owner: str | None) -> str:
    """Add a queue's change of owner to the open episode, or open one for it; returns the rebalance's id."""
    queue = turn.state.queues[mq]
    episode = turn.state.episode or open_or_extend(turn, UNEXPLAINED, str(mq), client_id=None)
    move = episode.moves.get(mq)
    if move is None:
        move = episode.moves[mq] = Move(former or queue.former_owner, None, queue.released_at, None)
    if former is not None:
        move.released_at = turn.time
    move.to_client = owner
    move.assigned_at = turn.time if owner is not None else None
    episode.last_change = max(episode.last_change, turn.time)
    return episode.rebalance_id


def settle(turn: Turn) -> None:
    """Close the episode if the owners are where they belong and every member has had its say."""
    episode = turn.state.episode
    if episode is None or not _all_have_answered(turn.state, episode):
        return
    if turn.state.members and not turn.state.strategy:
        return
    queues = turn.state.queues
    if all(q.owner == q.expected for mq, q in queues.items() if not mq.is_retry):
        _close(turn, episode, converged=True)


def deadline(state: GroupState, policy: Policy) -> int | None:
    """When the open episode is closed although its owners do not match."""
    if state.episode is None:
        return None
    unknown = bool(state.members) and (broadcasts(state) or not state.strategy)
    unknown = unknown and all(move.to_client is not None for move in state.episode.moves.values())
    patience = QUIET_INTERVALS * policy.poll_interval if unknown else policy.rebalance_settle_after
    return state.episode.last_change + patience + 1


def give_up(turn: Turn, due: int) -> None:
    """Close the open episode if its deadline is ``due``."""
    episode, ends = turn.state.episode, deadline(turn.state, turn.policy)
    if episode is not None and ends is not None and ends <= due:
        known = not turn.state.members or bool(turn.state.strategy)
        _close(turn, episode, converged=False if known else None)


def _all_have_answered(state: GroupState, episode: Episode) -> bool:
    for member in state.members:
        client = state.clients.get(member)
        if client is None or (not client.silent and client.asked_at_answer < episode.last_cause):
            return False
    return True


def _close(turn: Turn, episode: Episode, *, converged: bool | None) -> None:
    state = turn.state
    moves = tuple(_queue_move(mq, episode.moves[mq]) for mq in sorted(episode.moves, key=queue_order))
    pauses = [move.pause_ms for move in moves if move.pause_ms is not None]
    turn.emit(
        RebalanceSettled(
            cluster=state.cluster,
            group=state.group,
            time=turn.time,
            seq=turn.next_seq(),
            cause=turn.cause,
            rebalance_id=episode.rebalance_id,
            start_time=episode.start_time,
            end_time=episode.last_change,
            trigger=episode.trigger,
            trigger_client=episode.trigger_client,
            causes=tuple(episode.causes),
            members_before=episode.members_before,
            members_after=state.members,
            queues_moved=sum(move.from_client != move.to_client and not move.queue.is_retry for move in moves),
            moves=moves,
            pause_ms_max=max(pauses, default=None),
            converged=converged,
        )
    )
    state.episode = None


def _queue_move(mq: MessageQueue, move: Move) -> QueueMove:
    known = move.released_at is not None and move.assigned_at is not None
    pause = max(0, (move.assigned_at or 0) - (move.released_at or 0)) if known else None
    return QueueMove(mq, move.from_client, move.to_client, pause)
