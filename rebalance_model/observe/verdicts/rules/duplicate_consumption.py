"""DUPLICATE_CONSUMPTION: a queue's owner reads messages again that had been consumed and committed.

RocketMQ promises each message at least once, so this is no fault; how many they were, and what moved the queue, is
worth knowing. Clear when its commit is back where it was, and nothing else is read again at once: while two clients
have a queue, each reads what the other one has committed.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict


def judge(turn: Turn, mq: MessageQueue) -> Verdict:
    """By where the owner began to read, against what had been committed."""
    told = turn.state.queues[mq].hook
    if told is None or told.reread is None:
        return CLEAR
    return Holds("info", client_id=told.reread.client_id)


def evidence(turn: Turn, mq: MessageQueue) -> Evidence:
    """How much, and for the sake of which rebalance."""
    told = turn.state.queues[mq].hook
    reread = told.reread if told is not None else None
    if reread is None:
        return {"commit_offset": told.commit_offset if told is not None else None}
    return {
        "messages": reread.mark - reread.start,
        "worth_ms": reread.worth_ms,
        "from_offset": reread.start,
        "to_offset": reread.mark,
        "rebalance_id": reread.rebalance_id,
    }


RULE = Rule(
    "DUPLICATE_CONSUMPTION",
    judge,
    evidence,
    clear_after=lambda policy: policy.persist_consumer_offset_interval,
    absorbed_by=("REBALANCE_STORM",),
)
