"""Flags of what may be wrong with a queue or a client: they say which rules can find anything.

A queue is judged by the rules whose flags it has (`Rule.concerns`), and by every rule while it has an open or pending
incident. So a flag must be set wherever a rule about it may return `Holds`, or schedule a check: it may be set without
a reason, which costs time, but never be missing. The one check that healthy queues need all the time, that of the lock
by a hook, is scheduled here. `tests/core/observe/test_concerns.py` judges the rules that are left out, too.
"""

from collections.abc import Iterable

from rebalance_model.client import ProcessQueue
from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.group.owners_queue import answered_queue, owners_lock
from rebalance_model.observe.hooks.lock_requests import HANDOVERS_KEPT
from rebalance_model.observe.state import ClientView, HookQueueView
from rebalance_model.observe.step import GroupStep

UNASSIGNED = 1 << 0
"""No client has the queue."""
MISPLACED = 1 << 1
"""Its owner is not the expected one."""
LOCK_OLD = 1 << 2
"""Its owner's lock may have expired."""
PULL_OLD = 1 << 3
"""Its owner may not have pulled it for long."""
LOCK_REFUSED = 1 << 4
"""A client was refused its lock, or clients take it from each other."""
PULL_REFUSED = 1 << 5
"""Its pulls are answered with an error."""
FALLEN = 1 << 6
"""Its commit or its newest offset has fallen, or the commit is beyond the newest offset."""
STUCK = 1 << 7
"""It is ordered, and its commit may not have advanced for long."""
STALLED = 1 << 8
"""It is concurrent, or of a retry topic, and its commit may not have advanced for long."""
RIVAL = 1 << 9
"""Another client has it, too."""
DROPPED = 1 << 10
"""A client keeps it, and has dropped it."""
RISING = 1 << 11
"""Its lag has not fallen in a whole window."""
HELD = 1 << 17
"""A message of it is popped, and kept by renewals or in order."""

BEATS = 1 << 12
"""The client's heartbeats are observed, or a broker is known not to take them."""
DOUBLED = 1 << 13
"""It may be listed on several channels."""
SILENT = 1 << 14
"""It has not answered the last request."""
SKEWED = 1 << 15
"""Its clock certainly differs."""
FULL = 1 << 16
"""It has popped more messages than it may without an acknowledgement."""
POPS = 1 << 18
"""Its POPs are observed."""
PROXIED = 1 << 19
"""It is a client of a proxy, whose heartbeats are observed."""
REREAD = 1 << 20
"""Messages of the queue are read again: a rule about rebalances counts them."""


def of_queues(step: GroupStep, queues: Iterable[QueueFacts]) -> list[tuple[QueueFacts, int]]:
    """Return the queues that have to be judged, each with its flags: also one without any that has an incident."""
    unsettled, popped, to_judge = step.state.unsettled, step.facts.popped, []
    for q in queues:
        is_unsettled = bool(unsettled) and str(q.mq) in unsettled
        if q.queue.ended is not None or q.mq.topic in popped:
            to_judge.append((q, 0))
        elif (flags := of_queue(step, q, is_unsettled=is_unsettled)) or is_unsettled:
            to_judge.append((q, flags))
    return to_judge


def of_queue(step: GroupStep, q: QueueFacts, *, is_unsettled: bool = False) -> int:
    """Return the flags of a queue; schedule the check that is due when its owner's lock expires."""
    queue, owner, now = q.queue, q.owner, step.now
    flags = 0 if queue.owner == queue.expected_owner else MISPLACED
    if queue.owner is None:
        flags = UNASSIGNED
    if owner is not None and (is_unsettled or step.queues_to_judge.get(q.mq) != "OFFSETS"):
        flags |= _of_owner(step, q, owner)
    if q.seen is not None:
        flags |= _of_calls(step, q, q.seen)
    if queue.stalled_ms:
        flags |= _of_stall(step, q)
    if queue.fallen_back is not None or queue.newest_fall is not None or queue.beyond_since:
        flags |= FALLEN
    if (all_popped := step.facts.pops.queues.queues) and (one := all_popped.get(q.mq)) is not None:
        flags |= HELD | STUCK if one.held_messages else 0
    if queue.rival is not None:
        flags |= RIVAL
    if queue.dropped_by is not None:
        flags |= DROPPED
    trend = queue.lag_trend
    if trend is not None and queue.stats_at == now and now - trend.rising_since >= step.policy.lag_growth_window:
        flags |= RISING
    return flags


def _of_stall(step: GroupStep, q: QueueFacts) -> int:
    is_fifo = q.view is not None and q.view.is_fifo
    flags = STUCK if is_fifo and q.queue.stalled_ms > step.policy.fifo_stuck_after else 0
    if q.queue.stalled_ms > step.policy.stuck_after:
        flags |= STUCK if step.state.orderly and not q.mq.is_retry else STALLED
    return flags


def _of_owner(step: GroupStep, q: QueueFacts, client: ClientView) -> int:
    policy, flags, limit = step.policy, 0, step.policy.client_lock_max_live_time
    entry = pulled = None
    if q.calls is not None:
        entry, pulled = owners_lock(step, q), q.owner_pulled_at
    if client.unanswered:
        return LOCK_OLD | PULL_OLD
    answer = answered_queue(q, client)
    if answer is not None and q.calls is None and client.is_fresh(answer, min(limit, policy.pull_max_idle_time)):
        return 0
    process_queue = client.at_answer(answer) if answer is not None else None
    if entry is not None:
        if entry.is_expired(step.now, limit):
            flags = LOCK_OLD
        elif not q.mq.is_retry and not step.facts.broadcasts:
            step.schedule_check(entry.last_update_timestamp + limit + 1)
    elif process_queue is not None and client.orderly and process_queue.is_lock_expired(client.answered, limit):
        flags = LOCK_OLD
    if process_queue is None:
        return flags | (PULL_OLD if pulled is not None else 0)
    idle, tolerance = policy.pull_max_idle_time, 2 * policy.poll_interval
    if pulled is not None and ProcessQueue(pulled, None, None).is_pull_expired(step.now, idle - tolerance):
        return flags | PULL_OLD
    return flags | (PULL_OLD if process_queue.is_pull_expired(client.answered, idle) else 0)


def _of_calls(step: GroupStep, q: QueueFacts, seen: HookQueueView) -> int:
    flags = 0
    if seen.refusals or len(seen.lock_handovers) == HANDOVERS_KEPT:
        flags = LOCK_REFUSED
    if seen.pull_error is not None:
        flags |= PULL_REFUSED
    if seen.regression is not None:
        flags |= FALLEN
    if seen.concurrent_puller is not None:
        flags |= RIVAL
    if seen.reread is not None:
        flags |= REREAD
    if q.calls is not None and (seen.commit_offset >= 0 or q.queue.retaken is not None):
        may_wait = seen.waiting_since or seen.behind_since or step.now - seen.advanced_at > step.policy.stuck_after
        if may_wait or "OFFSETS" in step.facts.missing or q.queue.lag is None:  # else an answer shows when it waits
            flags |= STUCK if step.state.orderly and not q.mq.is_retry else STALLED
    return flags


def of_client(step: GroupStep, client_id: str) -> int:
    """Return the flags of a client."""
    state, flags = step.state, 0
    for broker, view in state.views.items():
        if step.facts.watched_since(broker) <= step.now or view.not_created is not None:
            flags |= BEATS | DOUBLED
        elif view.doubled:
            flags |= DOUBLED
    pops = step.facts.pops
    flags |= POPS if client_id in pops.poppers or client_id in pops.proxies else 0
    flags |= PROXIED if client_id in pops.proxied else 0
    client = state.clients.get(client_id)
    if client is None:
        return flags
    if client.unanswered:
        flags |= SILENT
    if client.full:
        flags |= FULL
    if client.skew is not None:
        (low, high), limit = client.skew, step.policy.clock_skew
        if low > limit or high < -limit:
            flags |= SKEWED
    return flags
