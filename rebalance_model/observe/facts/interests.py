"""The subscriptions of each member: by its last answer, or its last heartbeat that had any, whichever came later.

A heartbeat without subscriptions (registerConsumerWithoutSub) changes nothing: the former ones stay valid.
"""

import functools
from typing import TypeAlias

from rebalance_model.broker.consumer_group_info import SubscriptionData
from rebalance_model.entities import RETRY_TOPIC_PREFIX
from rebalance_model.observe.events import Subscription
from rebalance_model.observe.state import ClientView

TOPICS_MAX = 64
"""At most this many topics of a member are kept and compared, the first ones by name."""
_SHORT_CHARACTERS_MAX = 2_000
Interest = tuple[str, frozenset[str]]
"""The subscription of one topic: the kind of expression, and the tags, or the expression alone."""
Interests: TypeAlias = dict[str, Interest]
"""A member's subscriptions, by topic."""
UNREADABLE: Interest = ("", frozenset())
"""The subscription of a topic whose expression can't be read: it may be any."""


def of_member(client: ClientView) -> Interests:
    """Return by topic what the member subscribes; empty if it has not reported any. Retry topics are left out."""
    later = client.subscriptions_observed_at >= client.asked_at_answer or not client.subscriptions
    reported = client.heartbeat_subscriptions if later and client.heartbeat_subscriptions else client.subscriptions
    characters = sum(len(s.topic) + len(s.sub_string or "") for s in reported)
    return (_short_interests if characters <= _SHORT_CHARACTERS_MAX else _interests)(reported)


def are_none(client: ClientView) -> bool:
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


def at_broker(subscription: SubscriptionData) -> Interest:
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
