"""Fold lists of members (GET_CONSUMER_CONNECTION_LIST): a broker's view, a check of its hook's view, a proxy's clients.

Without a hook the answer is the broker's view. With one, it checks the view that the hook's events have built. Events
come in time order. So an answer that lacks a channel is right if the view got the last event of that channel before the
request was sent: the channel was closed, or dropped by the broker's scan, for which there is no event. It is removed at
once. Any other difference is unconfirmed at first: the answer may be older or younger than the last event. If the next
answer shows the same difference, without an event of it in between, the answer is right as well: a heartbeat or a
subscription was not reported. The view is corrected, and the group's next row lists the correction.

While a broker's master is away or has just changed, the answer may come from another replica than the hook's events
(`is_of_other_replica`): it is ignored then.

While a hook is silent or late, an answer replaces its view at once: no other information is available (`take_over`).
Then the corrections list only the channels of clients that are gone, not all that the hook has missed. Without that, a
client that is killed just after its broker has returned, before the hook's first event, would leave without a trace.

A proxy lists the clients that no broker lists. That is no broker's view: these clients divide no queues, cause no
rebalance, and hold no locks. A proxy that does not answer shows nothing: its last list stays, and counts for nothing
until it answers.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

from rebalance_model.broker.consumer_group_info import ClientChannelInfo, ConsumerGroupInfo
from rebalance_model.observe.events import UNREADABLE, ConsumerConnection, ProxyConnection
from rebalance_model.observe.facts.group_facts import group_info
from rebalance_model.observe.group import ghost_connections, ownership, proxied
from rebalance_model.observe.group.ghost_connections import name_channel, subscription_table
from rebalance_model.observe.group.membership import Before, expect_again, follow
from rebalance_model.observe.state import UNANSWERED_POLLS, BrokerView, HookView, ListedClient, ProxyView
from rebalance_model.observe.step import GroupStep

TICKS_WITHIN = 2_000
"""A hook ticks every second: without a tick for this long it is gone or late; milliseconds."""
IN_FLIGHT = 1_000
"""A broker's call is reported at most this much later: an answer requested after that includes it; milliseconds."""


class Difference(NamedTuple):
    """One difference between an answer and the view."""

    kind: Literal["CHANNEL_CLOSED", "CHANNEL_MISSED", "SUBSCRIPTION_GONE", "SUBSCRIPTION_MISSED"]
    name: str
    """The channel, or the topic."""
    detail: str
    """The client, or the expression."""
    since: int
    """The stamp of the view's entry: a later event makes it another difference."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.detail}".rstrip()


def is_gone(step: GroupStep, hook: HookView) -> bool:
    """Return whether the hook is silent though its broker answers; just after a tick the broker may be stopping."""
    silence = step.state.silent.get(hook.source)
    return silence is not None and step.now - silence.since > TICKS_WITHIN


def is_of_other_replica(step: GroupStep, view: BrokerView, hook: HookView, event: ConsumerConnection) -> bool:
    """Return whether an answer comes from another replica of the broker than the hook's events.

    The ids differ, and the two share no channel, since clients have a connection of their own to each replica. (Under a
    controller the ids differ always: the name server lists each master as 0.)
    """
    sources = step.cluster.sources
    replica = f"{event.broker}:{event.broker_id}" if event.broker_id else event.broker
    if sources.get(replica) == hook.source or hook.source not in sources.values():
        return False
    return view.info.channel_info_table.keys().isdisjoint(one.channel for one in event.connections or ())


def check(step: GroupStep, view: BrokerView, hook: HookView, polled: ConsumerGroupInfo, asked: int) -> None:
    """Compare the view with an answer; correct what it proves, or what two consecutive answers show differently."""
    for info in polled.channel_info_table.values():
        name_channel(view, info.client_id, info.channel)
    seen = [*_channels(view.info, polled), *_subscriptions(view.info, polled)]
    unconfirmed = set(hook.unconfirmed_differences)
    for difference in seen:
        closed = difference.kind == "CHANNEL_CLOSED" and difference.since < asked - IN_FLIGHT
        if closed or f"{difference} {difference.since}" in unconfirmed:
            _correct(view.info, polled, difference, step.now)
            step.correct(str(difference))
    hook.unconfirmed_differences = tuple(f"{difference} {difference.since}" for difference in seen)
    if not view.info.channel_info_table:
        view.info = ConsumerGroupInfo()


def take_over(step: GroupStep, view: BrokerView, polled: ConsumerGroupInfo) -> None:
    """Replace the view of a silent or late hook by an answer, and record which clients are removed by it."""
    listed = set(polled.client_ids())
    for channel, info in view.info.channel_info_table.items():
        if view.hook is not None and info.client_id not in listed:
            step.correct(str(Difference("CHANNEL_CLOSED", channel, info.client_id, info.last_update_timestamp)))
    view.info, view.hook = polled, None  # when the hook reports again, its view is rebuilt


def _channels(ours: ConsumerGroupInfo, polled: ConsumerGroupInfo) -> Iterator[Difference]:
    theirs = polled.channel_info_table
    for channel, info in ours.channel_info_table.items():
        if channel not in theirs or theirs[channel].client_id != info.client_id:
            yield Difference("CHANNEL_CLOSED", channel, info.client_id, info.last_update_timestamp)
    for channel, info in theirs.items():
        if channel not in ours.channel_info_table:
            yield Difference("CHANNEL_MISSED", channel, info.client_id, 0)


def _subscriptions(ours: ConsumerGroupInfo, polled: ConsumerGroupInfo) -> Iterator[Difference]:
    if not (ours.channel_info_table and polled.channel_info_table):
        return  # without members there is no table to compare
    for topic in sorted(ours.subscription_table.keys() - polled.subscription_table.keys()):
        yield Difference("SUBSCRIPTION_GONE", topic, "", ours.last_update_timestamp)
    for topic, subscription in polled.subscription_table.items():
        known = ours.subscription_table.get(topic)
        if known != subscription:
            yield Difference("SUBSCRIPTION_MISSED", topic, subscription.sub_string, known.sub_version if known else 0)


def _correct(ours: ConsumerGroupInfo, polled: ConsumerGroupInfo, difference: Difference, now: int) -> None:
    name = difference.name
    if difference.kind == "CHANNEL_CLOSED":
        del ours.channel_info_table[name]
    elif difference.kind == "SUBSCRIPTION_GONE":
        ours.subscription_table.pop(name, None)
    elif difference.kind == "SUBSCRIPTION_MISSED":
        ours.subscription_table[name] = polled.subscription_table[name]
    else:
        info = polled.channel_info_table[name]
        ours.channel_info_table[name] = ClientChannelInfo(name, info.client_id, info.language, info.version, now)
        if len(ours.channel_info_table) == 1:  # the first known member: no other has reported the group's configuration
            ours.subscription_table = dict(polled.subscription_table)
            ours.consume_type, ours.message_model = polled.consume_type, polled.message_model
            ours.consume_from_where = polled.consume_from_where


CLIENTS_MAX, TOPICS_MAX, PROXIES_MAX = 4_096, 1_024, 64
"""Clients and topics that are kept of a proxy's list, and proxies of a group."""


def fold_proxy(step: GroupStep, event: ProxyConnection) -> None:
    """Replace what the proxy lists by its answer; an answer older than the known one changes nothing."""
    state = step.state
    view = state.proxies.get(event.proxy, ProxyView())
    if event.asked < view.asked or (event.proxy not in state.proxies and len(state.proxies) >= PROXIES_MAX):
        return
    taken = _failed(view, event) if event.error is not None else _listed(view, event)
    before = state.proxies
    state.proxies = before | {event.proxy: taken}
    if _compared_fields(view) != _compared_fields(taken):
        proxied.note_lists(step, before)
    if event.error is None:
        _drop_unlisted(step, event)


def _compared_fields(view: ProxyView) -> tuple[object, ...]:
    return view.answers, view.clients, view.topics, view.error, view.unreadable


def _failed(view: ProxyView, event: ProxyConnection) -> ProxyView:
    error = event.error
    code = f"code {error.code}" if error is not None and error.code > 0 else ""
    why = ": ".join(text for text in (code, error.remark.strip() if error is not None else "") if text)
    return ProxyView(view.asked, event.time, view.unanswered + 1, why, view.clients, view.topics)


def _listed(view: ProxyView, event: ProxyConnection) -> ProxyView:
    rows = sorted({one.client_id: one for one in event.connections or ()}.items())
    clients = {name: ListedClient(one.language, one.version) for name, one in rows[:CLIENTS_MAX]}
    unreadable = event.unreadable
    if len(rows) > CLIENTS_MAX:
        unreadable += (f"connectionSet: {len(rows) - CLIENTS_MAX:,} clients more than {CLIENTS_MAX:,}",)
    if event.incomplete:  # a client whose row can't be read may be listed all the same
        clients = dict([*clients.items(), *((name, one) for name, one in view.clients.items() if name not in clients)])
        clients = dict(list(clients.items())[:CLIENTS_MAX])
    topics = dict(sorted((one.topic, one.sub_string or "") for one in event.subscriptions)[:TOPICS_MAX])
    return ProxyView(event.asked, event.time, 0, "", clients, topics, unreadable)


def _drop_unlisted(step: GroupStep, event: ProxyConnection) -> None:
    """Drop the clients without heartbeats that no proxy lists any more: their proxy has dropped them."""
    pops, state = step.state.pops, step.state
    if pops is None or not pops.proxied or not proxied.all_answer(state):
        return
    silent = event.asked - step.policy.proxy_client_silent_after
    for client_id in [one for one, client in pops.proxied.items() if client.last < silent]:
        if not any(client_id in view.clients for view in state.proxies.values()):
            proxied.drop_beating(step, pops, client_id)


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
        ghost_connections.note_skipped(view.hook, view, event.asked)
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
    if view is not None and view.hook is not None and _is_as_called(step, view, polled):
        view.asked, view.hook.unconfirmed_differences = event.asked, ()
        if state.unsettled or state.left:
            step.changed("SUBSCRIPTIONS")
        return
    before, table = Before(state, event.broker), dict(view.info.subscription_table) if view is not None else None
    first_sight = not any(view.asked or view.hook for view in state.views.values())
    if view is None:
        view = state.views[event.broker] = BrokerView(polled, event.asked)
    elif view.hook is not None and not is_gone(step, view.hook):
        if not is_of_other_replica(step, view, view.hook, event):
            check(step, view, view.hook, polled, event.asked)
    else:
        take_over(step, view, polled)
        listed = {info.client_id for info in polled.channel_info_table.values()}
        view.expected_back_until = {c: until for c, until in view.expected_back_until.items() if c not in listed}
    view.asked, view.failing = event.asked, False
    if view.info.subscription_table != table or state.unsettled or state.left:  # it may change with the same topics
        step.changed("SUBSCRIPTIONS")
    follow(step, before, first_sight=first_sight)


def _is_as_called(step: GroupStep, view: BrokerView, polled: ConsumerGroupInfo) -> bool:
    """Return whether an answer shows what the calls at the broker have shown, so that nothing follows from it."""
    ours, theirs, reported = view.info.channel_info_table, polled.channel_info_table, group_info(step.state)
    if not ours or ours.keys() != theirs.keys() or view.info.subscription_table != polled.subscription_table:
        return False
    is_known = step.state.causes_since > 0 and step.live_hook(view) is not None and not view.failing
    is_known = is_known and (reported is None or reported.message_model in ("", step.state.message_model))
    return is_known and all(theirs[channel].client_id == info.client_id for channel, info in ours.items())


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
