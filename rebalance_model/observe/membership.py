"""Who is a member, from brokers' answers (GET_CONSUMER_CONNECTION_LIST); and which queues there are (TOPIC_ROUTE)."""

from collections import Counter

from rebalance_model.broker.consumer_group_info import ClientChannelInfo, ConsumerGroupInfo
from rebalance_model.broker.subscription import SubscriptionData
from rebalance_model.entities import java_order, queue_order
from rebalance_model.observe import ownership, rebalances
from rebalance_model.observe.events import ConsumerConnection, TopicRoute
from rebalance_model.observe.expectation import expect
from rebalance_model.observe.state import BrokerView, ClientView, Route
from rebalance_model.observe.turn import Turn


def fold_connections(turn: Turn, event: ConsumerConnection) -> None:
    """Replace the broker's view by its answer, and follow up on who joined and who left."""
    state = turn.state
    view = state.views.get(event.broker)
    if view is not None and event.asked < view.asked:
        return
    if event.error is not None:
        if view is not None:
            view.failing = True
        return
    first_sight = not any(view.asked for view in state.views.values())
    info = _group_info(event)
    state.views[event.broker] = BrokerView(info, event.asked)
    if view is not None and info.channel_info_table != view.info.channel_info_table:
        _tell_connections(turn, view.info, info)
    _follow_members(turn, event.asked, first_sight=first_sight)


def fold_route(turn: Turn, event: TopicRoute) -> None:
    """Take the topic's read queues; another set than before is a cause to rebalance."""
    state = turn.state
    known = state.routes.get(event.topic)
    if event.queues is None or (known is not None and event.asked < known.asked):
        return
    if known is not None and event.queues == known.queues:  # as the collector sends them: nothing to sort
        known.asked = event.asked
        return
    queues = tuple(sorted(event.queues, key=queue_order))
    state.routes[event.topic] = Route(queues, event.asked)
    if known is None:
        expect(turn)
    elif known.queues != queues:
        rebalances.open_or_extend(turn, "ROUTE_CHANGED", event.topic, client_id=None)
        expect(turn)


def _group_info(event: ConsumerConnection) -> ConsumerGroupInfo:
    return ConsumerGroupInfo(
        channel_info_table={
            c.channel: ClientChannelInfo(c.channel, c.client_id, c.language, c.version) for c in event.connections or ()
        },
        subscription_table={
            s.topic: SubscriptionData(s.topic, s.sub_string, s.expression_type, s.sub_version)
            for s in event.subscriptions
        },
        consume_type=event.consume_type,
        message_model=event.message_model,
        consume_from_where=event.consume_from_where,
    )


def _follow_members(turn: Turn, asked: int, *, first_sight: bool) -> None:
    state = turn.state
    before = state.members
    ids = {client_id for view in state.views.values() for client_id in view.info.client_ids()}
    for client_id, client in list(state.clients.items()):
        if client_id not in ids and client_id not in before and client.asked < asked:
            del state.clients[client_id]  # answered once, and the broker has said since that it is no member
    members = tuple(sorted(ids, key=java_order))
    if members == before:
        return
    joined = [c for c in members if c not in before]
    left = [c for c in before if c not in ids]
    if not first_sight:
        _tell_causes(turn, joined, left)
    state.members = members
    for client_id in joined:
        if client_id not in state.clients:
            state.clients[client_id] = ClientView(asked=0, answered=0, discovered=first_sight)
    expect(turn)
    for client_id in left:
        ownership.void(turn, client_id, evidence="LEFT")
        del state.clients[client_id]
    for client_id in joined:  # an answer may have come before the broker's list that names the client
        ownership.reconsider(turn, state.clients[client_id].queues, evidence="ANSWER")


def _tell_connections(turn: Turn, before: ConsumerGroupInfo, now: ConsumerGroupInfo) -> None:
    """One client id on two channels is a member twice, to RocketMQ: a channel more or less changes every share.

    So it is with a client that thaws: it comes back on a new channel, and until the broker drops the old one (120 to
    130 s) the strategy leaves queues to nobody.
    """
    counted, counts = Counter(before.client_ids()), Counter(now.client_ids())
    for client_id in sorted(counted.keys() & counts.keys(), key=java_order):
        if counted[client_id] != counts[client_id]:
            rebalances.open_or_extend(turn, "CONNECTIONS_CHANGED", client_id, client_id=client_id)
            expect(turn)


def _tell_causes(turn: Turn, joined: list[str], left: list[str]) -> None:
    for client_id in left:
        client = turn.state.clients.get(client_id)
        died = client is not None and client.silent
        rebalances.open_or_extend(turn, "CLIENT_DIED" if died else "CLIENT_LEFT", client_id, client_id=client_id)
    for client_id in joined:
        rebalances.open_or_extend(turn, "CLIENT_JOINED", client_id, client_id=client_id)
