"""PULL_EXPIRED: a push client has not pulled from its queue for longer than pullMaxIdleTime.

The client repairs that itself at its next rebalance (it drops the queue and starts it anew), so in polls it shows
for 20 s at most. Clear when a pull is seen or the queue goes to another.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.ages import Ages
from rebalance_model.observe.expectation import group_info
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdict import CLEAR, Evidence, Holds, Rule, Verdict

PUSH = "CONSUME_PASSIVELY"


def judge(turn: Turn, mq: MessageQueue) -> Verdict:
    """By the age of the owner's last pull."""
    ages = Ages.of(turn, mq)
    if ages is None:
        return CLEAR
    info = group_info(turn.state)
    if ages.queue is None or ages.pull is None or mq.is_retry or info is None or info.consume_type != PUSH:
        return None
    limit = turn.policy.pull_max_idle_time
    if ages.pull > limit:
        return Holds("critical", client_id=turn.state.queues[mq].owner)
    if not ages.client.silent:
        return CLEAR
    turn.look_again(turn.state.clock, turn.now + limit + 1 - ages.pull)
    return None


def evidence(turn: Turn, mq: MessageQueue) -> Evidence:
    """Age and limit."""
    ages = Ages.of(turn, mq)
    found: Evidence = {"owner": turn.state.queues[mq].owner}
    if ages is not None:
        found |= {
            "pull_age_ms": ages.pull,
            "limit_ms": turn.policy.pull_max_idle_time,
            "cached_count": ages.queue.cached_count if ages.queue is not None else None,
            "silent": ages.client.silent,
        }
    return found


RULE = Rule("PULL_EXPIRED", judge, evidence)
