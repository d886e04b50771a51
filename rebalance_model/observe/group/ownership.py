"""Determine who has a queue.

Where the broker's hook reports, the owner is the client that the hook names (`hook`), unless that client itself has
denied it since. Otherwise the believed owner is a member whose last answer holds the queue, not dropped. Answers are
snapshots of different instants, so two may show one queue at once. Then a claim with a valid lock precedes one without,
and among equals the owner keeps the queue unless the other's claim began after the owner's last answer. A client's
answer to a request from before the hook's last report on the queue is no evidence.

Evidence of a change: FIRST_SEEN (held when observation began), LOCK_GRANTED, UNLOCKED, OFFSET_ASKED (it makes a
process queue), PULLED (all of the hook), ANSWER (an answer holds it), ANSWER_WITHOUT (the owner's answer no longer
holds it), DROPPED (held, but dropped), TAKEN_OVER (a later claim of another member), LEFT (its owner is no member any
more), GONE (the broker finds no such client).
"""

from collections.abc import Iterable
from typing import TypeAlias

from rebalance_model.entities import MessageQueue, bounded, java_order
from rebalance_model.observe.group import rebalances, retaken
from rebalance_model.observe.group.member_types import is_outsider
from rebalance_model.observe.state import (
    BROADCASTING,
    ClientView,
    FormerHolder,
    GroupState,
    HookQueueView,
    QueueState,
    Unassigned,
)
from rebalance_model.observe.step import GroupStep

MEANT = ("OPERATOR_RESET", "RESET_TO_MIN")
"""Causes of a regression that the holder itself made: earlier commits no longer count."""


def keep(step: GroupStep, mq: MessageQueue, hook_view: HookQueueView, *, unlocked: bool = False) -> None:
    """Record how far the holder has come when it loses the queue, re-creates its process queue, or its broker restarts.

    A holder that has not pulled has consumed nothing: the record of the holder before it stays. One that has
    ``unlocked`` an ordered queue has committed what it consumed.
    """
    if hook_view.holder is None:
        return
    sign = step.now if unlocked else hook_view.last_sign
    hook_view.lost_by, hook_view.lost_by_sign = hook_view.holder, sign
    if hook_view.former is not None and hook_view.start_offset < 0:
        return
    rebalances.add_reread(step, mq)
    commit, pulled, consumed = _highest_commit(hook_view), hook_view.pull_offset, -1
    if unlocked:
        pulled = consumed = commit
    elif pulled >= 0:
        pulled = max(commit, pulled + step.facts.pull_batch(hook_view.holder))
        began = hook_view.start_commit if hook_view.start_commit >= 0 else hook_view.start_offset
        if commit >= began >= 0 and hook_view.commit_time > hook_view.holder_since > 0:
            since = min(max(0, step.now - hook_view.commit_time), step.policy.persist_consumer_offset_interval)
            rate = since * (commit - began) // (hook_view.commit_time - hook_view.holder_since)
            consumed = bounded(commit + rate)
    hook_view.former = FormerHolder(hook_view.holder, commit, pulled, consumed, step.now, hook_view.channel)


def _highest_commit(hook_view: HookQueueView) -> int:
    """Return the highest offset committed by or for the holder; a client that lost the queue may commit below it."""
    fallen = hook_view.regression
    mark = fallen.mark if fallen is not None and fallen.cause not in MEANT else -1
    return max(hook_view.commit_offset, hook_view.commit_at_restart, mark)


HeldByHook: TypeAlias = dict[str, list[MessageQueue]]
"""The queues of which the brokers' hooks name a client as the holder, by the client's id."""
_TAKEN = ("LOCK_GRANTED", "OFFSET_ASKED", "PULLED")


def reconsider(step: GroupStep, queues: Iterable[MessageQueue], *, evidence: str) -> None:
    """Decide again who owns these queues, and write a row for every change."""
    if step.state.message_model == BROADCASTING:
        return
    for mq in queues:
        step.queues_to_judge[mq] = None
        queue = step.queue(mq)
        current = queue.owner
        owner = _believed_owner(step, mq, queue, current)
        if owner != current:
            _hand_over(step, mq, current, owner, evidence)


def held_by_hook(state: GroupState) -> HeldByHook:
    """Return the queues of each client that the brokers' hooks name as the holder."""
    by_client: HeldByHook = {}
    for mq, queue in state.queues.items():
        if queue.hook_view is not None and queue.hook_view.holder is not None:
            by_client.setdefault(queue.hook_view.holder, []).append(mq)
    return by_client


def known_of(state: GroupState, client_id: str, by_hook: HeldByHook | None = None) -> dict[MessageQueue, None]:
    """Return the queues that any telemetry assigns to this client; for many clients, by one `held_by_hook`."""
    hook_queues = by_hook.get(client_id, []) if by_hook is not None else held_of(state, client_id)
    return dict.fromkeys((*state.clients[client_id].queues, *hook_queues))


def held_of(state: GroupState, client_id: str) -> list[MessageQueue]:
    """Return the queues of which the brokers' hooks name this client as the holder."""
    if not [view for view in state.views.values() if view.hook_source]:
        return []
    return [mq for mq, queue in state.queues.items() if queue.hook_view and queue.hook_view.holder == client_id]


def clear_claims(step: GroupStep, client_id: str, by_hook: HeldByHook | None = None, *, evidence: str) -> None:
    """Clear all claims of a client that is gone, by its answers or by the hook; `by_hook` as for `known_of`."""
    client = step.state.clients[client_id]
    claims = known_of(step.state, client_id, by_hook)
    _remember_locks(step, client_id, client)
    note_claims(step.state, client_id, client.queues, ())
    client.queues = {}
    for mq in claims:
        if (hook_view := step.state.queues[mq].hook_view) is not None and hook_view.holder == client_id:
            keep(step, mq, hook_view)
            hook_view.holder = None
        step.queues_to_judge[mq] = None
        queue = step.queue(mq)
        current = queue.owner
        owner = _believed_owner(step, mq, queue, current if current != client_id else None)
        if owner != current:
            _hand_over(step, mq, current, owner, evidence)


def _believed_owner(step: GroupStep, mq: MessageQueue, queue: QueueState, current: str | None) -> str | None:
    hook_view = queue.hook_view
    if hook_view is not None and _is_owner(step, hook_view, mq):
        return hook_view.holder
    held_by = holders(step, mq, queue)
    if len(held_by) == 1 and hook_view is None:
        return held_by[0][0]
    claims = {c: _claim(step, view, mq) for c, view in held_by}
    if hook_view is not None and hook_view.observed_at and _reports_locks(step, mq):
        claims = {c: claim for c, claim in claims.items() if claim[0]}
    if not claims:
        return None
    if current not in claims:
        return max(claims, key=lambda c: (claims[c], java_order(c)))
    mine = claims[current]
    answered_at = step.state.clients[current].answered
    others = [
        c for c, claim in claims.items() if claim[0] > mine[0] or (claim[0] == mine[0] and claim[1] > answered_at)
    ]
    return max(others, key=lambda c: (claims[c], java_order(c)), default=current)


def _is_owner(step: GroupStep, hook_view: HookQueueView, mq: MessageQueue) -> bool:
    """Return whether the hook names a member that divides the queues, and has not denied the queue since."""
    if hook_view.holder not in step.facts.members or _denies(step.state, hook_view, mq):
        return False
    return not is_outsider(step.state, step.state.clients[hook_view.holder])


def _reports_locks(step: GroupStep, mq: MessageQueue) -> bool:
    """Return whether the broker's hook reports every lock of the queue: a client without one then does not have it."""
    return bool(step.state.orderly) and step.hook_of(mq.broker) is not None


def _denies(state: GroupState, hook_view: HookQueueView, mq: MessageQueue) -> bool:
    """Return whether the holder, asked after the hook named it, has answered without the queue."""
    client = state.clients.get(hook_view.holder or "")
    if client is None or not client.answered or client.asked_at_answer < hook_view.observed_at:
        return False
    held = client.queues.get(mq)
    return held is None or held.dropped


def holders(step: GroupStep, mq: MessageQueue, queue: QueueState) -> list[tuple[str, ClientView]]:
    """Return the members whose last answer holds the queue, and is newer than the hook's report on it.

    A member that reads every queue by itself is left out (`is_outsider`).
    """
    state, members, holders = step.state, step.facts.members, []
    observed_at = queue.hook_view.observed_at if queue.hook_view is not None else 0
    for client_id in queue.claimants:
        client = state.clients[client_id]
        if client.asked_at_answer < observed_at or client.queues[mq].dropped or client_id not in members:
            continue
        if not is_outsider(state, client):
            holders.append((client_id, client))
    return holders


def note_claims(state: GroupState, client_id: str, before: Iterable[MessageQueue], now: Iterable[MessageQueue]) -> None:
    """Record which queues a client's last answer shows now, and its answer before did (`QueueState.claimants`)."""
    for mq in now:
        queue = state.queues.get(mq)
        if queue is None:
            queue = state.queues[mq] = QueueState()
        if client_id not in queue.claimants:
            queue.claimants += (client_id,)
    for mq in before:
        if mq not in now:
            queue = state.queues[mq]
            queue.claimants = tuple(c for c in queue.claimants if c != client_id)


def _claim(step: GroupStep, client: ClientView, mq: MessageQueue) -> tuple[bool, int]:
    """Return the strength of a claim: whether it has a valid lock, and since when the client has claimed the queue."""
    process_queue = client.queues[mq]
    is_living = not client.orderly or client.at_answer(process_queue).trusts_lock(
        client.answered, step.policy.client_lock_max_live_time
    )
    return is_living, process_queue.claimed_since


def _remember_locks(step: GroupStep, client_id: str, client: ClientView) -> None:
    """Record when the broker frees the locks of a client that vanished: when they expire, at the latest.

    The last renewal that was seen may not be the last one: the client may have renewed once more after its last
    answer, `lock_interval` later, if it was still alive then.
    """
    for mq, process_queue in client.queues.items():
        queue = step.queue(mq)
        seen = client.at_answer(process_queue).last_lock_timestamp
        if client.orderly and process_queue.locked and seen is not None and queue.owner == client_id:
            renewed = min(seen + step.policy.lock_interval, step.now)
            queue.lock_free_at = max(client.answered, renewed + step.policy.broker_lock_max_live_time)


def _hand_over(step: GroupStep, mq: MessageQueue, current: str | None, owner: str | None, evidence: str) -> None:
    queue = step.queue(mq)
    step.shown_by_one("OWNERS")
    first_seen = evidence == "FIRST_SEEN" and current is None
    rebalance_id = queue.rebalance_id = "" if first_seen else rebalances.note_move(step, mq, current, owner)
    released = _release_evidence(step, mq, current, owner, evidence) if current is not None else ""
    if current is not None:
        step.assignment(mq, current, assigned=False, evidence=released, rebalance_id=rebalance_id)
        queue.former_owner, queue.released_at = current, step.now
    queue.owner = owner
    _count(step.state, mq, current, owner)
    queue.unassigned = _unassigned(step, queue, current, released) if owner is None else None
    if owner is not None:
        step.state.owner_changed_at = step.state.owner_changed_at if mq.is_retry else step.now
        shown = evidence if evidence in _TAKEN or first_seen else "ANSWER"
        step.assignment(mq, owner, assigned=True, evidence=shown, rebalance_id=rebalance_id)
        if current is None and owner == queue.former_owner and not first_seen:
            retaken.note(step, mq, queue, owner, step.now)
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


def _unassigned(step: GroupStep, queue: QueueState, current: str | None, evidence: str) -> Unassigned:
    """Return the record of a queue that lost its owner, and whether that owner was seen to release it.

    One that answers without the queue has released it, though clients in Go keep its lock until that expires.
    """
    was_released = evidence in ("UNLOCKED", "ANSWER_WITHOUT") or (
        evidence == "LEFT"
        and any(view.hook and current in view.hook.recent_unregisters for view in step.state.views.values())
    )
    return Unassigned(step.now, "RELEASED" if was_released else "", queue.lag, queue.expected_owner)


def _release_evidence(step: GroupStep, mq: MessageQueue, current: str, owner: str | None, evidence: str) -> str:
    if evidence in ("LEFT", "GONE", "UNLOCKED"):
        return evidence
    if evidence in _TAKEN:
        return "TAKEN_OVER"
    process_queue = step.state.clients[current].queues.get(mq)
    if process_queue is None:
        return "ANSWER_WITHOUT"
    return "DROPPED" if process_queue.dropped or owner is None else "TAKEN_OVER"
