"""Fold the queues of a topic (TOPIC_ROUTE), and find out that such an answer is incomplete."""

from rebalance_model.entities import MessageQueue, queue_order
from rebalance_model.observe.events import TOPIC_NOT_EXIST, TopicRoute
from rebalance_model.observe.group import ended_queues, rebalances, route_views, skipped
from rebalance_model.observe.group.expectation import expect
from rebalance_model.observe.state import GroupState, Route, Unassigned
from rebalance_model.observe.step import GroupStep

AGREED_WITHIN = 45_000
"""The longest time that a name server may lack a queue that another one has: a broker registers with all of them every
30 s (BrokerConfig.registerNameServerPeriod), and the collector requests routes every poll interval. Milliseconds."""


def fold_route(step: GroupStep, event: TopicRoute) -> None:
    """Process the topic's read queues; a change of the set is a cause to rebalance."""
    state = step.state
    route = state.routes.get(event.topic)
    if route is not None and event.asked < route.asked:
        return
    if event.queues is None:
        step.changed("REPORT")
        _note_missing(step, event, route)
        return
    if state.without_route.pop(event.topic, None):
        state.deleted = tuple(topic for topic in state.deleted if topic != event.topic)
        step.changed("ROUTES")
    if route is not None and event.queues == route.queues:  # in the collector's order: already sorted
        route.asked, route.missing_since = event.asked, 0
        ended_queues.note_route(step, event.topic)
        return
    step.changed("REPORT")
    queues = tuple(sorted(event.queues, key=queue_order))
    state.routes[event.topic] = Route(queues, event.asked)
    if route is None:
        expect(step)
    elif route.queues != queues:
        lost = tuple(mq for mq in (*route.lost, *route.queues) if mq not in event.queues)
        state.routes[event.topic] = Route(queues, event.asked, route.queues, step.now, lost)
        step.changed("ROUTES")
        code, subject = _route_cause(state, event.topic, set(route.queues), set(queues))
        rebalances.open_or_extend(step, code, subject, client_id=None)
        expect(step)
    _note_in_route(step, queues, route)


def note_beyond(step: GroupStep) -> None:
    """Record the queues that the collector's route lacks, after every member was asked: they have no expected owner.

    Its name server omits a queue, as if the topic had lost it. But the queue's broker reports it, and members have it
    for longer than name servers may differ, while none divides the queues of that route.
    """
    state, changed = step.state, False
    topics = {mq.topic for mq, queue in state.queues.items() if not (queue.in_route or mq.is_retry)}
    topics |= {topic for topic, route in state.routes.items() if route.beyond}
    by_topic, _ = route_views.held_by_members(step, topics) if topics else ({}, None)
    for topic in sorted(topics & state.routes.keys()):
        route = state.routes[topic]
        beyond = _beyond(step, topic, route, by_topic.get(topic, {}))
        if beyond == route.beyond:
            continue
        for mq in (*route.beyond, *beyond):
            step.queue(mq).in_route = mq in beyond
        route.beyond, changed = beyond, True
    if changed:
        step.changed("ROUTES")
        expect(step)


def _beyond(step: GroupStep, topic: str, route: Route, by_member: route_views.Held) -> tuple[MessageQueue, ...]:
    """Return the queues that the route lacks; empty if it is complete, or that is not certain."""
    listed = route_views.listed_beyond(step, topic, route)
    if not listed or not route.queues or step.now - route.changed_at <= AGREED_WITHIN:
        return ()
    whole = tuple(sorted((*route.queues, *listed), key=queue_order))
    read = {mq for mq in listed for member, has in by_member.items() if mq in has and _has_long(step, member, mq)}
    if route.beyond:
        return listed if read or route_views.followers(step, whole, route.queues, by_member) else ()
    return listed if read and not route_views.followers(step, route.queues, whole, by_member) else ()


def _has_long(step: GroupStep, member: str, mq: MessageQueue) -> bool:
    client = step.state.clients[member].queues.get(mq)
    return client is not None and step.now - client.claimed_since > AGREED_WITHIN


def _note_missing(step: GroupStep, event: TopicRoute, route: Route | None) -> None:
    """Process an answer without a route: only the name server's own answer that it has no such topic counts."""
    if event.error is None or event.error.code != TOPIC_NOT_EXIST:
        return
    if route is None:
        if event.topic in step.state.subscribed and not step.state.without_route.get(event.topic):  # 0: older state
            step.state.without_route[event.topic] = event.asked
            step.changed("ROUTES")
        return
    route.asked, route.missing_since = event.asked, route.missing_since or event.asked
    ended_queues.note_route(step, event.topic)


def _note_in_route(step: GroupStep, queues: tuple[MessageQueue, ...], former_route: Route | None) -> None:
    """Record for each queue whether the route has it."""
    former = set(former_route.queues) if former_route is not None else None
    for mq in (*former_route.queues, *former_route.beyond) if former_route is not None else ():
        step.state.queues[mq].in_route = False
    for mq in queues:
        queue = step.queue(mq)
        queue.in_route = True
        ended_queues.return_queue(step, mq, queue)
        if former is None or mq in former:
            continue
        skipped.note_new(step, mq)
        if queue.owner is None:
            queue.unassigned = Unassigned(step.now, "NEW", expected_owner=queue.expected_owner)


def _route_cause(
    state: GroupState, topic: str, former: set[MessageQueue], queues: set[MessageQueue]
) -> tuple[str, str]:
    """Return the cause: the topic has other queues, or a broker with all its queues has disappeared or returned."""
    had, has = {mq.broker for mq in former}, {mq.broker for mq in queues}
    if has and has < had and queues == {mq for mq in former if mq.broker in has}:
        return "BROKER_LOST", ",".join(sorted(had - has))
    if had < has and former == {mq for mq in queues if mq.broker in had} and queues <= state.queues.keys():
        return "BROKER_BACK", ",".join(sorted(has - had))
    return "ROUTE_CHANGED", topic
