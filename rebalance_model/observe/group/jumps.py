"""Record a commit that jumps forward: messages that nobody read, and that no consumer will get.

EXPIRED: the store deletes messages by age (fileReservedTime) whether they were read or not. A client that asks for one
that is gone is answered PULL_OFFSET_MOVED (21), drops the queue, commits the offset that the broker names
(DefaultMQPushConsumerImpl, OFFSET_ILLEGAL), and takes it again. A broker that resets offsets itself answers the same.

JUMPED: the commit is far beyond what was pulled, and the client has dropped the queue: its offset was moved, or it is
the same, seen by polls. A commit beyond what the master served is not enough: a slave may have served it.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import OffsetInfo
from rebalance_model.observe.state import HookQueueView, QueueState, Skipped
from rebalance_model.observe.step import GroupStep

PULLED_WITHIN = 30_000
"""A client whose offset was moved had pulled the queue at its master until shortly before; milliseconds."""


def note_corrected(step: GroupStep, mq: MessageQueue, hook_view: HookQueueView, commit: int) -> None:
    """Process a commit shortly after a pull was answered that its offset is not in the log."""
    if hook_view.pull_offset >= 0:
        _record(step, mq, Skipped(max(hook_view.pull_offset, hook_view.commit_offset), commit, step.now, "EXPIRED"))


def note_taken(step: GroupStep, mq: MessageQueue, hook_view: HookQueueView) -> None:
    """Process that a client queries the offset of a queue: it begins at the commit, wherever that was moved."""
    pulled, commit = hook_view.pull_offset, hook_view.commit_offset
    is_far = 0 <= pulled < commit - step.policy.pull_threshold_for_queue
    if is_far and step.now - hook_view.pull_time <= PULLED_WITHIN and not _is_recorded(step, mq, commit):
        _record(step, mq, Skipped(pulled, commit, step.now, "JUMPED"))


def note_answer(step: GroupStep, queue: QueueState, info: OffsetInfo) -> None:
    """Process an advanced commit in an answer, which is not applied to the queue yet."""
    before, pulled = queue.commit_offset, max(queue.pull_offset, info.pull_offset)
    if before is None or not 0 <= before <= queue.pull_offset or step.facts.is_mute:
        return
    is_far = info.consumer_offset > pulled + step.policy.pull_threshold_for_queue
    if is_far and _is_dropped(step, queue, info.mq) and not _is_recorded(step, info.mq, info.consumer_offset):
        _record(step, info.mq, Skipped(pulled, info.consumer_offset, step.now, "JUMPED"))


def _is_dropped(step: GroupStep, queue: QueueState, mq: MessageQueue) -> bool:
    """Return whether the last answer of the queue's client shows that it has dropped it; also if nobody has it."""
    owner = step.state.clients.get(queue.owner or "")
    held = owner.queues.get(mq) if owner is not None else None
    return held is None or held.dropped


def _is_recorded(step: GroupStep, mq: MessageQueue, start: int) -> bool:
    known = step.state.queues[mq].skipped
    return known is not None and known.start >= start


def _record(step: GroupStep, mq: MessageQueue, skipped: Skipped) -> None:
    if mq.is_retry or mq.topic in step.facts.popped or skipped.start <= skipped.first:
        return
    step.state.queues[mq].skipped = skipped
    step.changed("SKIPPED")
