"""TOPIC_NOT_FOUND: members subscribe a topic that this cluster does not have.

The name servers answer TOPIC_NOT_EXIST (17): the topic's name is wrong, the members use the name servers of another
cluster than they should, or the topic was deleted (`group.ended_queues`). Members that start ask for the route every
30 s (MQClientInstance.updateTopicRouteInfoFromNameServer); those that had one keep it, and pull from the brokers, which
refuse. Both receive nothing. Where members that have left another topic stranded its messages at that time, or other
members do not subscribe the topic, that incident explains this one.
"""

from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state import IncidentKey
from rebalance_model.observe.step import GroupStep

NAMED_MAX = 10
"""At most this many topics and members are named."""
RELEASED_WITHIN = 60_000
"""Topics that members leave and begin to subscribe within this time are of one release; milliseconds."""


def judge(step: GroupStep, _: str) -> Verdict:
    """Check whether a subscribed topic has no route."""
    missing = step.state.without_route if step.state.members else {}
    if not missing:
        return CLEAR
    sub_cause = "DELETED" if len(step.state.deleted) == len(missing) else ""
    return Holds("warning", sub_cause, explained_by=_causes(step, missing))


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return the topics, and the members that report to subscribe one of them."""
    missing = step.state.without_route
    return {
        "topics": ", ".join(sorted(missing)[:NAMED_MAX]),
        "topics_count": len(missing),
        "not_found_since": min(missing.values(), default=None),
        "subscribers": ", ".join(_subscribers(step, missing)[:NAMED_MAX]) or None,
        "members": len(step.state.members),
    }


def _subscribers(step: GroupStep, missing: dict[str, int]) -> list[str]:
    return [member for member, interests in step.facts.interests.items() if missing.keys() & interests]


def _causes(step: GroupStep, missing: dict[str, int]) -> tuple[IncidentKey, ...]:
    """Return the open incident that explains it, if one does."""
    incidents = step.state.incidents
    differing = incidents.get(IncidentKey("SUBSCRIPTION_INCONSISTENT"))
    stranded = incidents.get(IncidentKey("MESSAGES_STRANDED"))
    if differing is not None and differing.sub_cause == "TOPIC_SET":
        return (differing.key,) if 0 < len(_subscribers(step, missing)) < len(step.state.members) else ()
    times = ((left, since) for left in step.state.left.values() for since in missing.values())
    if stranded is not None and stranded.sub_cause == "NOT_SUBSCRIBED":
        return (stranded.key,) if any(abs(left - since) <= RELEASED_WITHIN for left, since in times) else ()
    return ()


RULE = GroupRule(
    "TOPIC_NOT_FOUND",
    judge,
    evidence,
    follows=("MEMBERS", "DECLARED", "SUBSCRIPTIONS", "ROUTES", "ENDED"),
    title="{group} subscribes a topic that does not exist",
    units={
        "topics": "text",
        "topics_count": "count",
        "not_found_since": "epoch_ms",
        "subscribers": "text",
        "members": "count",
    },
    sub_causes=("", "DELETED"),
    needs=("POLLS",),
    open_after=lambda policy: policy.subscription_differs_after,
    advice={
        "": Advice(
            what="Members subscribe a topic that this cluster does not have: they receive nothing of it.",
            first_step=(
                "Compare the topic's name with the cluster's topics (mqadmin topicList), and the members' name servers "
                "with the collector's: they may be of another cluster."
            ),
            inspect=("MEMBERS", "BROKERS"),
        ),
        "DELETED": Advice(
            short="it was deleted",
            what="Members still subscribe a topic that was deleted: they receive nothing of it.",
            first_step=(
                "Create the topic again (mqadmin updateTopic) if it was deleted by mistake; otherwise release the "
                "members without it."
            ),
            inspect=("MEMBERS", "BROKERS"),
        ),
    },
)
