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
from rebalance_model.observe.turn import Turn

COMMITS_LEFT_OUT = 3


def is_given_up(turn: Turn, mq: MessageQueue) -> bool:
    """Whether nobody is to have it, as it seems."""
    return by_its_topic(turn, mq) if turn.state.orderly else by_its_owner(turn, mq)


def by_its_owner(turn: Turn, mq: MessageQueue) -> bool:
    """Whether the owner, as the broker's hook believes it, has the queue no more; of one that is not ordered."""
    queue, view = turn.state.queues[mq], turn.state.views.get(mq.broker)
    told, hook = queue.hook, turn.live_hook(view)
    if told is None or hook is None or turn.state.orderly or told.holder is None or told.holder != queue.owner:
        return False
    heard = hook.heartbeats.get(told.holder)
    if heard is None or told.committer != told.holder:
        return False
    last = max(told.commit_time, told.pull_time, told.holder_since, hook.covered_since)
    return heard.last - last > COMMITS_LEFT_OUT * turn.policy.persist_consumer_offset_interval


def by_its_topic(turn: Turn, mq: MessageQueue) -> bool:
    """Whether the topic seems to have lost the ordered queue; by hooks alone, since polls show the route."""
    state, queue = turn.state, turn.state.queues[mq]
    released, view = queue.unowned, state.views.get(mq.broker)
    if state.is_polled or view is None or released is None or released.how != "SAID":
        return False
    if turn.now - released.since <= turn.policy.unassigned_after_release or _had_cause(turn, released.since):
        return False  # its heir may be on its way, or should be
    if queue.former_owner not in state.members or (queue.hook is not None and queue.hook.refusals):
        return False
    listed = view.info.client_ids()
    if len(set(listed)) < len(listed):
        return False
    known = ((other.queue_id, one.owner) for other, one in state.queues.items() if _are_beside(other, mq))
    owned = [queue_id for queue_id, owner in known if owner is not None]
    return bool(owned) and max(owned) < mq.queue_id


def _had_cause(turn: Turn, released: int) -> bool:
    """Whether members or subscriptions had changed shortly before: then somebody else is to have it."""
    return any(0 <= released - cause.time <= turn.policy.rebalance_wait_interval for cause in turn.state.causes)


def _are_beside(one: MessageQueue, other: MessageQueue) -> bool:
    return (one.topic, one.broker) == (other.topic, other.broker)
