"""LOCK_ORPHANED: the queue's heir asks for its lock and is refused it, for the sake of a client that is gone.

A client that is killed unlocks nothing: the broker keeps its lock for 60 s from the last renewal, and says so to nobody
but the heirs that it refuses. With the broker's hook once an heir has been refused for 3 s. By polls it is inferred:
the former owner is gone, its lock is young enough to live, and who should have the queue has had a full rebalance's
time and has it not. Clear when the lock is granted or has run out, or nobody asks any more.

Not from the first refusal on, as first designed: a client whose connection broke is gone until its next call, up to 3 s
later (PULL_TIME_DELAY_MILLS_WHEN_EXCEPTION), and has its lock still. And clients that are shut down together take each
other's queues while they leave, and whoever is refused is gone itself within a second or two.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.hooks.lock_requests import IN_A_ROW
from rebalance_model.observe.polls.offsets import lag_of
from rebalance_model.observe.state import BrokerView, HookView, QueueState
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Severity, Verdict

BACK_WITHIN = 3_000
"""A client that has lost its connections has others within so long; milliseconds."""


def judge(turn: Turn, mq: MessageQueue) -> Verdict:
    """By the broker's word where its hook tells; else by who is gone and who waits."""
    queue = turn.state.queues[mq]
    if mq.is_retry:
        return CLEAR
    view = turn.state.views.get(mq.broker)
    hook = turn.live_hook(view)
    if view is None or hook is None:
        return _inferred(turn, queue)
    return _told(turn, mq, queue, view, hook)


def evidence(turn: Turn, mq: MessageQueue) -> Evidence:
    """Whose lock it is, how old, and who asks for it."""
    queue = turn.state.queues[mq]
    hook = turn.live_hook(turn.state.views.get(mq.broker))
    entry = hook.locks.get(mq) if hook is not None else None
    if hook is None or entry is None or queue.hook is None:
        return {"former_owner": queue.former_owner, "heir": queue.expected, "lock_free_at": queue.lock_free_at}
    return {
        "holder": entry.client_id,
        "lock_age_ms": turn.now - entry.last_update_timestamp,
        "broker_limit_ms": turn.policy.broker_lock_max_live_time,
        "asked_by": ", ".join(sorted(queue.hook.refusals)),
        "refusals": sum(asked.count for asked in queue.hook.refusals.values()),
    }


def _told(turn: Turn, mq: MessageQueue, queue: QueueState, view: BrokerView, hook: HookView) -> Verdict:
    refusals = queue.hook.refusals if queue.hook is not None else {}
    now, members = turn.now, turn.state.members
    asked = [a.first for client_id, a in refusals.items() if client_id in members and now - a.last <= IN_A_ROW]
    entry = hook.locks.get(mq)
    if not asked or entry is None or view.lists(entry.client_id):
        return CLEAR
    free_at = entry.last_update_timestamp + turn.policy.broker_lock_max_live_time
    if now > free_at:
        return CLEAR  # whoever asks next has it
    turn.schedule_check(free_at + 1)
    if now - min(asked) <= BACK_WITHIN:
        turn.schedule_check(min(asked) + BACK_WITHIN + 1)
        return None
    severity = _severity(turn, queue, now - min(asked))
    return Holds(severity, client_id=entry.client_id)


def _inferred(turn: Turn, queue: QueueState) -> Verdict:
    now, free_at, gone_at = turn.now, queue.lock_free_at, queue.released_at
    if queue.owner is not None or queue.former_owner in turn.state.members or free_at is None or gone_at is None:
        return CLEAR
    if now >= free_at:
        return CLEAR
    turn.schedule_check(free_at)
    heir = turn.state.clients.get(queue.expected or "")
    heir_since = max(gone_at, turn.state.expected_at)
    if heir is None or heir.asked_at_answer - heir_since <= turn.policy.rebalance_wait_interval:
        return None
    return Holds(_severity(turn, queue, now - gone_at), "INFERRED", queue.former_owner)


def _severity(turn: Turn, queue: QueueState, orphaned_ms: int) -> Severity:
    limit = turn.policy.orphaned_critical_after
    told = queue.hook
    if not lag_of(queue) and not (told is not None and told.waiting_since):
        return "warning"
    if orphaned_ms > limit:
        return "critical"
    turn.schedule_check(turn.now + limit + 1 - orphaned_ms)
    return "warning"


RULE = Rule("LOCK_ORPHANED", judge, evidence, absorbed_by=("REBALANCE_STORM",))
