"""ORDERED_QUEUE_STUCK: an ordered queue has lag and its commit has not advanced for stuck_after.

The core alert: `mqadmin consumerStatus` does not show this condition. Judged at each answer of the broker
(GET_CONSUME_STATS), on covered time alone (`offsets`), and by its hook (`stall`), from which the lag may be unknown: it
is a warning then. Unknown for a queue that its topic seems to have lost (`released_queues`). Clear when the commit
advances.

POP_BLOCKED: such a queue that is popped in order (consumeMessageOrderly): its commit stays at the first message
that is not acknowledged. By hooks it is one that was renewed or refused, and not acknowledged for `pop_held_after`.
"""

from collections.abc import Mapping
from typing import Literal, get_args

from rebalance_model.observe.facts.queue_facts import OwnersQueue, QueueFacts
from rebalance_model.observe.group import retaken
from rebalance_model.observe.group.owners_queue import owners_queue
from rebalance_model.observe.hooks import pull_errors, released_queues
from rebalance_model.observe.hooks.pops import held_since
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.rules import concerns, filtered, proxy_client_gone, pull_stall, stall, unresponsive
from rebalance_model.observe.rules.ghost_connection import ghost_evidence
from rebalance_model.observe.rules.rule import CLEAR, OF_BROKER, Advice, Evidence, Holds, QueueRule, Severity, Verdict
from rebalance_model.observe.state import HookQueueView, IncidentKey, ProcessQueueView
from rebalance_model.observe.step import GroupStep

SubCause = Literal[
    "FILTERED",
    "RETAKEN",
    "PULL_INTERVAL",
    "OWNER_GONE_LOCK_HELD",
    "UNASSIGNED",
    "GHOST_CONNECTION",
    "UNLOCK_PENDING",
    "ZOMBIE",
    "OWNER_UNRESPONSIVE",
    "NOT_TAKEN",
    "NOT_LOCKED",
    "LOCK_EXPIRED",
    "LISTENER_HUNG",
    "LISTENER_BLOCKED",
    "SUSPEND_LOOP",
    "NOT_PULLING",
    "PULL_REFUSED",
    "TOPIC_NOT_READABLE",
    "SUSPENDED",
    "HOLDS_BACK",
    "NOTHING_RECEIVED",
    "POP_BLOCKED",
    "NOT_REPORTED",
    "UNDETERMINED",
]

_EXPLAINED_BY: Mapping[str, tuple[str, ...]] = {
    "OWNER_GONE_LOCK_HELD": ("LOCK_ORPHANED", "LOCK_CONTENDED"),
    "UNASSIGNED": ("QUEUE_UNASSIGNED",),
    "GHOST_CONNECTION": ("QUEUE_UNASSIGNED",),
    "UNLOCK_PENDING": ("UNLOCK_PENDING",),
    "ZOMBIE": ("ZOMBIE_QUEUE",),
    "NOT_LOCKED": ("LOCK_ORPHANED", "LOCK_CONTENDED"),
    "LOCK_EXPIRED": ("LOCK_EXPIRED",),
    "NOT_PULLING": ("PULL_EXPIRED",),
    "PULL_REFUSED": ("PULL_REFUSED",),
    "SUSPENDED": ("PULL_EXPIRED",),
}
"""By sub-cause, the codes of the queue's other incidents under which one is shown."""


def judge(step: GroupStep, q: QueueFacts) -> Verdict:
    """Check for how long the queue has waited; None until that is long enough."""
    if step.facts.broadcasts:
        return CLEAR  # each client keeps its offsets itself: those of the broker are stale
    if step.facts.is_fifo(q.mq):
        return _of_fifo(step, q)
    if q.mq.topic in step.facts.popped:
        return CLEAR  # its commit advances when messages are popped
    return _of_pulled(step, q) if step.state.orderly and not q.mq.is_retry else None


def _of_pulled(step: GroupStep, q: QueueFacts) -> Verdict:
    """Check a queue that one client has, which locks it."""
    waited = stall.find(step, q, step.policy.stuck_after) if not pull_errors.is_illegal(step, q) else None
    if waited is None:
        return None
    if waited.ms <= step.policy.stuck_after:
        return CLEAR if waited.moved else None
    if released_queues.is_removed_from_topic(step, q):
        return None
    if filtered.is_filtered(step, q):
        return filtered.verdict(q)
    severity: Severity = "warning" if waited.lag is None else "critical"
    if retaken.is_again(step, q):
        return stall.of_retaken(step, RULE.code, q, severity)
    sub_cause = stall.settled(step, RULE.code, q, _sub_cause(step, q, owners_queue(step, q)))
    return Holds(severity, sub_cause, q.queue.owner, explained_by=_causes(step, q, sub_cause, q.queue.owner))


def _of_fifo(step: GroupStep, q: QueueFacts) -> Verdict:
    """Check a queue that is popped in order: its commit is the first message that is not acknowledged.

    By hooks it is blocked since a message was popped that is not acknowledged.
    """
    held_ms, explained = _held_ms(step, q), proxy_client_gone.explains(step)
    if held_ms is not None and held_ms > step.policy.pop_held_after:
        return Holds("critical", "POP_BLOCKED", explained_by=explained)
    lag = q.queue.lag
    if lag is None or q.queue.stats_at != step.now:
        return CLEAR if lag is None and held_ms is None and "OFFSETS" in step.facts.missing else None
    if q.queue.stalled_ms <= step.policy.fifo_stuck_after:
        return CLEAR if q.queue.stalled_ms == 0 and held_ms is None else None
    return Holds("critical", "POP_BLOCKED", explained_by=explained)


def _held_ms(step: GroupStep, q: QueueFacts) -> int | None:
    """Return for how long a popped message has held back those behind it; None: none does, as far as is known."""
    queue = step.facts.pops.queues.queues.get(q.mq)
    if queue is None or not queue.held_messages:
        return None
    held_ms = step.now - held_since(queue)
    if held_ms <= step.policy.pop_held_after:
        step.schedule_check(held_since(queue) + step.policy.pop_held_after + 1)
    return held_ms


def evidence(step: GroupStep, q: QueueFacts) -> Evidence:
    """Return the lag, the offsets, and the last known state of the owner."""
    process_queue = owners_queue(step, q)
    limit = step.policy.fifo_stuck_after if step.facts.is_fifo(q.mq) else step.policy.stuck_after
    fields = stall.evidence(step, q, limit)
    if process_queue is not None:
        fields |= {
            "lock_age_ms": process_queue.lock_ms,
            "pull_age_ms": process_queue.pull_ms,
            "consume_age_ms": process_queue.consume_ms,
        }
    if process_queue is not None and process_queue.answer is not None:
        fields |= {
            "locked": process_queue.answer.locked,
            "cached_count": process_queue.answer.cached_count,
            "in_listener": process_queue.answer.transaction_count,
        }
    if (held_ms := _held_ms(step, q)) is not None:
        fields["held_ms"] = held_ms
    return fields | ghost_evidence(step, q)


def _sub_cause(step: GroupStep, q: QueueFacts, process_queue: OwnersQueue | None) -> SubCause:
    """Return the first sub-cause that applies."""
    policy = step.policy
    if process_queue is None:
        return _without_owner(step, q)
    if _is_unresponsive(step, q, process_queue):
        return "OWNER_UNRESPONSIVE"
    if process_queue.answer is not None and process_queue.answer.locked is False:
        return "NOT_LOCKED"
    if process_queue.is_lock_expired(process_queue.lock_as_of, policy.client_lock_max_live_time):
        return "LOCK_EXPIRED"
    if (of_pulls := pull_stall.cause_of(step, q, process_queue)) is not None:
        return of_pulls
    return (
        _of_calls(step, q, process_queue)
        if process_queue.answer is None
        else _of_answer(process_queue.answer, process_queue, policy)
    )


def _causes(step: GroupStep, q: QueueFacts, sub_cause: str, owner: str | None) -> tuple[IncidentKey, ...]:
    """Return the incidents under which it is shown: those about its sub-cause, or about the owner that it has lost."""
    own = tuple(IncidentKey(code, str(q)) for code in _EXPLAINED_BY.get(sub_cause, ()))
    if sub_cause == "UNASSIGNED":
        own += stall.causes_of_unassigned(step, q)
    of_client = stall.causes(step, q.mq.broker, sub_cause, owner)
    if sub_cause in stall.OF_A_MOMENT:
        of_client += unresponsive.causes_of(step, q.mq.broker, q.queue.former_owner)
    return (*own, *of_client)


def _is_unresponsive(step: GroupStep, q: QueueFacts, process_queue: OwnersQueue) -> bool:
    """Return whether neither the collector nor the broker receives anything from the owner."""
    unanswered = step.now - process_queue.client.answered > step.policy.unresponsive_after
    if process_queue.client.answered and (process_queue.client.silent or not unanswered):
        return unanswered
    return stall.is_unresponsive(step, q)


def _of_calls(step: GroupStep, q: QueueFacts, process_queue: OwnersQueue) -> SubCause:
    seen = q.calls
    if process_queue.last_lock_timestamp is None and q.watched_since <= step.now:
        return "NOT_LOCKED"
    if seen is not None and _is_not_taken(step, seen):
        return "NOT_TAKEN"
    if seen is not None and seen.waiting_since and _has_held(step, seen):
        return "LISTENER_BLOCKED"
    return (
        "NOT_PULLING"
        if process_queue.is_pull_expired(process_queue.as_of, step.policy.pull_suspended_max)
        else "UNDETERMINED"
    )


def _is_not_taken(step: GroupStep, seen: HookQueueView) -> bool:
    """Return whether a client has long had the lock, and has neither asked for the queue's offset nor pulled it."""
    asked = max(seen.asked_at, seen.pull_time) >= seen.holder_since
    return not asked and seen.start_offset < 0 and _has_held(step, seen)


def _has_held(step: GroupStep, seen: HookQueueView) -> bool:
    """Return whether the owner has had the queue long enough to have consumed something of it."""
    return step.now - seen.holder_since > step.policy.consume_frozen_after


def _of_answer(queue: ProcessQueueView, process_queue: OwnersQueue, policy: Policy) -> SubCause:
    taken, consume_ms = queue.transaction_count or 0, process_queue.consume_ms
    if queue.last_consume_timestamp is None and taken > 0:
        return "LISTENER_HUNG"  # of Go's ordered client, which has no such stamp: one that it rejected it has put back
    if consume_ms is not None and consume_ms > policy.consume_frozen_after:
        if taken > 0:
            return "LISTENER_HUNG"
    elif _has_consumed(queue) and (queue.cached_count or 0) + taken > 0:
        return "SUSPEND_LOOP"
    if queue.cached_count == 0 and process_queue.is_pull_expired(process_queue.as_of, policy.pull_suspended_max):
        return "NOT_PULLING"
    return "UNDETERMINED"


def _has_consumed(queue: ProcessQueueView) -> bool:
    """Return whether its listener has received a message since the process queue was made: it has a stamp from then."""
    consumed = queue.last_consume_timestamp
    return consumed is not None and (not queue.made or consumed > queue.made + retaken.MADE_WITHIN)


def _without_owner(step: GroupStep, q: QueueFacts) -> SubCause:
    if pull_errors.is_refused(step, q):
        return "PULL_REFUSED"
    if (holder := _who_locks(step, q)) is not None:
        return "NOT_TAKEN" if holder in step.facts.members else "OWNER_GONE_LOCK_HELD"
    kept = [held for c in step.state.clients.values() if (held := c.queues.get(q.mq)) is not None and held.dropped]
    if not kept:
        return stall.without_owner(step, q)
    return "UNLOCK_PENDING" if any(held.try_unlock_times for held in kept) else "ZOMBIE"


def _who_locks(step: GroupStep, q: QueueFacts) -> str | None:
    """Return the client that holds the lock which others are refused, member or not; None: no such client is known."""
    if (entry := q.lock) is not None:
        is_expired = entry.is_expired(step.now, step.policy.broker_lock_max_live_time)
        return entry.client_id if not is_expired else None
    free_at = q.queue.lock_free_at
    return "" if free_at is not None and step.now < free_at else None


RULE = QueueRule(
    "ORDERED_QUEUE_STUCK",
    judge,
    evidence,
    title="{subject} is stuck",
    units={**stall.UNITS, "lock_age_ms": "ms", "locked": "flag", "in_listener": "messages", "held_ms": "ms"},
    sub_causes=get_args(SubCause),
    concerns=concerns.STUCK,
    of_popped=True,
    needs=("OFFSETS_OF_BROKER", "ORDER"),
    absorbed_by=("NO_ACTIVE_CLIENTS_WITH_LAG", *OF_BROKER, "PROXY_UNREACHABLE", "TELEMETRY_GAP"),
    alerts_as_child=True,
    advice={
        **stall.ADVICE,
        filtered.FILTERED: filtered.ADVICE,
        **pull_stall.ADVICE,
        "OWNER_GONE_LOCK_HELD": Advice(
            short="its owner is gone, and the lock is still held",
            what="The owner vanished without unlocking: other clients are refused until the broker's lock expires.",
            first_step="Wait for the lock to expire (60 s); if it stays, check that the expected owner requests it.",
            inspect=("MEMBERS",),
        ),
        "UNLOCK_PENDING": Advice(
            short="the former owner's listener prevents the unlock",
            what="The queue was reassigned, but its former owner's listener still runs and prevents the unlock.",
            first_step="Take a thread dump of the former owner: its listener has not returned.",
            inspect=("COMPARE",),
        ),
        "ZOMBIE": Advice(
            short="its owner has dropped it and does not release it",
            what="The owner keeps the queue as dropped: it neither consumes nor releases it.",
            first_step="Restart the owner; the client recovers by itself only when the queue is pull-expired (120 s).",
            inspect=("COMPARE",),
        ),
        "NOT_TAKEN": Advice(
            short="its lock is granted, and its client does not take it",
            what=(
                "A member has the queue's lock, and renews it, but does not begin to read the queue: nobody else may."
            ),
            first_step="Restart that client; its log says why it does not add the queue (add new mq failed).",
            inspect=("THREADS", "COMPARE"),
        ),
        "NOT_LOCKED": Advice(
            short="its owner does not hold the lock",
            what="The owner does not hold the queue's lock and therefore does not consume it.",
            first_step="Check who holds the lock: the broker's lock.log names the client.",
            inspect=("THREADS", "MEMBERS"),
        ),
        "LOCK_EXPIRED": Advice(
            short="its owner's lock has expired",
            what="The owner's lock is older than lockMaxLiveTime: it refuses to consume.",
            first_step="Check whether the owner reaches the broker's master, where locks are renewed every 20 s.",
            inspect=("THREADS",),
        ),
        "LISTENER_HUNG": Advice(
            short="the listener does not return",
            what="The owner's listener has taken a message and has not returned.",
            first_step="Take a thread dump of the owner (mqadmin consumerStatus -s) and look at ConsumeMessageThread.",
            inspect=("THREADS", "MESSAGE"),
        ),
        "LISTENER_BLOCKED": Advice(
            short="the listener does not finish a message",
            what=(
                "The owner has pulled messages and keeps its lock, but its committed offset is not advancing: a hung "
                "listener or a poison message."
            ),
            first_step=(
                "Take a thread dump of the owner (mqadmin consumerStatus -s); read the message at the commit offset."
            ),
            inspect=("THREADS", "MESSAGE"),
        ),
        "SUSPEND_LOOP": Advice(
            short="the listener refuses one message",
            what=(
                "The owner's listener receives the same message repeatedly and does not accept it: a poison message."
            ),
            first_step=(
                "Read the message at the commit offset; fix the listener, or set maxReconsumeTimes so that it goes to "
                "the DLQ."
            ),
            inspect=("MESSAGE", "THREADS"),
        ),
        "POP_BLOCKED": Advice(
            short="one message is not acknowledged",
            what=(
                "The queue is popped in order, and a message of it is not acknowledged: the messages behind it wait. "
                "Its listener hangs, or refuses it again and again, or no client runs."
            ),
            first_step=(
                "Read the message at the commit offset, and look at the logs of the group's clients: which of them has "
                "it is known to the proxy alone."
            ),
            inspect=("MESSAGE", "PROGRESS"),
        ),
        "NOT_PULLING": Advice(
            short="its owner does not pull",
            what="The owner has the lock and no cached messages, and it does not pull.",
            first_step="Check the owner's pullInterval and flow control; restart it if its pull request is lost.",
            inspect=("THREADS",),
        ),
    },
)
