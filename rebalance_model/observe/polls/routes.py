"""Fold the queues of a topic (TOPIC_ROUTE)."""

from rebalance_model.entities import MessageQueue, queue_order
from rebalance_model.observe.events import TOPIC_NOT_EXIST, TopicRoute
from rebalance_model.observe.group import ended_queues, rebalances
from rebalance_model.observe.group.expectation import expect
from rebalance_model.observe.state import GroupState, Route, Unowned
from rebalance_model.observe.step import GroupStep


def fold_route(step: GroupStep, event: TopicRoute) -> None:
    """Process the topic's read queues; a change of the set is a cause to rebalance."""
    state = step.state
    known = state.routes.get(event.topic)
    if known is not None and event.asked < known.asked:
        return
    if event.queues is None:
        _note_missing(step, event, known)
        return
    if state.without_route.pop(event.topic, None):
        step.group_to_judge = True
    if known is not None and event.queues == known.queues:  # in the collector's order: already sorted
        known.asked, known.missing_since = event.asked, 0
        ended_queues.note_route(step, event.topic)
        return
    queues = tuple(sorted(event.queues, key=queue_order))
    state.routes[event.topic] = Route(queues, event.asked)
    if known is None:
        expect(step)
    elif known.queues != queues:
        lost = tuple(mq for mq in (*known.lost, *known.queues) if mq not in event.queues)
        state.routes[event.topic] = Route(queues, event.asked, known.queues, step.now, lost)
        step.group_to_judge = True
        code, subject = _route_cause(state, event.topic, set(known.queues), set(queues))
        rebalances.open_or_extend(step, code, subject, client_id=None)
        expect(step)
    _note_in_route(step, queues, known)


def _note_missing(step: GroupStep, event: TopicRoute, known: Route | None) -> None:
    """Process an answer without a route: only the name server's own answer that it has no such topic counts."""
    if event.error is None or event.error.code != TOPIC_NOT_EXIST:
        return
    if known is None:
        if event.topic in step.state.subscribed and event.topic not in step.state.without_route:
            step.state.without_route[event.topic] = event.asked
            step.group_to_judge = True
        return
    known.asked, known.missing_since = event.asked, known.missing_since or event.asked
    ended_queues.note_route(step, event.topic)


def _note_in_route(step: GroupStep, queues: tuple[MessageQueue, ...], known: Route | None) -> None:
    """Record for each queue whether the route has it."""
    former = set(known.queues) if known is not None else None
    for mq in known.queues if known is not None else ():
        step.state.queues[mq].in_route = False
    for mq in queues:
        queue = step.queue(mq)
        queue.in_route = True
        ended_queues.return_queue(step, mq, queue)
        if former is not None and queue.owner is None and mq not in former:
            queue.unowned = Unowned(step.now, "NEW", expected_owner=queue.expected)


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
