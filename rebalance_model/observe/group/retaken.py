"""Count how often a client drops a queue and takes it again, while nothing of the queue is committed.

A push client drops a queue that it has not pulled for pullMaxIdleTime, and takes it again at its next rebalance
(RebalanceImpl.updateProcessQueueTableInRebalance); C++ clients do so after a pull that timed out. The process queue is
new, and its stamps begin again: that is neither a pull nor progress. If it happens repeatedly, the client never
consumes.

By a hook: the client unlocks the queue and locks it again, or queries its offset again. By polls: its answers show the
queue, not, and again; or one whose stamps have begun again.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.state import QueueState, Retaken
from rebalance_model.observe.step import GroupStep

AGAIN = 2
"""Once may be a repair."""
WITHIN = 300_000
"""It happens again and again if it was seen in this time; two intervals of pullMaxIdleTime, and some; milliseconds."""
SAME_WITHIN = 10_000
"""The time within which a hook and an answer, or two calls, show the same one; milliseconds."""

MADE_WITHIN = 2
"""The stamps of a new process queue differ by no more than this; milliseconds."""


def note(step: GroupStep, mq: MessageQueue, queue: QueueState, client_id: str, at: int) -> None:
    """Record that the queue's client has taken it again."""
    retaken, commit = queue.retaken, _commit(queue)
    if retaken is None or retaken.client_id != client_id or commit > retaken.commit or at - retaken.last > WITHIN:
        queue.retaken = Retaken(client_id, at, at, commit)
    elif at - retaken.last > SAME_WITHIN:
        retaken.last, retaken.count = at, retaken.count + 1
        step.queues_to_judge[mq] = None


def is_again(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether its client has dropped the queue and taken it again several times, without any progress."""
    retaken = q.queue.retaken
    if retaken is None or retaken.count < AGAIN or q.queue.owner not in (retaken.client_id, None):
        return False
    if step.now - retaken.last > WITHIN or _commit(q.queue) > retaken.commit:
        return False
    step.schedule_check(retaken.last + WITHIN + 1)
    return True


def _commit(queue: QueueState) -> int:
    """Return the highest commit that any source has last shown; -1: unknown."""
    seen = queue.hook_view.commit_offset if queue.hook_view is not None else -1
    polled = queue.position
    return max(seen, polled if polled is not None else -1)
