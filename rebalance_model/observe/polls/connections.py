"""Fold a broker's list of members (GET_CONSUMER_CONNECTION_LIST): its view, or a check of the view by its hook."""

from collections import Counter
from collections.abc import Collection

from rebalance_model.broker.consumer_group_info import ClientChannelInfo, ConsumerGroupInfo
from rebalance_model.observe.events import UNREADABLE, ConsumerConnection
from rebalance_model.observe.group import ownership, refused_heartbeats
from rebalance_model.observe.group.membership import Before, expect_again, follow
from rebalance_model.observe.group.subscriptions import subscription_table
from rebalance_model.observe.polls import corrections
from rebalance_model.observe.state import UNANSWERED_POLLS, BrokerView
from rebalance_model.observe.step import GroupStep


def fold_connections(step: GroupStep, event: ConsumerConnection) -> None:
    """Use a broker's answer (GET_CONSUMER_CONNECTION_LIST) as its view, or to check the view built from its hook."""
    state = step.state
    view = state.views.get(event.broker)
    if view is not None and event.asked < view.asked:
        return
    if event.error is not None:
        step.changed("REPORT")
        if view is not None:
            _note_silence(step, view, event)
            _note_unreadable(step, view, (event.error.remark,) if event.error.code == UNREADABLE else ())
        if view is not None and not view.failing:
            before = Before(state, event.broker)
            view.failing = True
            expect_again(step, before)
        return
    polled = _group_info(event)
    if event.incomplete and view is not None:  # a member whose row can't be read may be listed all the same
        polled.channel_info_table = view.info.channel_info_table | polled.channel_info_table
    listed_before = (view.asked, view.info.channel_info_table.keys()) if view and not view.hook else (0, ())
    if view is not None and view.unanswered:
        if view.unanswered >= UNANSWERED_POLLS:
            view.back_at = step.now
        view.unanswered = 0
        step.brokers_to_judge[event.broker] = None
    if event.is_created is False and view is not None and view.hook is not None:
        refused_heartbeats.note_skipped(view.hook, view, event.asked)
    if view is None or view.failing or polled != view.info:
        step.changed("REPORT")
        _take_answer(step, event, polled, view)
    else:
        view.asked = event.asked
    _note_created(step, state.views[event.broker], event)
    state.views[event.broker].is_fifo = event.consume_message_orderly
    _note_unreadable(step, state.views[event.broker], event.unreadable)
    _note_doubles(step, state.views[event.broker], event, *listed_before)
    _remove_former_members(step, event.asked)


def _take_answer(
    step: GroupStep, event: ConsumerConnection, polled: ConsumerGroupInfo, view: BrokerView | None
) -> None:
    state = step.state
    before, table = Before(state, event.broker), dict(view.info.subscription_table) if view is not None else None
    first_sight = not any(view.asked or view.hook for view in state.views.values())
    if view is None:
        view = state.views[event.broker] = BrokerView(polled, event.asked)
    elif view.hook is not None and not corrections.is_gone(step, view.hook):
        if not corrections.is_of_other_replica(step, view, view.hook, event):
            corrections.check(step, view, view.hook, polled, event.asked)
    else:
        corrections.take_over(step, view, polled)
        listed = {info.client_id for info in polled.channel_info_table.values()}
        view.expected_back_until = {c: until for c, until in view.expected_back_until.items() if c not in listed}
    view.asked, view.failing = event.asked, False
    if view.info.subscription_table != table or state.unsettled or state.left:  # it may change with the same topics
        step.changed("SUBSCRIPTIONS")
    follow(step, before, first_sight=first_sight)


def _note_silence(step: GroupStep, view: BrokerView, event: ConsumerConnection) -> None:
    """Record a missing answer, or an error code from the broker, which shows that it is reachable."""
    if event.error is not None and event.error.is_silence:
        view.unanswered_since = view.unanswered_since if view.unanswered else event.asked
        view.unanswered += 1
    else:
        view.unanswered = 0
    step.brokers_to_judge[event.broker] = None


def _note_created(step: GroupStep, view: BrokerView, event: ConsumerConnection) -> None:
    """Record that the broker lacks the group, where each member's heartbeats are lost; one that it lists shows it."""
    former = view.not_created
    if event.is_created is False:
        view.not_created = former[0] if former is not None else event.asked, event.asked
    elif event.connections:
        view.not_created = None
    if former != view.not_created:
        step.clients_to_judge |= dict.fromkeys(step.state.members)


def _note_unreadable(step: GroupStep, view: BrokerView, unreadable: tuple[str, ...]) -> None:
    if view.unreadable != unreadable:
        step.changed("REPORT")
    view.unreadable = unreadable


def _group_info(event: ConsumerConnection) -> ConsumerGroupInfo:
    return ConsumerGroupInfo(
        channel_info_table={
            (channel := c.channel or c.client_id): ClientChannelInfo(channel, c.client_id, c.language, c.version)
            for c in event.connections or ()
        },
        subscription_table=subscription_table(event.subscriptions),
        consume_type=event.consume_type,
        message_model=event.message_model,
        consume_from_where=event.consume_from_where,
    )


def _note_doubles(
    step: GroupStep, view: BrokerView, event: ConsumerConnection, asked_before: int, listed_before: Collection[str]
) -> None:
    """Record since when each client with several channels is listed on each of them: a dead one is gone after 130 s."""
    listed = [c.client_id for c in event.connections or ()]
    if len(set(listed)) == len(listed) and not view.doubled:
        return
    counts, doubled = Counter(listed), dict[str, dict[str, int]]()
    for c in event.connections or ():
        if counts[c.client_id] > 1:
            known = view.doubled.get(c.client_id, {})
            first = asked_before if c.channel in listed_before and asked_before else event.asked
            doubled.setdefault(c.client_id, {})[c.channel] = known.get(c.channel, first)
    step.clients_to_judge |= dict.fromkeys((*view.doubled, *doubled))
    view.doubled = doubled


def _remove_former_members(step: GroupStep, asked: int) -> None:
    """Remove clients that answered once, and are no members by the broker's later lists."""
    state = step.state
    for client_id, client in list(state.clients.items()) if len(state.clients) > len(state.members) else ():
        if client_id not in step.facts.members and client.asked < asked:
            ownership.note_claims(state, client_id, client.queues, ())
            del state.clients[client_id]
            step.changed("REPORT")
