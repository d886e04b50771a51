"""Record messages that a group skipped: it began a queue at a later offset than the first message that waited.

A client that takes a queue asks the broker where to begin (RebalancePushImpl.computePullFromWhereWithException). While
none is stored and the first message is no longer in memory, the broker answers QUERY_NOT_FOUND (22;
ConsumerManageProcessor.queryConsumerOffset), and the client begins where its consumeFromWhere says: by default at the
newest offset. A new group wants that. A group that has consumed the topic before does not: messages came to a new
broker, or to new queues, before the clients saw them in the route, or the broker has lost the group's offset.

By a hook: the query is answered 22, and the first pull shows the offset. By polls: the topic's route gets the queue
while the group consumes others of the topic, and the owner's answer shows its first position before it has consumed
anything. Its commit shows nothing: what waited before may have been consumed since the last answer.

Count the messages that come back by a group's retry topic, as its commits there show: by a hook, or by answers.

A listener that refuses a message sends it back (CONSUMER_SEND_MSG_BACK); an ordered one with maxReconsumeTimes sends it
to the retry topic itself. It comes back after a delay that grows from 10 s to 2 h with each attempt, so that one
message alone soon comes seldom: what comes again and again is many, or such whose attempts are not counted.
"""

from rebalance_model.entities import RETRY_TOPIC_PREFIX, MessageQueue
from rebalance_model.observe.facts.group_facts import interests_of
from rebalance_model.observe.state import PULL, HookQueueView, ProcessQueueView, QueueState, Retries, Skipped
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
        interest = interests_of(client).get(mq.topic)
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
