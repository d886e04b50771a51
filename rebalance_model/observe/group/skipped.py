"""Record messages that a group skipped: it began a queue at a later offset than the first message that waited.

A client that takes a queue asks the broker where to begin (RebalancePushImpl.computePullFromWhereWithException). While
none is stored and the first message is no longer in memory, the broker answers QUERY_NOT_FOUND (22;
ConsumerManageProcessor.queryConsumerOffset), and the client begins where its consumeFromWhere says: by default at the
newest offset. A new group wants that. A group that has consumed the topic before does not: messages came to a new
broker, or to new queues, before the clients saw them in the route, or the broker has lost the group's offset.

By a hook: the query is answered 22, and the first pull shows the offset. By polls: the topic's route gets the queue
while the group consumes others of the topic, and the owner's answer shows its first position before it has consumed
anything. Its commit shows nothing: what waited before may have been consumed since the last answer.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.facts.interests import of_member
from rebalance_model.observe.state import PULL, HookQueueView, ProcessQueueView, QueueState, Skipped
from rebalance_model.observe.step import GroupStep

SETTLED_AFTER = 60_000
"""A group whose first member came within this time is new: it begins where its consumeFromWhere says; milliseconds."""
_EVERYTHING = ("TAG", frozenset("*"))


def consumed_to(step: GroupStep, mq: MessageQueue, client_id: str) -> int:
    """Return up to where the queue was consumed when a client queries its offset and none is stored; -1: unknown."""
    hook_view, queue = step.hook_view(mq), step.queue(mq)
    committed = max(hook_view.commit_offset, hook_view.commit_at_restart)
    if committed >= 0:
        pulled = hook_view.former.pulled if hook_view.former is not None else -1
        return max(committed, pulled, hook_view.pull_offset)  # what was pulled may be consumed
    return 0 if queue.new_since or (not hook_view.lost_by and _has_consumed(step, mq, client_id)) else -1


def note_first_pull(step: GroupStep, mq: MessageQueue, first: int, start: int) -> None:
    """Record what the holder has skipped, at its first pull after its query."""
    if first < start:
        _record(step, mq, Skipped(first, start, step.now))


def note_answer(step: GroupStep, mq: MessageQueue, client_id: str, process_queue: ProcessQueueView) -> None:
    """Record what the owner has skipped of a new queue, while its answer shows that it has consumed nothing yet.

    A client answers the offset that it has reached (ProcessQueueInfo.commitOffset); none before its first message. One
    that pulls by itself answers its last commit, which does not show what it has consumed. Messages that its expression
    does not match are left out of its cache.
    """
    queue = step.state.queues[mq]
    if not queue.new_since or queue.skipped is not None or queue.former_owner is not None:
        return
    client = step.state.clients[client_id]
    if process_queue.commit_offset is None or process_queue.commit_offset > 0 or client.consume_type == PULL:
        return
    if process_queue.cached_count == 0 and not process_queue.transaction_count:
        start = queue.pull_offset
    else:
        interest = of_member(client).get(mq.topic)
        start = process_queue.first_offset or 0 if interest == _EVERYTHING else 0
    if start > 0:
        _record(step, mq, Skipped(0, start, step.now))


def note_pull(step: GroupStep, mq: MessageQueue, offset: int) -> None:
    """Process a pull below the offsets before, as after a reset: messages from there on are read after all."""
    queue = step.state.queues[mq]
    gone = queue.skipped
    if gone is not None and offset < gone.start:
        queue.skipped = Skipped(gone.first, offset, gone.at, gone.why) if offset > gone.first else None
        step.changed("SKIPPED")


def note_committed(step: GroupStep, queue: QueueState, skipped: Skipped, commit: int) -> None:
    """Process a polled commit; one before the offset at which the group began shows a reset, but not to where."""
    if queue.commit_known and commit < skipped.start:
        queue.skipped = None
        step.changed("SKIPPED")


def note_new(step: GroupStep, mq: MessageQueue) -> None:
    """Record that a topic's route has got the queue while the group consumed others of the topic."""
    if any(q.commit_known for other, q in step.state.queues.items() if other.topic == mq.topic):
        step.state.queues[mq].new_since = step.now


def _record(step: GroupStep, mq: MessageQueue, skipped: Skipped) -> None:
    step.state.queues[mq].skipped = skipped
    step.changed("SKIPPED")


def _has_consumed(step: GroupStep, mq: MessageQueue, client_id: str) -> bool:
    """Return whether the client has consumed another queue of the topic, in a group that has had members for long."""
    if step.now - step.state.members_since < SETTLED_AFTER:
        return False
    views = (q.hook_view for other, q in step.state.queues.items() if other.topic == mq.topic and other != mq)
    return any(view is not None and view.commit_offset > 0 and _was_of(step, view, client_id) for view in views)


def _was_of(step: GroupStep, view: HookQueueView, client_id: str) -> bool:
    if view.holder == client_id:
        return step.now - view.holder_since >= SETTLED_AFTER
    return view.former is not None and view.former.client_id == client_id
