"""Fold the calls that show who is a member: heartbeats, unregistrations, and requests of the members' list."""

from rebalance_model.broker.consumer_group_info import ClientChannelInfo, ConsumerData
from rebalance_model.broker.response_code import SUCCESS, SYSTEM_ERROR
from rebalance_model.observe.events import GetConsumerListByGroup, HeartBeat, UnregisterClient
from rebalance_model.observe.group import causes, member_types, ownership, refused_heartbeats, subscriptions
from rebalance_model.observe.group.channels import client_of_channel
from rebalance_model.observe.group.expectation import expect
from rebalance_model.observe.group.membership import Before, follow
from rebalance_model.observe.group.subscriptions import subscription_table
from rebalance_model.observe.hooks import broker_view, heartbeats, offset_queries
from rebalance_model.observe.state import BrokerView, HookView
from rebalance_model.observe.step import GroupStep


def fold_heartbeat(step: GroupStep, view: BrokerView, hook: HookView, event: HeartBeat) -> None:
    """Fold a heartbeat: its client is a member, with what it declares."""
    if event.code != SUCCESS or hook.skips_group:
        refused_heartbeats.note(hook, event.client_id, event.code, event.time)
        step.clients_to_judge[event.client_id] = None
        return
    if hook.refused_heartbeats.pop(event.client_id, None) is not None:
        hook.expired.pop(event.client_id, None)  # its heartbeats came, and were not taken
    if hook.expired or hook.seldom_heartbeats:
        heartbeats.note_returned(step, hook, event)
    before = Before(step.state, event.broker, by=event.client_id)
    client = ClientChannelInfo(event.channel, event.client_id, event.language, event.version, event.time)
    data = ConsumerData(
        group_name=event.group,
        consume_type=event.consume_type,
        message_model=event.message_model,
        consume_from_where=event.consume_from_where,
        subscription_data_set=tuple(subscription_table(event.subscriptions).values()),
    )
    broker_view.register(view, client, data, without_sub=event.without_sub)
    heartbeats.note(hook, event.client_id, event.channel, event.time, step.policy)
    hook.recent_unregisters.pop(event.client_id, None)
    hook.expected_back_until.pop(event.client_id, None)
    hook.client_by_channel.pop(event.channel, None)
    step.clients_to_judge[event.client_id] = None
    follow(step, before, first_sight=event.time < hook.complete_at)
    if member_types.note(step.state, event.client_id, event.consume_type, event.message_model):
        _note_type(step, event.client_id)
    if not event.without_sub:
        subscriptions.note_heartbeat(step, event.client_id, event.subscriptions)
    offset_queries.attribute(step, hook, event.channel, event.client_id)


def _note_type(step: GroupStep, client_id: str) -> None:
    """Judge again what depends on how a member consumes, after it declared that first, or changed it."""
    step.changed("DECLARED")
    expect(step)
    ownership.reconsider(step, ownership.known_of(step.state, client_id), evidence="ANSWER")


def fold_unregistration(step: GroupStep, view: BrokerView, hook: HookView, event: UnregisterClient) -> None:
    """Fold an unregistration: the client is no member at this broker any more."""
    if event.code != SUCCESS:
        return
    before = Before(step.state, event.broker)
    broker_view.unregister(view, event.group, event.channel, event.client_id)
    heartbeats.forget(hook, event.client_id, event.channel)
    hook.recent_unregisters[event.client_id] = event.time
    hook.expected_back_until.pop(event.client_id, None)
    follow(step, before, first_sight=False)


def fold_list(step: GroupStep, view: BrokerView, hook: HookView, event: GetConsumerListByGroup) -> None:
    """Fold the list of the members that the broker has returned to one of them."""
    if event.code not in (SUCCESS, SYSTEM_ERROR):  # SYSTEM_ERROR: the group has no members
        return
    ids = view.info.client_ids()
    if event.code == SUCCESS and ids and event.time >= hook.complete_at and sorted(event.consumer_ids) == sorted(ids):
        hook.skips_group = False
        heartbeats.note_listed(hook, ids, event.time)
        causes.note_list_request(step, hook, client_of_channel(view, hook, event.channel), event.time)
        return  # the usual case
    before = Before(step.state, event.broker)
    if event.code == SYSTEM_ERROR:
        heartbeats.note_empty_list(hook, view, event.channel, event.asked or event.time)
        step.clients_to_judge |= dict.fromkeys(hook.refused_heartbeats)
    else:
        hook.skips_group = False
    broker_view.take_list(view, event.consumer_ids, event.asked or event.time, event.time, hook.recent_unregisters)
    heartbeats.note_listed(hook, view.info.client_ids(), event.time)
    causes.note_list_request(step, hook, client_of_channel(view, hook, event.channel), event.time)
    first_sight = event.time < hook.complete_at
    hook.complete_at = min(hook.complete_at, event.time)
    follow(step, before, first_sight=first_sight)
