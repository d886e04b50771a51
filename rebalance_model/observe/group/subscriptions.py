"""Fold what a member's heartbeat says of its subscriptions."""

from collections.abc import Sequence

from rebalance_model.broker.consumer_group_info import SubscriptionData
from rebalance_model.observe.events import Subscription
from rebalance_model.observe.facts.interests import TOPICS_MAX
from rebalance_model.observe.step import GroupStep


def subscription_table(subscriptions: Sequence[Subscription]) -> dict[str, SubscriptionData]:
    """Return subscriptions as the broker keeps them, by topic."""
    return {
        s.topic: SubscriptionData(s.topic, s.sub_string or "", s.expression_type, s.sub_version) for s in subscriptions
    }


def note_heartbeat(step: GroupStep, client_id: str, subscriptions: Sequence[Subscription]) -> None:
    """Process the subscriptions in a member's heartbeat."""
    client = step.state.clients[client_id]
    observed = tuple(sorted(subscriptions, key=lambda s: s.topic)[:TOPICS_MAX])
    answer_counted = client.subscriptions_observed_at < client.asked_at_answer
    if observed != (client.subscriptions if answer_counted else client.heartbeat_subscriptions):
        step.changed("SUBSCRIPTIONS")
    client.heartbeat_subscriptions, client.subscriptions_observed_at = observed, step.now
