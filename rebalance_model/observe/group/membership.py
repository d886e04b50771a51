"""Determine the members, of one broker's view and of all."""

from collections import Counter

from rebalance_model.broker.consumer_group_info import ConsumerGroupInfo
from rebalance_model.entities import RETRY_TOPIC_PREFIX, java_order
from rebalance_model.observe.facts.group_facts import group_info
from rebalance_model.observe.group import causes, member_types, ownership, rebalances
from rebalance_model.observe.group.expectation import Basis, basis, expect
from rebalance_model.observe.group.ghost_connections import CHANNEL_EXPIRED, CHANNEL_TIMEOUT, UNNAMED
from rebalance_model.observe.state import BrokerView, ClientView, GroupState
from rebalance_model.observe.step import GroupStep

HEARD_FROM_ALL = 35_000
"""Every member sends a heartbeat within this time (heartbeatBrokerInterval is 30 s); milliseconds."""


class Before:
    """The members before a change of one broker's view, to compare with after."""

    def __init__(self, state: GroupState, broker: str, *, by: str | None = None) -> None:
        self.broker = broker
        self.by = by
        """The client whose call changes the view, if known."""
        view = state.views.get(broker)
        self.ids = view.info.client_ids() if view is not None else None
        self.channels = set(view.info.channel_info_table) if view is not None else set()
        self.topics = _topics(view) if view is not None else set()
        self.last_heartbeats = _last_heartbeats(view) if view is not None and view.hook is not None else {}
        """When each client last sent a heartbeat, by the broker's hook."""
        self.basis: Basis = basis(state)

    def lacks(self, channel: str, client_id: str) -> bool:
        """Return whether the client was neither on that channel nor on an unknown one."""
        return not channel.startswith(UNNAMED) and self.channels.isdisjoint((channel, UNNAMED + client_id))


def follow(step: GroupStep, before: Before, *, first_sight: bool) -> None:
    """Process the consequences of a change in one broker's view: who joined, who left, and what that changes.

    At ``first_sight`` observation begins: members are not new, and nobody joins.
    """
    state = step.state
    if not state.causes_since:
        causes.begin(state, step.now)
    _note_connections(step, before)
    if not first_sight:
        _note_subscriptions(step, before)
    expect_again(step, before)
    ids = {client_id for view in state.views.values() for client_id in view.listed()}
    members = tuple(sorted(ids, key=java_order))
    if members == state.members:
        return
    joined = [c for c in members if c not in step.facts.members]
    left = [c for c in state.members if c not in ids]
    if not first_sight:
        _note_causes(step, before, joined, left)
    if not state.members:
        state.members_since = step.now
    state.no_members_since = step.now if not members else 0
    state.members = members
    step.changed("MEMBERS")
    step.clients_to_judge |= dict.fromkeys((*joined, *left))
    _begin(state, joined, first_sight=first_sight)
    member_types.settle(state)
    expect(step)
    by_hook = ownership.held_by_hook(state)
    for client_id in left:
        ownership.clear_claims(step, client_id, by_hook, evidence="LEFT")
        del state.clients[client_id]
    step.changed("MEMBERS")
    recount_round(state)
    for client_id in joined:  # telemetry that shows it as a holder may have come before the list that names it
        ownership.reconsider(step, ownership.known_of(state, client_id, by_hook), evidence="ANSWER")


def _begin(state: GroupState, joined: list[str], *, first_sight: bool) -> None:
    """Begin with clients that have joined; what one popped before it had left does not count."""
    for client_id in joined:
        if client_id not in state.clients:
            state.clients[client_id] = ClientView(asked=0, answered=0, discovered=first_sight)
        if state.pops is not None and not first_sight:
            state.pops.poppers.pop(client_id, None)


def forget_broker(step: GroupStep, broker: str) -> None:
    """Forget the view of a broker that the cluster no longer has, with the members that it alone listed."""
    before, view = Before(step.state, broker), step.state.views[broker]
    view.info, view.hook, view.expected_back_until = ConsumerGroupInfo(), None, {}
    follow(step, before, first_sight=True)
    del step.state.views[broker]
    queues = [mq for mq in step.state.queues if mq.broker == broker]
    for mq in queues:
        step.queue(mq).hook_view = None
    step.changed("MEMBERS")
    ownership.reconsider(step, queues, evidence="GONE")
    expect(step)


def expect_again(step: GroupStep, before: Before) -> None:
    """Compute the expected owners again if the strategy's input has changed, even with the same members overall."""
    member_types.take_reported(step.state, group_info(step.state))
    if basis(step.state) != before.basis:
        step.changed("MEMBERS")
        expect(step)


def recount_round(state: GroupState) -> None:
    """Count again how many members have been asked in the present round of polls."""
    state.rounds.asked_count = sum([state.clients[member].asked > state.rounds.after for member in state.members])


def _note_connections(step: GroupStep, before: Before) -> None:
    """Record channels that were added or removed for a client id that stays a member.

    RocketMQ counts a client id on two channels as two members, so a channel more or less changes every share. This
    happens when a client thaws: it reconnects on a new channel, and until the broker drops the old one (120 to 130 s)
    the strategy assigns queues to no client.
    """
    if before.ids is None:
        return
    table = step.state.views[before.broker].info.channel_info_table
    if before.channels == table.keys():
        return
    step.changed("CHANNELS")
    counted, counts = Counter(before.ids), Counter(info.client_id for info in table.values())
    opened = {info.client_id for channel, info in table.items() if before.lacks(channel, info.client_id)}
    for client_id in sorted(counted.keys() & counts.keys(), key=java_order):
        if counted[client_id] != counts[client_id] or client_id in opened:
            rebalances.open_or_extend(step, "CONNECTIONS_CHANGED", client_id, client_id=client_id)


def _note_subscriptions(step: GroupStep, before: Before) -> None:
    """Record a topic that is added or removed while the members stay; a joining client's topics do not count."""
    view = step.state.views[before.broker]
    topics = _topics(view)
    if topics == before.topics or before.ids != view.info.client_ids():
        return
    for sign, changed in (("+", topics - before.topics), ("-", before.topics - topics)):
        for topic in sorted(changed):
            rebalances.open_or_extend(step, "SUBSCRIPTION_CHANGED", f"{sign}{topic}", client_id=before.by)


def _topics(view: BrokerView) -> set[str]:
    return {topic for topic in view.info.subscription_table if not topic.startswith(RETRY_TOPIC_PREFIX)}


def _note_causes(step: GroupStep, before: Before, joined: list[str], left: list[str]) -> None:
    for client_id in left:
        code, unseen = _departure_code(step, before, client_id), _is_unseen(step, before, client_id)
        rebalances.open_or_extend(step, code, client_id, client_id=client_id, unseen=unseen)
    for client_id in joined:
        rebalances.open_or_extend(step, "CLIENT_JOINED", client_id, client_id=client_id)


def _departure_code(step: GroupStep, before: Before, client_id: str) -> str:
    """Return how a client ended, as far as it was seen; a code of `effects.RebalanceSettled.trigger`."""
    if any(view.hook is not None and client_id in view.hook.recent_unregisters for view in step.state.views.values()):
        return "CLIENT_UNREGISTERED"
    last = before.last_heartbeats.get(client_id)
    if last is None:
        return "CLIENT_LEFT"
    return "HEARTBEAT_EXPIRED" if step.now - last > CHANNEL_TIMEOUT else "CONNECTION_CLOSED"


def _is_unseen(step: GroupStep, before: Before, client_id: str) -> bool:
    """Return whether only a client's silence shows that it is gone: its broker's scan must have dropped it by now.

    The broker tells the other members, who ask for its list at once. If nobody has, nobody is left who rebalances.
    """
    return step.now - before.last_heartbeats.get(client_id, step.now) > CHANNEL_EXPIRED


def _last_heartbeats(view: BrokerView) -> dict[str, int]:
    last_heartbeats: dict[str, int] = {}
    for info in view.info.channel_info_table.values():
        last_heartbeats[info.client_id] = max(last_heartbeats.get(info.client_id, 0), info.last_update_timestamp)
    return last_heartbeats
