"""Decide whether the group was deleted (deleteSubGroup): nothing can be wrong with it then.

A broker that no longer has the group leaves it out of its list (GET_ALL_SUBSCRIPTIONGROUP_CONFIG, 201), so a collector
no longer asks about it once it has no members. So it is gone when it has no members, and its collector, which ticks and
reaches each of its brokers, has reported nothing about it for `group_gone_after`. What that is not taken for: a group
that some broker still has, or whose members are still there; a broker or a collector that is away.

A broker that answers SUBSCRIPTION_GROUP_NOT_EXIST (26), or whose list is reported to lack the group, says the same at
once: it must do so for `GONE_AFTER`, and so must all others.

Brokers on which the group was never created: they accept its members' heartbeats, and register none of them.

ClientManageProcessor.heartBeat skips a group without a subscriptionGroup config where autoCreateSubscriptionGroup is
false, and answers SUCCESS. A collector knows it by the broker's list of groups, which lacks this one. Once the group is
created, each member's next heartbeat registers it: until then its absence has the same cause.
"""

from rebalance_model.observe.events import ConsumeStats
from rebalance_model.observe.group.ended_queues import GONE_AFTER
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import BrokerView, ClusterState, GroupState
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


GROUP_DELETED = "no broker has the group any more"
"""Why the incidents of a deleted group are resolved; also the reason of its health."""
GROUP_NOT_EXIST = 26
REPORTED_WITHIN = 60_000
"""A broker is reached if a collector has reported an answer of it within this time; milliseconds."""


def note_answer(view: BrokerView | None, event: ConsumeStats) -> None:
    """Record whether a broker says that it does not have the group; an answer without a queue says neither."""
    if view is None:
        return
    if event.error is not None and event.error.code == GROUP_NOT_EXIST:
        view.group_missing_since = view.group_missing_since or event.asked
    elif event.queues:
        view.group_missing_since = 0


def is_deleted(state: GroupState, now: int) -> bool:
    """Return whether all brokers say that they do not have the group, which has no members."""
    if state.members or not state.views:
        return False
    missing = [
        view.not_created[0] if view.not_created is not None else view.group_missing_since
        for view in state.views.values()
    ]
    return all(since and now - since >= GONE_AFTER for since in missing)


def is_unreported(state: GroupState, cluster: ClusterState, now: int, policy: Policy) -> bool:
    """Return whether nobody reports the group any more, though a collector reaches each of its brokers."""
    if now <= unreported_at(state, policy) or state.members or state.silent or not state.is_polled:
        return False
    return all(_is_reached(cluster, broker, now) for broker in state.views)


def unreported_at(state: GroupState, policy: Policy) -> int:
    """Return until when nothing reported shows nothing; time in which the collector was away does not count."""
    return max(state.last_seen, state.covered_since) + policy.group_gone_after


def _is_reached(cluster: ClusterState, broker: str, now: int) -> bool:
    view = cluster.brokers.get(broker)
    reaches = view.reached_by.items() if view is not None else ()
    return any(
        not reach.unanswered and now - reach.reported_at <= REPORTED_WITHIN and cluster.keeps_up(collector)
        for collector, reach in reaches
    )
