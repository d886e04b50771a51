"""Facts of a group at one step: found once, for all rules, quantities and rows.

Facts are frozen: what they were made of may change only by `GroupStep.changed`, after which they are made again.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from rebalance_model.allocation.server_side import ALL_QUEUES
from rebalance_model.broker.consumer_group_info import ConsumerGroupInfo, SubscriptionData
from rebalance_model.entities import RETRY_TOPIC_PREFIX, MessageQueue, java_order
from rebalance_model.observe.events import Subscription
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import (
    BROADCASTING,
    PUSH,
    BrokerView,
    ClientView,
    GroupState,
    HookQueueView,
    HookView,
    Pops,
    Route,
)

HEARTBEAT_LATE = 5_000
"""The longest delay of a heartbeat beyond its interval; milliseconds."""
TOPICS_MAX = 64
"""At most this many topics of a member are kept and compared, the first ones by name."""
_SHORT_CHARACTERS_MAX = 2_000
Interest = tuple[str, frozenset[str]]
"""The subscription of one topic: the kind of expression, and the tags, or the expression alone."""
Interests: TypeAlias = dict[str, Interest]
"""A member's subscriptions, by topic."""
UNREADABLE: Interest = ("", frozenset())
"""The subscription of a topic whose expression can't be read: it may be any."""


def interests_of(client: ClientView) -> Interests:
    """Return a member's subscriptions: by its last answer, or its last heartbeat that had any, whichever came later.

    A heartbeat without subscriptions (registerConsumerWithoutSub) changes nothing: the former ones stay valid. Empty if
    it has not reported any. Retry topics are left out.
    """
    later = client.subscriptions_observed_at >= client.asked_at_answer or not client.subscriptions
    reported = client.heartbeat_subscriptions if later and client.heartbeat_subscriptions else client.subscriptions
    characters = sum(len(s.topic) + len(s.sub_string or "") for s in reported)
    return (_short_interests if characters <= _SHORT_CHARACTERS_MAX else _interests)(reported)


def has_no_interests(client: ClientView) -> bool:
    """Return whether the client has reported that it subscribes nothing.

    An answer shows that only if it has shown twice how the client consumes: some clients answer with an empty body at
    first, and later with everything.
    """
    if client.subscriptions or client.heartbeat_subscriptions:
        return False
    return client.subscriptions_observed_at > 0 or (client.declared > 1 and bool(client.consume_type))


def _interests(reported: tuple[Subscription, ...]) -> Interests:
    return {s.topic: _interest(s) for s in reported[:TOPICS_MAX] if not s.topic.startswith(RETRY_TOPIC_PREFIX)}


_short_interests = functools.lru_cache(maxsize=16_384)(_interests)
"""Cached, since all members are compared whenever one joins or leaves; long ones would fill gigabytes."""


def interest_at_broker(subscription: SubscriptionData) -> Interest:
    """Return by what a broker filters a topic."""
    return _parsed(subscription.expression_type, subscription.sub_string) if subscription.sub_string else UNREADABLE


def _interest(subscription: Subscription) -> Interest:
    if subscription.sub_string is None:
        return UNREADABLE
    return _parsed(subscription.expression_type, subscription.sub_string)


def _parsed(expression_type: str, sub_string: str) -> Interest:
    kind, text = expression_type or "TAG", sub_string.strip()
    if kind != "TAG":
        return kind, frozenset((text,))
    return kind, frozenset(tag.strip() for tag in text.split("||") if tag.strip()) or frozenset("*")


NO_CALLS, NO_POPS = HookView("", 0), Pops()
"""The facts of calls that are not seen. Facts are read, never written."""
UNWATCHED = 2**62
"""The instant from which a silence of calls counts where they are not seen: none counts."""
SHARED_BY_MAX = 64
"""At most this many of the clients that pop a queue are named."""
Division: TypeAlias = Literal["DIVIDED", "BROADCAST", "POPPED", "MIXED", "ACTIVE", "PROXIED", ""]
"""The ways in which members share a group's queues; see `GroupFacts.division`."""
Poppers: TypeAlias = Mapping[str, Mapping[tuple[str, int], list[str]]]
"""By topic that clients pop, its broker and queue id (-1: all of the broker), who pops there."""


class _HasFacts(Protocol):
    __dict__: dict[str, object]


_InstanceT = TypeVar("_InstanceT", bound=_HasFacts)
_FactT = TypeVar("_FactT")


class fact(Generic[_InstanceT, _FactT]):  # noqa: N801  used like `property`
    """A property that is found when it is first asked for, and kept.

    `functools.cached_property` takes a lock each time until Python 3.12, and an event asks for five facts.
    """

    def __init__(self, find: Callable[[_InstanceT], _FactT]) -> None:
        """Decorate the function that finds the fact."""
        self.__doc__ = find.__doc__
        self._find = find
        self._name = find.__name__

    def __get__(self, instance: _InstanceT, owner: type[_InstanceT]) -> _FactT:
        """Find the fact; from then on the instance's dictionary has it, and this is not called again."""
        found = instance.__dict__[self._name] = self._find(instance)
        return found


class GroupFacts(msgspec.Struct, frozen=True, dict=True):
    """The facts of a group; each is found when it is first asked for."""

    state: GroupState
    policy: Policy
    now: int
    is_polled: bool
    """True if a collector is followed, and is not silent."""
    pops: Pops
    """The calls of consumers that pop; empty, if none was seen."""
    missing: tuple[Literal["POLLS", "OFFSETS", "DEAD_LETTERS"], ...]
    """The telemetry that no source reports now; of offsets, calls show only what is pulled and not committed."""

    @fact
    def members(self) -> frozenset[str]:
        """Return the members as a set, to find one; loop over `GroupState.members`: a set has no certain order."""
        return frozenset(self.state.members)

    @fact
    def hooks(self) -> dict[str, HookView]:
        """Return by broker what calls show, of the brokers whose hook reports: it is neither silent nor late."""
        views, silent = self.state.views.items(), self.state.silent
        return {broker: view.hook for broker, view in views if view.hook is not None and view.hook.source not in silent}

    @fact
    def seen(self) -> dict[MessageQueue, HookQueueView]:
        """Return by queue what calls have shown of it, though they may no longer be seen."""
        return {mq: queue.hook_view for mq, queue in self.state.queues.items() if queue.hook_view is not None}

    def calls_at(self, broker: str) -> HookView:
        """Return what calls at a broker show now; nothing, while they are not seen."""
        return self.hooks.get(broker, NO_CALLS)

    def watched_since(self, broker: str) -> int:
        """Return since when no call at a broker is missed; epoch ms. `UNWATCHED`: calls are not seen now."""
        return self.hooks[broker].covered_since if broker in self.hooks else UNWATCHED

    @fact
    def is_reported(self) -> bool:
        """Return whether any source reports the group now."""
        return self.is_polled or bool(self.hooks)

    @fact
    def shows_owners(self) -> bool:
        """Return whether members report which queues they have; else only their calls tell."""
        return self.is_polled and not self.is_mute

    @fact
    def routes(self) -> dict[str, Route] | None:
        """Return the routes of topics; None: they may be others by now, or unknown: calls show none."""
        return self.state.routes if self.is_polled else None

    @fact
    def lists(self) -> dict[str, tuple[set[str], set[str]]]:
        """Return by broker the members that it lists, and those of them whose heartbeats it is sure to receive.

        Left out are brokers of which no list is known: no answer came, or not all members have sent a heartbeat since
        calls are seen.
        """
        since, lists = self.now - self.policy.heartbeat_broker_interval - HEARTBEAT_LATE, {}
        for broker, view in self.state.views.items():
            hook, table = self.hooks.get(broker), view.info.channel_info_table.values()
            listed = {info.client_id for info in table}
            if hook is not None and self.now > hook.complete_at:
                beating = {info.client_id for info in table if info.last_update_timestamp >= since}
                lists[broker] = (listed | hook.expected_back_until.keys(), beating)
            elif hook is None and view.asked and not view.failing:
                lists[broker] = (listed, listed)
        return lists

    @fact
    def hooked_since(self) -> int | None:
        """Return since when all hooks report without a gap; None: one is silent, and may hide any call."""
        known = sum([view.hook is not None for view in self.state.views.values()])
        since = [hook.covered_since for hook in self.hooks.values()]
        return max(since) if since and len(since) == known else None

    @fact
    def info(self) -> ConsumerGroupInfo | None:
        """Return what the first broker that answers (`list_view`) has of the group; None while none answers."""
        return group_info(self.state)

    @fact
    def broadcasts(self) -> bool:
        """Return whether every member reads every queue, so that none has an owner; kept while no member is listed."""
        return self.state.message_model == BROADCASTING

    @fact
    def consume_type(self) -> str:
        """Return the consume type that most members declare, else the one that the broker reports; empty: unknown."""
        return self.state.consume_type or (self.info.consume_type if self.info is not None else "")

    @fact
    def popped(self) -> Poppers:
        """Return the topics that members pop, by their last answers and their POPs: the mode is set for each topic.

        The queues of such a topic have no owner and no locks; the other topics are pulled.
        """
        return _poppers(self.state, self.pops) if self.state.poppers or self.pops.poppers else {}

    @fact
    def division(self) -> Division:
        """Return how the members share the group's queues.

        DIVIDED: each queue has one owner, which answers show (push consumers). BROADCAST: every member reads every
        queue, and keeps its offsets itself. POPPED: clients pop every topic, and share the queues; only the group's
        retry topic is pulled. MIXED: they pop some topics, and divide the queues of the others. ACTIVE: clients pull by
        themselves, and do not report their queues. PROXIED: gRPC clients listed by a broker with an embedded proxy
        (LOCAL mode): they answer no request, and unlike push consumers they do not subscribe to the group's retry
        topic. Empty: no member is listed, and the last ones pushed.
        """
        state, info = self.state, self.info
        if self.broadcasts:
            return "BROADCAST"
        if info is None or not self.consume_type or (self.consume_type == PUSH and not state.members):
            return ""
        if self.consume_type != PUSH:
            return "ACTIVE"
        if popped := self.popped:
            pulled = (topic for topic in info.subscription_table if not topic.startswith(RETRY_TOPIC_PREFIX))
            return "MIXED" if any(topic not in popped for topic in pulled) else "POPPED"
        if RETRY_TOPIC_PREFIX + state.group in info.subscription_table:
            return "DIVIDED"
        asked = any(client.asked for client in state.clients.values())
        answered = any(client.answered or not client.readable for client in state.clients.values())
        return "PROXIED" if asked and not answered else "DIVIDED"

    @fact
    def is_divided(self) -> bool:
        """Return whether the members divide the queues that are not popped, and their answers show their queues."""
        return self.division in ("DIVIDED", "MIXED")

    @fact
    def is_consumed_unlisted(self) -> bool:
        """Return whether commits advance though no member is listed: clients behind a separate proxy (CLUSTER mode).

        The last commits of members that left come within a persist interval, and are seen one poll interval later.
        """
        state, policy = self.state, self.policy
        settled = state.no_members_since + policy.persist_consumer_offset_interval + 2 * policy.poll_interval
        return not state.members and state.advanced_at > settled

    @fact
    def mute(self) -> frozenset[str]:
        """Return the members that were asked which queues they have, and have never said it: they may have any.

        Clients that do not know the request, an account that may not send it, or brokers that can't reach them.
        """
        asked = [(member, self.state.clients[member]) for member in self.state.members]
        return frozenset([member for member, one in asked if one.asked and not (one.answered and one.readable)])

    @fact
    def is_mute(self) -> bool:
        """Return whether no member says which queues it has: by polls alone, owners are unknown."""
        return bool(self.mute) and len(self.mute) == len(self.members)

    def pull_threshold(self, client_id: str | None) -> int:
        """Return how many messages of a queue a client takes, as it declares; else the policy's value."""
        client = self.state.clients.get(client_id or "")
        return (client.pull_threshold if client is not None else None) or self.policy.pull_threshold_for_queue

    def pull_batch(self, client_id: str | None) -> int:
        """Return how many messages a pull of a client asks for, as it declares; else the policy's value."""
        client = self.state.clients.get(client_id or "")
        return (client.pull_batch if client is not None else None) or self.policy.pull_batch_size

    @fact
    def interests(self) -> dict[str, Interests]:
        """Return by member what it subscribes."""
        clients = self.state.clients
        return {member: interests_of(clients[member]) for member in self.state.members}

    @fact
    def strategies(self) -> frozenset[str]:
        """Return the strategy classes that the members which have answered declare."""
        clients = self.state.clients
        return frozenset([c.strategy for m in self.state.members if (c := clients.get(m)) is not None and c.strategy])

    @fact
    def strategy(self) -> str | None:
        """Return the strategy class that all members which have answered declare; None if they differ or none has."""
        return next(iter(self.strategies)) if len(self.strategies) == 1 else None

    def shared_by(self, mq: MessageQueue) -> tuple[str, ...]:
        """Return the members that pop the queue, in Java's order, at most `SHARED_BY_MAX`."""
        by_place = self.popped.get(mq.topic)
        if by_place is None:
            return ()
        clients = {*by_place.get((mq.broker, mq.queue_id), ()), *by_place.get((mq.broker, ALL_QUEUES), ())}
        return tuple(sorted(clients, key=java_order)[:SHARED_BY_MAX])

    def is_fifo(self, mq: MessageQueue) -> bool:
        """Return whether the queue's messages are popped in order: one that is not acknowledged holds back the others.

        The clients of such a group speak gRPC: they are in no broker's list, or are listed and answer nothing.
        """
        view = self.state.views.get(mq.broker)
        if mq.is_retry:
            return False
        if view is None or not view.is_fifo:
            queue = self.pops.queues.queues.get(mq)
            return queue is not None and queue.order
        return mq.topic in self.popped or self.division in ("", "PROXIED")


def list_view(state: GroupState) -> BrokerView | None:
    """Return the view of the first broker that answers; None if there is none.

    A client, too, requests the members from one broker of the topic. A broker that has just started lists no member,
    and a client that gets an empty list stays as it is: so while another broker lists members, its view counts.
    """
    if len(state.views) == 1:  # the usual case; called several times per event
        [only] = state.views.values()
        return None if only.failing else only
    answering = [(not view.info.channel_info_table, broker) for broker, view in state.views.items() if not view.failing]
    return state.views[min(answering)[1]] if answering else None


def group_info(state: GroupState) -> ConsumerGroupInfo | None:
    """Return that broker's (`list_view`) information about the group; None while no broker answers."""
    view = list_view(state)
    return view.info if view is not None else None


def is_subscribed(state: GroupState, topic: str) -> bool:
    """Return whether the topic is subscribed, by the broker's table, or by what a member itself has reported.

    The members' heartbeats overwrite the broker's table in turn.
    """
    info = group_info(state)
    if info is not None and topic in info.subscription_table:
        return True
    return any(topic in interests_of(state.clients[member]) for member in state.members)


def _poppers(state: GroupState, pops: Pops) -> dict[str, dict[tuple[str, int], list[str]]]:
    by_topic: dict[str, dict[tuple[str, int], list[str]]] = {}
    for client_id in state.poppers:
        client = state.clients.get(client_id)
        for place in client.popped if client is not None else ():
            by_topic.setdefault(place.topic, {}).setdefault((place.broker, place.queue_id), []).append(client_id)
    for client_id, popper in pops.poppers.items():
        for place in popper.targets:
            who = by_topic.setdefault(place.topic, {}).setdefault((place.broker, place.queue_id), [])
            if client_id not in who:
                who.append(client_id)
    return by_topic
