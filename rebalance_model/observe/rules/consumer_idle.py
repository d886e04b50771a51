"""CONSUMER_IDLE: a group has more members than queues, and some have nothing to do."""

from collections.abc import Collection

from rebalance_model.entities import RETRY_TOPIC_PREFIX
from rebalance_model.observe.facts.group_facts import interests_of
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.step import GroupStep

NAMED = 10
"""At most this many idle members are named in the evidence."""


def judge(step: GroupStep, _: str) -> Verdict:
    """Compare the number of members with the number of queues; None while the route of a topic is unknown."""
    state = step.state
    queues = _queues(step)
    if queues is None:
        return None
    if not 0 < queues < len(state.members) or not step.facts.is_divided:
        return CLEAR
    return Holds("info")


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return the numbers of members and queues, and the first members without a queue."""
    idle = [member for member in step.state.members if member not in step.state.shares]
    return {
        "members": len(step.state.members),
        "queues": _queues(step),
        "idle": len(idle),
        "who": ", ".join(idle[:NAMED]),
    }


def _queues(step: GroupStep) -> int | None:
    """Return how many queues the group's topics have; None while the route of one of them is unknown."""
    queues = 0
    for topic in _topics(step):
        if (route := step.state.routes.get(topic)) is None:
            return None
        queues += len(route.queues) + len(route.beyond)
    return queues


def _topics(step: GroupStep) -> Collection[str]:
    """Return the topics of the group whose queues members divide.

    The last heartbeat replaces the broker's table (ConsumerGroupInfo.updateSubscription): one of a member that
    subscribes less shortens it. So what the members say counts, too.
    """
    state, info = step.state, step.facts.info
    topics = [t for t in info.subscription_table if not t.startswith(RETRY_TOPIC_PREFIX)] if info is not None else []
    known = (client for member in state.members if (client := state.clients.get(member)) is not None)
    of_all = dict.fromkeys([*topics, *(topic for client in known for topic in interests_of(client))])
    return of_all if not (popped := step.facts.popped) else [topic for topic in of_all if topic not in popped]


RULE = GroupRule(
    "CONSUMER_IDLE",
    judge,
    evidence,
    follows=("MEMBERS", "DECLARED", "SUBSCRIPTIONS", "ROUTES", "POPPED"),
    title="{group} has more clients than queues",
    units={"members": "count", "queues": "count", "idle": "count", "who": "text"},
    needs=("POLLS", "OWNERS"),
    open_after=lambda policy: policy.assignment_settled_after,
    advice={
        "": Advice(
            what="There are more members than queues: some members have nothing to consume.",
            first_step="Add queues to the topic, or run fewer members; idle members kept as standby are harmless.",
            inspect=("MEMBERS",),
        ),
    },
)
