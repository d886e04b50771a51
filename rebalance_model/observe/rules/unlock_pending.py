"""UNLOCK_PENDING: a client that has lost an ordered queue repeatedly fails to unlock it.

Its listener still works on a message: each answer contains the number of attempts. See `dropped_queue`.
"""

from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.rules import concerns
from rebalance_model.observe.rules.dropped_queue import UNITS, evidence, kept
from rebalance_model.observe.rules.rule import CLEAR, Advice, Holds, QueueRule, Verdict
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, q: QueueFacts) -> Verdict:
    """Check whether the number of attempts grows from one answer to the next."""
    dropped = kept(step, q)
    if dropped is None:
        return CLEAR
    keeper, client, held = dropped
    grown = (held.try_unlock_times or 0) > held.first_unlock_attempts > 0
    return Holds("warning", client_id=keeper) if grown and not client.silent else None


RULE = QueueRule(
    "UNLOCK_PENDING",
    judge,
    evidence,
    title="{subject} is not unlocked by its former owner",
    units=UNITS,
    concerns=concerns.DROPPED,
    needs=("POLLS", "ANSWERS"),
    absorbed_by=("REBALANCE_STORM",),
    advice={
        "": Advice(
            what="The member has lost the queue and can't unlock it: its listener is still processing a message.",
            first_step="Take a thread dump of the member: its listener has not returned, and the next owner waits.",
            inspect=("THREADS",),
        ),
    },
)
