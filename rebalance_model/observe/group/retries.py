"""Count the messages that come back by a group's retry topic, as its commits there show: by a hook, or by answers.

A listener that refuses a message sends it back (CONSUMER_SEND_MSG_BACK); an ordered one with maxReconsumeTimes sends it
to the retry topic itself. It comes back after a delay that grows from 10 s to 2 h with each attempt, so that one
message alone soon comes seldom: what comes again and again is many, or such whose attempts are not counted.
"""

from rebalance_model.entities import RETRY_TOPIC_PREFIX, MessageQueue
from rebalance_model.observe.state import Retries
from rebalance_model.observe.step import GroupStep

AGAIN_WITHIN = 130_000
"""The next one belongs to the same run if it comes within this time: the fourth attempt comes after 120 s;
milliseconds."""


def note(step: GroupStep, mq: MessageQueue, commit: int) -> None:
    """Process a commit of a queue of a retry topic, by any source."""
    state = step.state
    if mq.topic != RETRY_TOPIC_PREFIX + state.group:
        return  # what comes back to clients that pop: POP_RETURNED
    retries = state.retries
    if retries is None:
        retries = state.retries = Retries({})
    counted = retries.commits.get(mq)
    if counted is not None and commit <= counted:
        return
    retries.commits[mq] = commit
    if counted is None:
        return
    if step.now - retries.last > AGAIN_WITHIN:
        retries.since, retries.count, retries.is_much = step.now, 0, False
        retries.consumed_before = consumed(step)
    retries.count, retries.last = retries.count + commit - counted, step.now
    step.changed("RETURNED")


def consumed(step: GroupStep) -> int:
    """Return up to where the queues of the group's own topics are consumed, all together."""
    total = 0
    for mq, queue in step.state.queues.items():
        if not mq.is_retry:
            seen = queue.hook_view.commit_offset if queue.hook_view is not None else 0
            total += max(seen, queue.commit_offset or 0)
    return total
