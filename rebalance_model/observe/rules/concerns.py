"""Flags of what may be wrong with a queue or a client: they say which rules can find anything.

A queue is judged by the rules whose flags it has (`Rule.concerns`), and by every rule while it has an open or pending
incident. So a flag must be set wherever a rule about it may return `Holds`, or schedule a check: it may be set without
a reason, which costs time, but never be missing. The one check that healthy queues need all the time, that of the lock
by a hook, is scheduled here. `tests/core/observe/test_concerns.py` judges the rules that are left out, too.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.facts.queue_facts import QueueFacts, with_calls
from rebalance_model.observe.group.owners_queue import answered_queue, owners_lock
from rebalance_model.observe.hooks.lock_requests import HANDOVERS_KEPT, IN_A_ROW
from rebalance_model.observe.state import ClientView, HookQueueView, HookView, QueueState
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
"""Its heartbeats may be missing, or not be taken by a broker; or the check for a missing one is to be scheduled."""
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


def of_queues(step: GroupStep) -> dict[MessageQueue, int]:
    """Return the step's queues that have to be judged, with their flags: also one without any that has an incident."""
    to_judge: dict[MessageQueue, int] = {}
    news, unsettled = step.queues_to_judge, step.state.unsettled
    if not news:
        return to_judge
    popped = step.facts.popped
    for mq, queue, seen in with_calls(step.facts, news):
        is_unsettled, is_pulled = bool(unsettled) and str(mq) in unsettled, mq.topic not in popped
        of_offsets = news[mq] is not None and not is_unsettled
        flags = of_queue(step, mq, queue, seen, of_offsets=of_offsets) if is_pulled and queue.ended is None else 0
        if flags or is_unsettled or not is_pulled or queue.ended is not None:
            to_judge[mq] = flags
    return to_judge


def of_queue(
    step: GroupStep, mq: MessageQueue, queue: QueueState, seen: HookQueueView | None, *, of_offsets: bool
) -> int:
    """Return the flags of a queue, of which only offsets may be new; schedule the check of its owner's lock."""
    now = step.now
    flags = 0 if queue.expected_owner in (None, queue.owner) else MISPLACED
    if queue.owner is None:
        flags = UNASSIGNED
    elif not of_offsets and (owner := step.state.clients.get(queue.owner)) is not None:
        flags |= _of_owner(step, mq, seen, owner)
    if seen is not None:
        flags |= _of_calls(step, mq, queue, seen)
    if queue.stalled_ms:
        flags |= _of_stall(step, mq, queue)
    if queue.fallen_back is not None or queue.newest_fall is not None or queue.beyond_since:
        flags |= FALLEN
    if (popped := step.facts.pops.queues.queues.get(mq)) is not None and popped.held_messages:
        flags |= HELD | STUCK
    flags |= (RIVAL if queue.rival is not None else 0) | (DROPPED if queue.dropped_by is not None else 0)
    trend = queue.lag_trend
    if trend is not None and queue.stats_at == now and now - trend.rising_since >= step.policy.lag_growth_window:
        flags |= RISING
    return flags


def _of_stall(step: GroupStep, mq: MessageQueue, queue: QueueState) -> int:
    view = step.state.views.get(mq.broker)
    is_fifo = view is not None and view.is_fifo
    flags = STUCK if is_fifo and queue.stalled_ms > step.policy.fifo_stuck_after else 0
    if queue.stalled_ms > step.policy.stuck_after:
        flags |= STUCK if step.state.orderly and not mq.is_retry else STALLED
    return flags


def _of_owner(step: GroupStep, mq: MessageQueue, seen: HookQueueView | None, client: ClientView) -> int:
    policy, flags, limit = step.policy, 0, step.policy.client_lock_max_live_time
    entry = pulled = None
    answer, fresh = answered_queue(mq, seen, client), min(limit, policy.pull_max_idle_time)
    if seen is not None and (q := QueueFacts.of(step.facts, mq)).calls is not None:
        entry, pulled = owners_lock(step, q), q.owner_pulled_at
    elif not client.unanswered and answer is not None and client.is_fresh(answer, fresh):
        return 0
    if client.unanswered:
        return LOCK_OLD | PULL_OLD
    process_queue = client.at_answer(answer) if answer is not None else None
    if entry is not None:
        if entry.is_expired(step.now, limit):
            flags = LOCK_OLD
        elif not mq.is_retry and not step.facts.broadcasts:
            step.schedule_check(entry.last_update_timestamp + limit + 1)
    elif process_queue is not None and client.orderly and process_queue.is_lock_expired(client.answered, limit):
        flags = LOCK_OLD
    if process_queue is None:
        return flags | (PULL_OLD if pulled is not None else 0)
    idle, tolerance = policy.pull_max_idle_time, 2 * policy.poll_interval
    if pulled is not None and step.now - pulled > idle - tolerance:
        return flags | PULL_OLD
    return flags | (PULL_OLD if process_queue.is_pull_expired(client.answered, idle) else 0)


def _of_calls(step: GroupStep, mq: MessageQueue, queue: QueueState, seen: HookQueueView) -> int:
    flags = 0
    if (seen.refusals or len(seen.lock_handovers) == HANDOVERS_KEPT) and _is_contended(step, seen):
        flags = LOCK_REFUSED
    if seen.pull_error is not None:
        flags |= PULL_REFUSED
    if seen.regression is not None:
        flags |= FALLEN
    if seen.concurrent_puller is not None:
        flags |= RIVAL
    if seen.reread is not None:
        flags |= REREAD
    due = seen.advanced_at + step.policy.stuck_after + 1 if seen.commit_offset >= 0 else 0
    if (due or queue.retaken is not None) and _is_due(step, due):
        may_wait = seen.waiting_since or seen.behind_since or step.now >= due
        may_wait = may_wait or "OFFSETS" in step.facts.missing or queue.lag is None  # else an answer shows when it does
        if may_wait and QueueFacts.of(step.facts, mq).calls is not None:
            flags |= STUCK if step.state.orderly and not mq.is_retry else STALLED
    return flags


def _is_contended(step: GroupStep, seen: HookQueueView) -> bool:
    """Return whether clients that were refused the lock of late may still ask for it, or take it from each other."""
    handovers, recent = seen.lock_handovers, max(IN_A_ROW, step.policy.rebalance_wait_interval)
    if len(handovers) == HANDOVERS_KEPT and step.now <= handovers[0][1] + step.policy.lock_contended_window:
        return True
    return any(step.now - one.last <= recent for one in seen.refusals.values())


def _is_due(step: GroupStep, due: int) -> bool:
    """Return whether a deadline has passed, or is to be scheduled: no check comes before it."""
    return step.now >= due or not 0 < step.state.next_check <= due


def _of_beats(step: GroupStep, hook: HookView, client_id: str) -> int:
    beats, limit = hook.heartbeats.get(client_id), 2 * step.policy.heartbeat_broker_interval
    flags = BEATS if client_id in hook.refused_heartbeats or client_id in hook.seldom_heartbeats else 0
    if beats is None:
        return flags
    flags |= DOUBLED if len(beats.channels) > 1 else 0
    return flags | (BEATS if _is_due(step, max(beats.last, hook.covered_since) + limit + 1) else 0)


def of_client(step: GroupStep, client_id: str) -> int:
    """Return the flags of a client."""
    state, flags, pops = step.state, 0, step.facts.pops
    for view in state.views.values():
        flags |= (BEATS if view.not_created is not None else 0) | (DOUBLED if view.doubled else 0)
    for hook in step.facts.hooks.values():
        flags |= _of_beats(step, hook, client_id)
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
