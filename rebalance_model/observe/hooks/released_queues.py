"""Find queues that their clients have released without an event, or without a visible reason, by hooks alone.

That happens when a topic loses queues. Hooks see no routes. They show that no client has the queue any more, while its
clients live and consume others. No client is at fault, so it is unknown whether anything is wrong with such a queue.

- Concurrent: no call reports the release. But a client commits the offsets of its queues every
  persistConsumerOffsetInterval, whether they advanced or not. A living client that has omitted one three times no
  longer has that queue.
- Ordered: the queue was unlocked without a visible reason, and no client has requested its lock since. A topic loses
  its queues with the highest ids. This does not apply if members have just changed (another owner should take the
  queue), or while brokers list other members, or one twice (the strategy assigns some queues to no client then).

Of a queue that its topic seems to have lost, and that no client has read for `GONE_AFTER`, one thing is known: that
nobody reads it. It ends (`ended_queues`) until a client takes it again.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.group.ended_queues import GONE_AFTER, end_unread, return_queue
from rebalance_model.observe.state import HookQueueView, HookView
from rebalance_model.observe.step import GroupStep

COMMITS_LEFT_OUT = 3
"""A living client that omits this many commits of a queue no longer has it."""


def is_released(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether the queue seems to be released, so that no client is supposed to have it."""
    return is_removed_from_topic(step, q) if step.state.orderly else is_released_by_owner(step, q)


def is_released_by_owner(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether the owner that the broker's hook shows no longer has the queue; for concurrent queues."""
    queue, hook, hook_view = q.queue, q.hook, q.seen
    if (
        hook_view is None
        or hook is None
        or step.state.orderly
        or hook_view.holder is None
        or hook_view.holder != queue.owner
    ):
        return False
    heartbeats = hook.heartbeats.get(hook_view.holder)
    if heartbeats is None or hook_view.committer != hook_view.holder:
        return False
    omitted = heartbeats.last - _last_sign(hook_view, hook)
    return omitted > COMMITS_LEFT_OUT * step.policy.persist_consumer_offset_interval


def forget_wait(step: GroupStep, q: QueueFacts, seen: HookQueueView) -> None:
    """Forget since when messages of a released queue wait, where a client takes it: none was to consume it before."""
    if is_released(step, q):
        seen.waiting_since = seen.behind_since = 0


def end_unread_queues(step: GroupStep) -> None:
    """End the queues that their topic seems to have lost, and that nobody has read for long; by hooks alone."""
    subjects = (QueueFacts.of(step.facts, mq) for mq in step.state.queues if not mq.is_retry)
    end_unread(step, [q.mq for q in subjects if _is_unread(step, q)])


def note_read(step: GroupStep, mq: MessageQueue) -> None:
    """Take back that nobody reads a queue: a client takes it, or pulls it."""
    queue = step.state.queues.get(mq)
    if queue is not None and queue.ended is not None and queue.ended.why == "NOT_READ":
        return_queue(step, mq, queue)


def _is_unread(step: GroupStep, q: QueueFacts) -> bool:
    hook, hook_view = q.hook, q.seen
    if q.queue.ended is not None or hook is None or hook_view is None:
        return False
    last = _last_sign(hook_view, hook)
    if step.now - last <= GONE_AFTER or not is_released(step, q):
        return False
    is_explained = _had_cause(step, last) or _is_divided_otherwise(step)
    return not is_explained and _is_beyond_those_read(step, q.mq, last + GONE_AFTER)


def _is_beyond_those_read(step: GroupStep, mq: MessageQueue, since: int) -> bool:
    """Return whether clients have read other queues of the topic on the broker since then, all with lower ids."""
    beside = ((other.queue_id, one.hook_view) for other, one in step.state.queues.items() if _are_beside(other, mq))
    read = [queue_id for queue_id, seen in beside if seen is not None and seen.pull_time > since]
    return bool(read) and max(read) < mq.queue_id


def _last_sign(hook_view: HookQueueView, hook: HookView) -> int:
    """Return when a client was last seen to have the queue, or since when nothing is missing that would show it."""
    return max(hook_view.commit_time, hook_view.pull_time, hook_view.holder_since, hook.covered_since)


def is_removed_from_topic(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether the topic seems to have lost the ordered queue; by hooks alone, since polls show the route."""
    state, queue = step.state, q.queue
    released = queue.unassigned
    if state.is_polled or q.view is None or released is None or released.how != "RELEASED":
        return False
    if step.now - released.since <= step.policy.unassigned_after_release or _had_cause(step, released.since):
        return False  # its next owner may be about to take it, or should be
    if queue.former_owner not in step.facts.members or (queue.hook_view is not None and queue.hook_view.refusals):
        return False
    if _is_divided_otherwise(step):
        return False
    known = ((other.queue_id, one.owner) for other, one in state.queues.items() if _are_beside(other, q.mq))
    owned = [queue_id for queue_id, owner in known if owner is not None]
    return bool(owned) and max(owned) < q.mq.queue_id


def _is_divided_otherwise(step: GroupStep) -> bool:
    """Return whether lists of members differ or name one twice: a client assigns by the list of any broker.

    A queue may then have no owner, or a client may take and release it again and again, while its topic has it.
    """
    live = (view for view in step.state.views.values() if step.live_hook(view) is not None)
    lists = [view.info.client_ids() for view in live]
    return any(len(set(one)) < len(one) or set(one) != set(lists[0]) for one in lists)


def _had_cause(step: GroupStep, time: int) -> bool:
    """Return whether members or subscriptions had changed shortly before, so that another client should take it."""
    return any(0 <= time - cause.time <= step.policy.rebalance_wait_interval for cause in step.state.causes)


def _are_beside(queue: MessageQueue, other: MessageQueue) -> bool:
    return (queue.topic, queue.broker) == (other.topic, other.broker)
