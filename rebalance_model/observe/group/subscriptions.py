"""What each member subscribes: by its last answer, or by its last heartbeat that said so, whichever came later.

A heartbeat without subscriptions (registerConsumerWithoutSub) changes nothing: the client has those of the last one.
"""

import functools
from collections.abc import Sequence

from rebalance_model.broker.subscription import SubscriptionData
from rebalance_model.entities import RETRY_TOPIC_PREFIX
from rebalance_model.observe.events import Subscription
from rebalance_model.observe.state import ClientView
from rebalance_model.observe.step import GroupStep

TOPICS_MAX = 64
"""So many topics of a member are kept, and compared: the first by name."""
Interest = tuple[str, frozenset[str]]
"""Of one topic: the kind of expression, and the tags, or the expression alone."""


def subscription_table(subscriptions: Sequence[Subscription]) -> dict[str, SubscriptionData]:
    """Return subscriptions as the broker keeps them, by topic."""
    return {s.topic: SubscriptionData(s.topic, s.sub_string, s.expression_type, s.sub_version) for s in subscriptions}


def hear(step: GroupStep, client_id: str, subscriptions: Sequence[Subscription]) -> None:
    """Take what a member's heartbeat says."""
    client = step.state.clients[client_id]
    observed = tuple(sorted(subscriptions, key=lambda s: s.topic)[:TOPICS_MAX])
    answer_counted = client.subscriptions_observed_at < client.asked_at_answer
    if observed != (client.subscriptions if answer_counted else client.heartbeat_subscriptions):
        step.group_to_judge = True
    client.heartbeat_subscriptions, client.subscriptions_observed_at = observed, step.now


def of(client: ClientView) -> dict[str, Interest]:
    """By topic, what the member subscribes; empty where it has not said. Retry topics are left out."""
    later = client.subscriptions_observed_at >= client.asked_at_answer or not client.subscriptions
    return _interests(
        client.heartbeat_subscriptions if later and client.heartbeat_subscriptions else client.subscriptions
    )


@functools.lru_cache(maxsize=16_384)
def _interests(said: tuple[Subscription, ...]) -> dict[str, Interest]:
    """Kept: every member of a large group is looked at whenever one of them comes or goes."""
    return {s.topic: _interest(s) for s in said[:TOPICS_MAX] if not s.topic.startswith(RETRY_TOPIC_PREFIX)}


def _interest(subscription: Subscription) -> Interest:
    kind, text = subscription.expression_type or "TAG", subscription.sub_string.strip()
    if kind != "TAG":
        return kind, frozenset((text,))
    return kind, frozenset(tag.strip() for tag in text.split("||") if tag.strip()) or frozenset("*")
