"""Decide which queues have ended: the cluster no longer has them, or the group no longer consumes their topic.

Nothing can be wrong with such a queue: its incidents are resolved with this reason. What it is not taken for:

- A queue that one source alone omits. The name server must have answered for `GONE_AFTER` that the topic is without it
  (or that there is no such topic, code 17), and the queue's own broker must have left it out of its offsets for as long
  (AdminBrokerProcessor.getConsumeStats lists each read queue of a topic that exists). A name server that is down or has
  just started, a route without a broker, and an answer that lacks some queues do not end anything.
- A queue that a client still pulls: its broker refuses that, which is an incident (PULL_REFUSED).
- A topic that is missing from one heartbeat. No member may have subscribed to it for `GONE_AFTER`, and none may have
  the queue. While the group has no members, what the last ones subscribed counts: a broker's offsets then list every
  topic that the group has ever consumed.

Forget the queues that are gone: of a topic that was deleted, of a route that has shrunk, or that never were.

A group may live for years, its topics change, and a client may commit an offset of any number.
"""

from rebalance_model.entities import DEAD_LETTER_TOPIC_PREFIX, RETRY_TOPIC_PREFIX, MessageQueue
from rebalance_model.observe.group import proxied
from rebalance_model.observe.group.expectation import expect
from rebalance_model.observe.state import Ended, EndedBy, GroupState, QueueState, Route
from rebalance_model.observe.step import GroupStep


def forget(step: GroupStep) -> None:
    """Forget queues without a route, owner, incident, answer or call for `Policy.group_memory`."""
    state = step.state
    if state.episode is not None:
        return
    before = step.now - step.policy.group_memory
    at_clients = {mq for client in state.clients.values() for mq in client.queues}
    gone = [mq for mq, queue in state.queues.items() if _is_unused(queue) and _last_seen(queue) < before]
    for mq in gone:
        if mq not in at_clients and not step.is_unsettled(mq):
            del state.queues[mq]
            step.touched.pop(mq, None)
            step.queues_to_judge.pop(mq, None)


def _is_unused(queue: QueueState) -> bool:
    holder = queue.hook_view.holder if queue.hook_view is not None else None
    return not queue.in_route and queue.owner is None and queue.expected_owner is None and holder is None


def _last_seen(queue: QueueState) -> int:
    """Return when an answer or a call was last about the queue, or it had an owner; epoch milliseconds."""
    polled, view = max(queue.stats_at, queue.released_at or 0), queue.hook_view
    if view is None:
        return polled
    return max(polled, view.commit_time, view.pull_time, view.asked_at, view.observed_at, view.last_sign)


GONE_AFTER = 60_000
"""The time that all sources must agree; milliseconds. A name server that has just started knows every broker after 30
s."""
WHY: dict[EndedBy, str] = {
    "TOPIC_DELETED": "the topic no longer exists",
    "QUEUE_REMOVED": "the topic no longer has this queue",
    "NOT_SUBSCRIBED": "no member subscribes to the topic any more",
    "NOT_READ": "no client reads this queue any more, though others of its topic are read",
    "BROKER_GONE": "no name server lists the broker any more",
}
_IMPLICIT = (RETRY_TOPIC_PREFIX, DEAD_LETTER_TOPIC_PREFIX)


def note_route(step: GroupStep, topic: str) -> None:
    """End the queues that the topic's route has been without for long enough, at an answer of the name server."""
    route = step.state.routes[topic]
    if route.missing_since and route.asked - route.missing_since >= GONE_AFTER:
        gone = [mq for mq in (*route.queues, *route.lost) if _is_unlisted(step, mq)]
        _end(step, gone, "TOPIC_DELETED")
        if len(gone) == len(route.queues) + len(route.lost):
            _forget_route(step, topic)
            _note_deleted(step, topic, route.missing_since)
    elif route.lost and not route.missing_since and route.asked - route.changed_at >= GONE_AFTER:
        gone = [mq for mq in route.lost if _is_unlisted(step, mq)]
        route.lost = tuple(mq for mq in route.lost if mq not in gone)
        _end(step, gone, "QUEUE_REMOVED")


def note_subscriptions(step: GroupStep) -> None:
    """Record which topics the members subscribe, and end the queues of those that they have left."""
    state = step.state
    topics = _subscribed(step)
    if topics and topics != set(state.subscribed):
        for topic in sorted(set(state.subscribed) - topics):
            state.left[topic] = step.now
            step.schedule_check(step.now + GONE_AFTER)
        _return(step, topics - set(state.subscribed))
        state.subscribed = tuple(sorted(topics))
        state.without_route = {topic: since for topic, since in state.without_route.items() if topic in topics}
        state.deleted = tuple(topic for topic in state.deleted if topic in topics)
    if state.left or (state.subscribed and not state.members):
        _end_left(step)


def end_unread(step: GroupStep, queues: list[MessageQueue]) -> None:
    """End queues that no client reads, though the group's clients read others of their topic; by hooks alone."""
    _end(step, queues, "NOT_READ")


def note_broker_gone(step: GroupStep, broker: str) -> None:
    """End the queues of a broker that the cluster no longer has."""
    _end(step, [mq for mq, queue in step.state.queues.items() if mq.broker == broker], "BROKER_GONE")
    for route in step.state.routes.values():
        route.lost = tuple(mq for mq in route.lost if mq.broker != broker)


def return_queue(step: GroupStep, mq: MessageQueue, queue: QueueState) -> None:
    """Take back that a queue has ended, unless its topic is still left: a route or its broker lists it."""
    if queue.ended is not None and queue.ended.why != "NOT_SUBSCRIBED":
        _take_back(step, mq, queue)
        step.changed("ENDED")


def waiting(queue: QueueState) -> int | None:
    """Return how many messages wait at least, by the broker's last answer or its hook; None: unknown.

    What an owner had received by then it has consumed by now, or committed as it gave the queue up, unless it hung.
    Of a topic that was left, those that were there then: what is sent later is for others. A broker reports such a
    topic only while the group has no members.
    """
    hook_view, lag = queue.hook_view, queue.lag
    if lag is not None and queue.ended is not None and queue.ended.why == "NOT_SUBSCRIBED":
        lag = max(0, lag - _sent_since(queue, queue.ended))
    was_read = queue.owner is not None or (queue.released_at or 0) > queue.stats_at
    if was_read and not queue.stalled_ms and queue.pull_offset >= (queue.broker_offset or 0):
        lag = 0  # its owner had received all that the last answer shows, and was consuming it
    if hook_view is None or hook_view.commit_offset < 0 or hook_view.pull_offset < 0:
        return lag
    in_flight = hook_view.pull_offset - hook_view.commit_offset
    return max(lag or 0, in_flight) if in_flight > 0 else lag


def _sent_since(queue: QueueState, ended: Ended) -> int:
    if queue.broker_offset is None or ended.newest_offset is None:
        return 0
    return max(0, queue.broker_offset - ended.newest_offset)


def _note_deleted(step: GroupStep, topic: str, since: int) -> None:
    """Record that members still subscribe a topic that was deleted."""
    state = step.state
    if topic in state.subscribed:
        state.without_route[topic] = since
        state.deleted = (*state.deleted, topic)
        step.changed("ROUTES")


def _subscribed(step: GroupStep) -> set[str]:
    """Return the topics that any member subscribes, by the brokers' tables and by what members have reported."""
    state = step.state
    if not state.members:
        return set()
    topics = {topic for view in state.views.values() if not view.failing for topic in view.info.subscription_table}
    for interests in step.facts.interests.values():
        topics.update(interests)
    return {topic for topic in topics if not topic.startswith(_IMPLICIT)}


def _end_left(step: GroupStep) -> None:
    """End the queues of topics that the members have left, and forget such topics that have no queue any more."""
    state = step.state
    is_unattended = not (state.members or step.facts.is_consumed_unlisted or proxied.is_listed(state))
    gone, never, kept = [], [], set()
    for mq, queue in state.queues.items():
        left = state.left.get(mq.topic)
        if left is not None:
            kept.add(mq.topic)
        if queue.ended is not None or queue.owner is not None or mq.topic.startswith(_IMPLICIT):
            continue
        if left is not None and step.now - left >= GONE_AFTER:
            gone.append(mq)
        elif left is None and is_unattended and state.subscribed and mq.topic not in state.subscribed:
            never.append(mq)
    if len(kept) < len(state.left):
        state.left = {topic: since for topic, since in state.left.items() if topic in kept}
    _end(step, gone, "NOT_SUBSCRIBED")
    _end(step, never, "NOT_SUBSCRIBED", since=0)
    for topic in dict.fromkeys(mq.topic for mq in gone) if state.members else ():
        _forget_route(step, topic)


def _return(step: GroupStep, topics: set[str]) -> None:
    """Take back that topics were left, or were not consumed before.

    Members with different topics overwrite the broker's table in turn: one that is missing until the next heartbeat of
    those who subscribe it, as an answer shows it, was not left.
    """
    long_ago = step.now - step.policy.heartbeat_broker_interval - step.policy.poll_interval
    left = {topic: since for topic in sorted(topics) if (since := step.state.left.pop(topic, None)) is not None}
    for mq, queue in step.state.queues.items():
        if mq.topic not in topics:
            continue
        was_away = left.get(mq.topic, step.now) < long_ago
        if queue.ended.why == "NOT_SUBSCRIBED" if queue.ended is not None else was_away:
            _take_back(step, mq, queue)


def _take_back(step: GroupStep, mq: MessageQueue, queue: QueueState) -> None:
    """Take back that a queue has ended, or was about to: what waits in it has waited for a client since now only."""
    queue.ended, queue.returned_at, queue.stalled_ms = None, step.now, 0
    step.queues_to_judge[mq] = None


def _is_unlisted(step: GroupStep, mq: MessageQueue) -> bool:
    """Return whether the queue's broker has long left it out of its offsets, and refuses no pulls of it."""
    view, queue = step.state.views.get(mq.broker), step.state.queues.get(mq)
    if view is None or queue is None or view.unreadable_offsets:
        return False
    error = queue.hook_view.pull_error if queue.hook_view is not None else None
    if error is not None and step.now <= error.over_at:
        return False
    return bool(view.stats_asked) and view.stats_asked - queue.stats_at >= GONE_AFTER


def _end(step: GroupStep, gone: list[MessageQueue], why: EndedBy, since: int | None = None) -> None:
    for mq in gone:
        queue = step.queue(mq)
        queue.ended = Ended(step.now if since is None else since, why, queue.broker_offset)
        step.queues_to_judge[mq] = None
        step.changed("ENDED")


def _forget_route(step: GroupStep, topic: str) -> None:
    """Forget the route of a topic that has ended for the group; what comes back is new."""
    state: GroupState = step.state
    route: Route | None = state.routes.pop(topic, None)
    if route is None:
        return
    for mq in route.queues:
        step.queue(mq).in_route = False
    expect(step)
