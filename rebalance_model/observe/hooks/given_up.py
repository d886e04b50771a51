"""Queues that their clients have given up, where no event says so, or why: as hooks show it when a topic loses queues.

Hooks see no routes. They see that nobody has the queue any more, while its clients live and go on with others. That is
no client's fault, so whether anything is wrong with such a queue is not known.

- Not ordered: no call says that a queue is given up. But a client commits what it has, whether it got on or not, every
  persistConsumerOffsetInterval. One that lives, and has left that out three times, has the queue no more.
- Ordered: it was unlocked, for no reason that shows, and nobody has asked for its lock since. A topic loses its last
  queues, by their numbers. It is another matter when members have just changed, and should have another owner; and
  while a client stands twice in the list of members: then the strategy leaves queues to nobody.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.step import GroupStep

COMMITS_LEFT_OUT = 3


def is_given_up(step: GroupStep, mq: MessageQueue) -> bool:
    """Whether nobody is to have it, as it seems."""
    return by_its_topic(step, mq) if step.state.orderly else by_its_owner(step, mq)


def by_its_owner(step: GroupStep, mq: MessageQueue) -> bool:
    """Whether the owner, as the broker's hook believes it, has the queue no more; of one that is not ordered."""
    queue, view = step.state.queues[mq], step.state.views.get(mq.broker)
    hook_view, hook = queue.hook_view, step.live_hook(view)
    if (
        hook_view is None
        or hook is None
        or step.state.orderly
        or hook_view.holder is None
        or hook_view.holder != queue.owner
    ):
        return False
    heard = hook.heartbeats.get(hook_view.holder)
    if heard is None or hook_view.committer != hook_view.holder:
        return False
    last = max(hook_view.commit_time, hook_view.pull_time, hook_view.holder_since, hook.covered_since)
    return heard.last - last > COMMITS_LEFT_OUT * step.policy.persist_consumer_offset_interval


def by_its_topic(step: GroupStep, mq: MessageQueue) -> bool:
    """Whether the topic seems to have lost the ordered queue; by hooks alone, since polls show the route."""
    state, queue = step.state, step.state.queues[mq]
    released, view = queue.unowned, state.views.get(mq.broker)
    if state.is_polled or view is None or released is None or released.how != "SAID":
        return False
    if step.now - released.since <= step.policy.unassigned_after_release or _had_cause(step, released.since):
        return False  # its heir may be on its way, or should be
    if queue.former_owner not in state.members or (queue.hook_view is not None and queue.hook_view.refusals):
        return False
    listed = view.info.client_ids()
    if len(set(listed)) < len(listed):
        return False
    known = ((other.queue_id, one.owner) for other, one in state.queues.items() if _are_beside(other, mq))
    owned = [queue_id for queue_id, owner in known if owner is not None]
    return bool(owned) and max(owned) < mq.queue_id


def _had_cause(step: GroupStep, released: int) -> bool:
    """Whether members or subscriptions had changed shortly before: then somebody else is to have it."""
    return any(0 <= released - cause.time <= step.policy.rebalance_wait_interval for cause in step.state.causes)


def _are_beside(one: MessageQueue, other: MessageQueue) -> bool:
    return (one.topic, one.broker) == (other.topic, other.broker)
