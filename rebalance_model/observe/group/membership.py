"""Who is a member: of one broker's view, and of all; and which queues there are (TOPIC_ROUTE)."""

from collections import Counter
from collections.abc import Collection

from rebalance_model.broker.consumer_group_info import ClientChannelInfo, ConsumerGroupInfo
from rebalance_model.entities import RETRY_TOPIC_PREFIX, MessageQueue, java_order, queue_order
from rebalance_model.observe.events import ConsumerConnection, TopicRoute
from rebalance_model.observe.group import causes, corrections, ownership, rebalances
from rebalance_model.observe.group.expectation import Basis, basis, expect, group_info
from rebalance_model.observe.hooks.broker_view import CHANNEL_TIMEOUT, UNNAMED, subscription_table
from rebalance_model.observe.polls import rounds
from rebalance_model.observe.state import UNANSWERED_POLLS, BrokerView, ClientView, GroupState, Route, Unowned
from rebalance_model.observe.turn import Turn


class Before:
    """The members before a change of one broker's view, to compare with after."""

    def __init__(self, state: GroupState, broker: str, *, by: str | None = None) -> None:
        self.broker = broker
        self.by = by
        """Whose call changes the view, where that is known."""
        view = state.views.get(broker)
        self.ids = view.info.client_ids() if view is not None else None
        self.channels = set(view.info.channel_info_table) if view is not None else set()
        self.topics = _topics(view) if view is not None else set()
        self.heard = _last_heartbeats(view) if view is not None and view.hook is not None else {}
        """When each client last heartbeated, by the broker's hook."""
        self.basis: Basis = basis(state)

    def lacks(self, channel: str, client_id: str) -> bool:
        """Whether the client was not on that channel, nor on one that had no name yet."""
        return not channel.startswith(UNNAMED) and self.channels.isdisjoint((channel, UNNAMED + client_id))


def fold_connections(turn: Turn, event: ConsumerConnection) -> None:
    """Take a broker's answer (GET_CONSUMER_CONNECTION_LIST): as its view, or to check the one that its hook tells."""
    state = turn.state
    view = state.views.get(event.broker)
    if view is not None and event.asked < view.asked:
        return
    if event.error is not None:
        if view is not None:
            _note_silence(turn, view, event)
        if view is not None and not view.failing:
            before = Before(state, event.broker)
            view.failing = True
            _expect_anew(turn, before)
        return
    polled = _group_info(event)
    listed_before = (view.asked, view.info.channel_info_table.keys()) if view and not view.hook else (0, ())
    if view is not None and view.unanswered:
        if view.unanswered >= UNANSWERED_POLLS:
            view.back_at = turn.now
        view.unanswered = 0
        turn.brokers_to_judge[event.broker] = None
    if view is None or view.failing or polled != view.info:
        _take_answer(turn, event, polled, view)
    else:
        view.asked = event.asked
    _note_doubles(turn, state.views[event.broker], event, *listed_before)
    _forget_strangers(turn, event.asked)


def _take_answer(turn: Turn, event: ConsumerConnection, polled: ConsumerGroupInfo, view: BrokerView | None) -> None:
    state = turn.state
    before = Before(state, event.broker)
    first_sight = not any(view.asked or view.hook for view in state.views.values())
    if view is None:
        view = state.views[event.broker] = BrokerView(polled, event.asked)
    elif view.hook is not None and not corrections.is_gone(turn, view.hook):
        corrections.check(turn, view, view.hook, polled, event.asked)
    else:
        corrections.take_over(turn, view, polled)
        listed = {info.client_id for info in polled.channel_info_table.values()}
        view.awaited = {c: until for c, until in view.awaited.items() if c not in listed}
    view.asked, view.failing = event.asked, False
    follow(turn, before, first_sight=first_sight)


def _note_silence(turn: Turn, view: BrokerView, event: ConsumerConnection) -> None:
    """Nothing came from the broker, or an error of its own: then it is there."""
    if event.error is not None and event.error.is_silence:
        view.unanswered_since = view.unanswered_since if view.unanswered else event.asked
        view.unanswered += 1
    else:
        view.unanswered = 0
    turn.brokers_to_judge[event.broker] = None


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
        state.routes[event.topic] = Route(queues, event.asked, known.queues, turn.now)
        turn.group_to_judge = True
        code, subject = _route_cause(state, event.topic, set(known.queues), set(queues))
        rebalances.open_or_extend(turn, code, subject, client_id=None)
        expect(turn)
    _tell_of_route(turn, queues, known)


def _tell_of_route(turn: Turn, queues: tuple[MessageQueue, ...], known: Route | None) -> None:
    """Say of each queue whether the route has it."""
    for mq in known.queues if known is not None else ():
        turn.state.queues[mq].in_route = False
    for mq in queues:
        queue = turn.queue(mq)
        queue.in_route = True
        if known is not None and queue.owner is None and mq not in known.queues:
            queue.unowned = Unowned(turn.now, "NEW", heir=queue.expected)


def follow(turn: Turn, before: Before, *, first_sight: bool) -> None:
    """Follow up on a change of one broker's view: who joined, who left, and what that changes.

    Args:
        turn: the turn.
        before: what held before the change.
        first_sight: observation begins: members were there before, nobody joins.
    """
    state = turn.state
    if not state.causes_since:
        causes.begin(state, turn.now)
    _tell_connections(turn, before)
    if not first_sight:
        _tell_subscriptions(turn, before)
    _expect_anew(turn, before)
    ids = {client_id for view in state.views.values() for client_id in _client_ids(view)}
    members = tuple(sorted(ids, key=java_order))
    if members == state.members:
        return
    joined = [c for c in members if c not in state.members]
    left = [c for c in state.members if c not in ids]
    if not first_sight:
        _tell_causes(turn, before, joined, left)
    if not state.members:
        state.manned_since = turn.now
    state.unmanned_since = turn.now if not members else 0
    state.members = members
    turn.group_to_judge = True
    turn.clients_to_judge |= dict.fromkeys((*joined, *left))
    for client_id in joined:
        if client_id not in state.clients:
            state.clients[client_id] = ClientView(asked=0, answered=0, discovered=first_sight)
    expect(turn)
    for client_id in left:
        ownership.void(turn, client_id, evidence="LEFT")
        del state.clients[client_id]
    rounds.recount(state)
    for client_id in joined:  # what holds a queue for the client may have come before the list that names it
        ownership.reconsider(turn, ownership.known_of(state, client_id), evidence="ANSWER")


def _client_ids(view: BrokerView) -> Collection[str]:
    ids = {info.client_id for info in view.info.channel_info_table.values()}
    ids |= view.awaited.keys()
    return ids if view.hook is None else ids | view.hook.returning.keys()


def _group_info(event: ConsumerConnection) -> ConsumerGroupInfo:
    return ConsumerGroupInfo(
        channel_info_table={
            c.channel: ClientChannelInfo(c.channel, c.client_id, c.language, c.version) for c in event.connections or ()
        },
        subscription_table=subscription_table(event.subscriptions),
        consume_type=event.consume_type,
        message_model=event.message_model,
        consume_from_where=event.consume_from_where,
    )


def _note_doubles(
    turn: Turn, view: BrokerView, event: ConsumerConnection, asked_before: int, listed_before: Collection[str]
) -> None:
    """Note since when each client that stands on several channels has stood on each: a dead one is gone after 130 s."""
    counts = Counter(c.client_id for c in event.connections or ())
    doubled: dict[str, dict[str, int]] = {}
    for c in event.connections or () if len(counts) < counts.total() else ():
        if counts[c.client_id] > 1:
            known = view.doubled.get(c.client_id, {})
            first = asked_before if c.channel in listed_before and asked_before else event.asked
            doubled.setdefault(c.client_id, {})[c.channel] = known.get(c.channel, first)
    turn.clients_to_judge |= dict.fromkeys((*view.doubled, *doubled))
    view.doubled = doubled


def _forget_strangers(turn: Turn, asked: int) -> None:
    """Who answered once, and is no member by what the broker has said since."""
    state = turn.state
    for client_id, client in list(state.clients.items()):
        if client_id not in state.members and client.asked < asked:
            del state.clients[client_id]


def _expect_anew(turn: Turn, before: Before) -> None:
    """What the strategy is given may change though the members, over all brokers, do not."""
    info = group_info(turn.state)
    if info is not None and info.message_model:
        turn.state.message_model = info.message_model
    if basis(turn.state) != before.basis:
        turn.group_to_judge = True
        expect(turn)


def _tell_connections(turn: Turn, before: Before) -> None:
    """One client id on two channels is a member twice, to RocketMQ: a channel more or less changes every share.

    So it is with a client that thaws: it comes back on a new channel, and until the broker drops the old one (120 to
    130 s) the strategy leaves queues to nobody.
    """
    if before.ids is None:
        return
    table = turn.state.views[before.broker].info.channel_info_table
    if before.channels == table.keys():
        return
    turn.group_to_judge = True
    counted, counts = Counter(before.ids), Counter(info.client_id for info in table.values())
    opened = {info.client_id for channel, info in table.items() if before.lacks(channel, info.client_id)}
    for client_id in sorted(counted.keys() & counts.keys(), key=java_order):
        if counted[client_id] != counts[client_id] or client_id in opened:
            rebalances.open_or_extend(turn, "CONNECTIONS_CHANGED", client_id, client_id=client_id)


def _tell_subscriptions(turn: Turn, before: Before) -> None:
    """A topic that comes or goes though the members stay; what a joining client brings along is no cause of its own."""
    view = turn.state.views[before.broker]
    topics = _topics(view)
    if topics == before.topics or before.ids != view.info.client_ids():
        return
    for sign, changed in (("+", topics - before.topics), ("-", before.topics - topics)):
        for topic in sorted(changed):
            rebalances.open_or_extend(turn, "SUBSCRIPTION_CHANGED", f"{sign}{topic}", client_id=before.by)


def _topics(view: BrokerView) -> set[str]:
    return {topic for topic in view.info.subscription_table if not topic.startswith(RETRY_TOPIC_PREFIX)}


def _route_cause(
    state: GroupState, topic: str, former: set[MessageQueue], queues: set[MessageQueue]
) -> tuple[str, str]:
    """Whether the topic has other queues, or a broker is gone with all of its own, or is back with them."""
    had, has = {mq.broker for mq in former}, {mq.broker for mq in queues}
    if has < had and queues == {mq for mq in former if mq.broker in has}:
        return "BROKER_LOST", ",".join(sorted(had - has))
    if had < has and former == {mq for mq in queues if mq.broker in had} and queues <= state.queues.keys():
        return "BROKER_BACK", ",".join(sorted(has - had))
    return "ROUTE_CHANGED", topic


def _tell_causes(turn: Turn, before: Before, joined: list[str], left: list[str]) -> None:
    for client_id in left:
        rebalances.open_or_extend(turn, _how_it_left(turn, before, client_id), client_id, client_id=client_id)
    for client_id in joined:
        rebalances.open_or_extend(turn, "CLIENT_JOINED", client_id, client_id=client_id)


def _how_it_left(turn: Turn, before: Before, client_id: str) -> str:
    """What was seen of a client's end; a code of `effects.RebalanceSettled.trigger`."""
    if any(view.hook is not None and client_id in view.hook.goodbyes for view in turn.state.views.values()):
        return "CLIENT_UNREGISTERED"
    heard = before.heard.get(client_id)
    if heard is None:
        return "CLIENT_LEFT"
    return "HEARTBEAT_EXPIRED" if turn.now - heard > CHANNEL_TIMEOUT else "CONNECTION_CLOSED"


def _last_heartbeats(view: BrokerView) -> dict[str, int]:
    heard: dict[str, int] = {}
    for info in view.info.channel_info_table.values():
        heard[info.client_id] = max(heard.get(info.client_id, 0), info.last_update_timestamp)
    return heard
