"""Who has a queue.

Where the broker's hook tells, it is whom the hook names (`hook`), unless that client itself has denied it since. For
the rest the believed owner is a member whose last answer holds the queue, not dropped. Answers are pictures taken at
different instants, so two may show one queue at once. Then a claim with a lock that lives beats one without, and
among equals the owner keeps the queue unless the other's claim began after the owner was last heard of. What a client
answered to a question from before the hook's last word on the queue is no evidence.

Evidence of a change: FIRST_SEEN (held when observation began), LOCK_GRANTED, UNLOCKED, OFFSET_ASKED (it makes a
process queue), PULLED (all of the hook), ANSWER (an answer holds it), ANSWER_WITHOUT (the owner's answer holds it no
more), DROPPED (held, but dropped), TAKEN_OVER (a later claim of another member), LEFT (its owner is no member any
more), GONE (the broker finds no such client).
"""

from collections.abc import Iterable

from rebalance_model.entities import MessageQueue, java_order
from rebalance_model.observe.group import rebalances
from rebalance_model.observe.group.expectation import broadcasts
from rebalance_model.observe.hooks import commits
from rebalance_model.observe.polls.offsets import lag_of
from rebalance_model.observe.state import ClientView, GroupState, HookQueue, QueueState, Unowned
from rebalance_model.observe.turn import Turn

_TAKEN = ("LOCK_GRANTED", "OFFSET_ASKED", "PULLED")


def reconsider(turn: Turn, queues: Iterable[MessageQueue], *, evidence: str) -> None:
    """Judge anew who owns these queues, and tell every change."""
    if broadcasts(turn.state):
        return
    for mq in queues:
        turn.queues_to_judge[mq] = None
        current = turn.queue(mq).owner
        owner = _believed_owner(turn, mq, current)
        if owner != current:
            _hand_over(turn, mq, current, owner, evidence)


def known_of(state: GroupState, client_id: str) -> dict[MessageQueue, None]:
    """The queues that anything holds for this client."""
    known = dict.fromkeys(state.clients[client_id].queues)
    return known | {mq: None for mq, queue in state.queues.items() if queue.hook and queue.hook.holder == client_id}


def void(turn: Turn, client_id: str, *, evidence: str) -> None:
    """The client is gone: what it or the hook said of its queues holds no more."""
    client = turn.state.clients[client_id]
    held = known_of(turn.state, client_id)
    _remember_locks(turn, client_id, client)
    client.queues = {}
    for mq in held:
        if (told := turn.state.queues[mq].hook) is not None and told.holder == client_id:
            commits.leave(turn, mq, told)
            told.holder = None
        turn.queues_to_judge[mq] = None
        current = turn.queue(mq).owner
        owner = _believed_owner(turn, mq, current if current != client_id else None)
        if owner != current:
            _hand_over(turn, mq, current, owner, evidence)


def _believed_owner(turn: Turn, mq: MessageQueue, current: str | None) -> str | None:
    told = turn.state.queues[mq].hook
    if told is not None and told.holder in turn.state.members and not _denies(turn.state, told, mq):
        return told.holder
    claims = {c: _claim(turn, view, mq) for c, view in holders(turn.state, mq)}
    if told is not None and told.observed_at and _locks_are_told(turn, mq):
        claims = {c: claim for c, claim in claims.items() if claim[0]}
    if not claims:
        return None
    if current not in claims:
        return max(claims, key=lambda c: (claims[c], java_order(c)))
    mine = claims[current]
    heard = turn.state.clients[current].answered
    others = [c for c, claim in claims.items() if claim[0] > mine[0] or (claim[0] == mine[0] and claim[1] > heard)]
    return max(others, key=lambda c: (claims[c], java_order(c)), default=current)


def _locks_are_told(turn: Turn, mq: MessageQueue) -> bool:
    """Whether the broker's hook reports every lock of the queue: then who holds it without one has not got it."""
    return bool(turn.state.orderly) and turn.live_hook(turn.state.views.get(mq.broker)) is not None


def _denies(state: GroupState, told: HookQueue, mq: MessageQueue) -> bool:
    """Whether the holder, asked since the hook named it, has said that it has not the queue."""
    client = state.clients.get(told.holder or "")
    if client is None or not client.answered or client.asked_at_answer < told.observed_at:
        return False
    held = client.queues.get(mq)
    return held is None or held.dropped


def holders(state: GroupState, mq: MessageQueue) -> list[tuple[str, ClientView]]:
    """Members whose last answer holds the queue, and is younger than what the hook said of it."""
    told = state.queues[mq].hook
    observed_at = told.observed_at if told is not None else 0
    holders = []
    for client_id in state.members:
        client = state.clients.get(client_id)
        held = client.queues.get(mq) if client is not None else None
        if client is not None and held is not None and not held.dropped and client.asked_at_answer >= observed_at:
            holders.append((client_id, client))
    return holders


def _claim(turn: Turn, client: ClientView, mq: MessageQueue) -> tuple[bool, int]:
    """How strong a claim is: whether it has a living lock, and since when it stands."""
    held = client.queues[mq]
    lock_age = held.lock.age(client.client_now, client.asked_at_answer)
    living = not client.orderly or (held.locked and lock_age <= turn.policy.client_lock_max_live_time)
    return living, held.claimed_since


def _remember_locks(turn: Turn, client_id: str, client: ClientView) -> None:
    """Note when the broker frees the locks of a client that vanished: when they expire, at the latest.

    The last renewal that was seen is not the last that there was: the client may have renewed once more after its last
    answer, `lock_interval` later, if it was still alive then.
    """
    for mq, held in client.queues.items():
        queue = turn.queue(mq)
        if client.orderly and held.locked and queue.owner == client_id:
            seen = client.answered - held.lock.age(client.client_now, client.asked_at_answer)
            renewed = min(seen + turn.policy.lock_interval, turn.now)
            queue.lock_free_at = max(client.answered, renewed + turn.policy.broker_lock_max_live_time)


def _hand_over(turn: Turn, mq: MessageQueue, current: str | None, owner: str | None, evidence: str) -> None:
    queue = turn.queue(mq)
    turn.group_to_judge = True
    first_seen = evidence == "FIRST_SEEN" and current is None
    rebalance_id = queue.rebalance_id = "" if first_seen else rebalances.note_move(turn, mq, current, owner)
    if current is not None:
        turn.assignment(
            mq,
            current,
            assigned=False,
            evidence=_release_evidence(turn, mq, current, owner, evidence),
            rebalance_id=rebalance_id,
        )
        queue.former_owner, queue.released_at = current, turn.now
    queue.owner = owner
    _count(turn.state, mq, current, owner)
    queue.unowned = _unowned(turn, queue, current, evidence) if owner is None else None
    if owner is not None:
        turn.state.moved_at = turn.state.moved_at if mq.is_retry else turn.now
        shown = evidence if evidence in _TAKEN or first_seen else "ANSWER"
        turn.assignment(mq, owner, assigned=True, evidence=shown, rebalance_id=rebalance_id)
        queue.lock_free_at = None


def _count(state: GroupState, mq: MessageQueue, current: str | None, owner: str | None) -> None:
    if mq.is_retry:
        return
    if current is not None:
        state.shares[current] -= 1
        if not state.shares[current]:
            del state.shares[current]
    if owner is not None:
        state.shares[owner] = state.shares.get(owner, 0) + 1


def _unowned(turn: Turn, queue: QueueState, current: str | None, evidence: str) -> Unowned:
    """Whether its owner said that it gave it up: then the heir is not kept waiting by a lock that nobody holds."""
    said = evidence == "UNLOCKED" or (
        evidence == "LEFT" and any(view.hook and current in view.hook.goodbyes for view in turn.state.views.values())
    )
    return Unowned(turn.now, "SAID" if said else "", lag_of(queue), queue.expected)


def _release_evidence(turn: Turn, mq: MessageQueue, current: str, owner: str | None, evidence: str) -> str:
    if evidence in ("LEFT", "GONE", "UNLOCKED"):
        return evidence
    if evidence in _TAKEN:
        return "TAKEN_OVER"
    held = turn.state.clients[current].queues.get(mq)
    if held is None:
        return "ANSWER_WITHOUT"
    return "DROPPED" if held.dropped or owner is None else "TAKEN_OVER"
