"""ZOMBIE_QUEUE and UNLOCK_PENDING: a client keeps a queue that it has dropped.

A client that loses an ordered queue drops it and gives up the lock, but not while its listener works on a message
(removeUnnecessaryMessageQueue, tryLock on the consume lock): the attempts are counted in each answer. If the queue
comes back to that client before it is gone, the client neither consumes it nor takes it anew, until it is
pull-expired after 120 s: a zombie.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.polls.process_queue_view import ProcessQueueView
from rebalance_model.observe.state import ClientView
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict


def _kept(turn: Turn, mq: MessageQueue) -> tuple[str, ClientView, ProcessQueueView] | None:
    """Who keeps the queue dropped, and how its last answer shows it."""
    keeper = turn.state.queues[mq].dropped_by
    client = turn.state.clients.get(keeper) if keeper is not None else None
    held = client.queues.get(mq) if client is not None else None
    if keeper is None or client is None or held is None or not held.dropped or mq.is_retry:
        return None
    return keeper, client, held


def _judge_zombie(turn: Turn, mq: MessageQueue) -> Verdict:
    if turn.state.queues[mq].dropped_by is None or (kept := _kept(turn, mq)) is None:
        return CLEAR
    keeper, client, held = kept
    if turn.state.queues[mq].expected != keeper:
        return CLEAR
    if client.silent or client.asked_at_answer - held.claimed_since <= turn.policy.rebalance_wait_interval:
        return None
    return Holds("critical", client_id=keeper)


def _judge_unlock(turn: Turn, mq: MessageQueue) -> Verdict:
    if turn.state.queues[mq].dropped_by is None or (kept := _kept(turn, mq)) is None:
        return CLEAR
    keeper, client, held = kept
    grown = held.unlock_attempts > held.first_unlock_attempts > 0
    return Holds("warning", client_id=keeper) if grown and not client.silent else None


def evidence(turn: Turn, mq: MessageQueue) -> Evidence:
    """Who keeps it, for how long, and how often it has tried to unlock it."""
    queue, kept = turn.state.queues[mq], _kept(turn, mq)
    found: Evidence = {"owner": queue.owner, "expected_owner": queue.expected, "kept_by": None}
    if kept is not None:
        keeper, client, held = kept
        found |= {
            "kept_by": keeper,
            "dropped_ms": client.asked_at_answer - held.claimed_since,
            "limit_ms": turn.policy.rebalance_wait_interval,
            "unlock_attempts": held.unlock_attempts,
            "in_listener": held.transaction_count,
        }
    return found


ZOMBIE_QUEUE = Rule("ZOMBIE_QUEUE", _judge_zombie, evidence)
UNLOCK_PENDING = Rule("UNLOCK_PENDING", _judge_unlock, evidence, absorbed_by=("REBALANCE_STORM",))
