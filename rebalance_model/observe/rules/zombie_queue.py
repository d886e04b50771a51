"""ZOMBIE_QUEUE: a client keeps a queue as dropped, though the queue has been assigned to it again.

The client neither consumes nor re-acquires it until it is pull-expired after 120 s. See `dropped_queue`.
"""

from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.rules import concerns, dropped_queue
from rebalance_model.observe.rules.dropped_queue import kept
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, Holds, QueueRule, Verdict
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, q: QueueFacts) -> Verdict:
    """Check for how long the queue's expected owner has kept it dropped."""
    dropped = kept(step, q)
    if dropped is None:
        return CLEAR
    keeper, client, process_queue = dropped
    if q.queue.expected_owner != keeper:
        return CLEAR
    if client.silent or client.asked_at_answer - process_queue.claimed_since <= step.policy.rebalance_wait_interval:
        return None
    return Holds("critical", client_id=keeper)


def evidence(step: GroupStep, q: QueueFacts) -> Evidence:
    """Return what `dropped_queue` knows, and the limit (ms)."""
    return {**dropped_queue.evidence(step, q), "limit_ms": step.policy.rebalance_wait_interval}


RULE = QueueRule(
    "ZOMBIE_QUEUE",
    judge,
    evidence,
    title="{subject} is dropped and not released",
    units={**dropped_queue.UNITS, "limit_ms": "ms"},
    concerns=concerns.DROPPED,
    needs=("POLLS", "ANSWERS"),
    advice={
        "": Advice(
            what="The member is the queue's expected owner and keeps it as dropped: it neither consumes nor "
            "re-acquires it.",
            first_step=(
                "Take a thread dump of the member and restart it; it recovers by itself only when the queue is "
                "pull-expired (120 s)."
            ),
            inspect=("THREADS",),
        ),
    },
)
