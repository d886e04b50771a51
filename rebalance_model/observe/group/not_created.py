"""Brokers on which the group was never created: they accept its members' heartbeats, and register none of them.

ClientManageProcessor.heartBeat skips a group without a subscriptionGroup config where autoCreateSubscriptionGroup is
false, and answers SUCCESS. A collector knows it by the broker's list of groups, which lacks this one. Once the group is
created, each member's next heartbeat registers it: until then its absence has the same cause.
"""

from rebalance_model.observe.step import GroupStep


def since(step: GroupStep, broker: str) -> int:
    """Return since when a broker that has queues of the group's topics lacks the group; 0: it has it."""
    view = step.state.views.get(broker)
    if view is None or view.not_created is None:
        return 0
    first, last = view.not_created
    if step.now > two_intervals_after(step, last):
        return 0
    serves = any(mq.broker == broker and queue.in_route for mq, queue in step.state.queues.items())
    return first if serves else 0


def brokers(step: GroupStep) -> dict[str, int]:
    """Return the brokers that lack the group, each with since when; epoch milliseconds."""
    for view in step.state.views.values():
        if view.not_created is not None and (until := two_intervals_after(step, view.not_created[1])) >= step.now:
            step.schedule_check(until + 1)
    return {broker: at for broker in step.state.views if (at := since(step, broker))}


def two_intervals_after(step: GroupStep, at: int) -> int:
    """Return when each member has sent a heartbeat since a time: it creates the group, or registers its member."""
    return at + 2 * step.policy.heartbeat_broker_interval


def may_be_created(step: GroupStep) -> set[str]:
    """Return the brokers that lack the group, and where a member's next heartbeat may create it."""
    return {broker for broker, first in brokers(step).items() if step.now < two_intervals_after(step, first)}
