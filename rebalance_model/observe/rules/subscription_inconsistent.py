"""SUBSCRIPTION_INCONSISTENT: members of one group subscribe differently.

The broker keeps one table for the group, and the last heartbeat wins. If the topics differ (TOPIC_SET), each heartbeat
undoes the other's, every flip makes all clients rebalance, and queues are assigned to clients that do not read them. If
one topic has different expressions (EXPRESSION), the broker filters for all clients by one of them, and the others lose
messages.

A broker takes a subscription only with a higher version than the one that it has (ConsumerGroupInfo.updateSubscription;
a version is the client's time). So after a client whose clock was ahead, or with clients that send version 0, it
filters by an expression that no member declares any more (BROKER_OUTDATED): messages are lost though all agree.
"""

from collections import Counter

from rebalance_model.observe.facts.group_facts import UNREADABLE, Interest, Interests, interest_at_broker
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state import IncidentKey
from rebalance_model.observe.step import GroupStep

CODE = "SUBSCRIPTION_INCONSISTENT"


def judge(step: GroupStep, _: str) -> Verdict:
    """Compare what each member itself has reported."""
    if not step.state.members:
        return CLEAR
    reported = _reported(step)
    every = _distinct(reported)
    declared = [interests for interests in every if interests]
    first = declared[0] if declared else {}
    if all(interests == first for interests in declared):
        if len(declared) < len(every) or any(_is_unreadable(interests) for interests in declared):
            return None if len(reported) > 1 else CLEAR
        return Holds("critical", "BROKER_OUTDATED") if _outdated(step, first) is not None else CLEAR
    topics_differ = any(interests.keys() != first.keys() for interests in declared)
    return Holds("critical", "TOPIC_SET" if topics_differ else "EXPRESSION", _odd_one(reported))


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return the topic whose subscription differs, and how many members have which."""
    reported = {client_id: one for client_id, one in _reported(step).items() if one}
    fields: Evidence = {"members": len(step.state.members), "members_known": len(reported)}
    topics = sorted({topic for one in reported.values() for topic in one})
    if (outdated := _outdated(step, next(iter(reported.values()), {}))) is not None:
        fields |= outdated
    for topic in topics:
        ways = Counter(_text(one.get(topic)) for one in reported.values())
        if len(ways) > 1:
            fields["topic"] = topic
            for text, count in sorted(ways.items()):
                fields[f"members with {text}"] = count
            fields["odd_one"] = _odd_one(reported)
            break
    return fields


def explains(step: GroupStep, topic: str) -> tuple[IncidentKey, ...]:
    """Return the rule's open incident (`Holds.explained_by`) if a member does not subscribe to the topic.

    By the broker's table, which changes with each heartbeat, queues of the topic are in its share, or in none.
    """
    key = IncidentKey(CODE)
    is_left_by_any = key in step.state.incidents and any(is_left(step, topic, one) for one in step.state.members)
    return (key,) if is_left_by_any else ()


def is_left(step: GroupStep, topic: str, client_id: str | None) -> bool:
    """Return whether the member has reported what it subscribes, and not this topic: it leaves its share of it."""
    interests = step.facts.interests.get(client_id) if client_id is not None else None
    return bool(interests) and topic not in (interests or ())


def _outdated(step: GroupStep, declared: dict[str, Interest]) -> Evidence | None:
    """Return the first topic that a broker filters by something else than all members declare, and both."""
    for broker, view in sorted(step.state.views.items()):
        for topic, data in view.info.subscription_table.items() if not view.failing else ():
            here, interest = interest_at_broker(data), declared.get(topic)
            if interest is not None and here not in (UNREADABLE, interest):
                return {
                    "topic": topic,
                    "broker": broker,
                    "broker_filters_by": _text(here),
                    "members_declare": _text(interest),
                    "broker_version": data.sub_version,
                }
    return None


def _reported(step: GroupStep) -> dict[str, Interests]:
    """Return by member what it subscribes; an expression that can't be read counts as the one of another member."""
    reported = step.facts.interests
    if not any(map(_is_unreadable, _distinct(reported))):
        return reported
    readable: dict[str, Interest] = {}
    for interests in reported.values():
        readable |= {topic: interest for topic, interest in interests.items() if interest != UNREADABLE}
    return {
        member: {topic: readable.get(topic, UNREADABLE) if of == UNREADABLE else of for topic, of in one.items()}
        for member, one in reported.items()
    }


def _distinct(reported: dict[str, Interests]) -> list[Interests]:
    """Return what members subscribe, each object once: thousands of members that subscribe alike share one."""
    return list({id(interests): interests for interests in reported.values()}.values())


def _is_unreadable(interests: Interests) -> bool:
    return any(interest == UNREADABLE for interest in interests.values())


def _odd_one(reported: dict[str, Interests]) -> str | None:
    """Return the only member that subscribes as it does; None if there is not exactly one."""
    ways = Counter(repr(_sorted(one)) for one in reported.values() if one)
    alone = [client_id for client_id, one in reported.items() if one and ways[repr(_sorted(one))] == 1]
    return alone[0] if len(alone) == 1 else None


def _sorted(interests: dict[str, Interest]) -> list[tuple[str, str]]:
    return [(topic, _text(interests[topic])) for topic in sorted(interests)]


def _text(interest: Interest | None) -> str:
    if interest is None:
        return "nothing"
    kind, tags = interest
    return f"{kind} {' || '.join(sorted(tags))}"


RULE = GroupRule(
    CODE,
    judge,
    evidence,
    follows=("MEMBERS", "DECLARED", "SUBSCRIPTIONS"),
    title="The subscriptions of {group} differ",
    units={
        "members": "count",
        "members_known": "count",
        "topic": "text",
        "members with *": "count",
        "odd_one": "text",
        "broker": "text",
        "broker_filters_by": "text",
        "members_declare": "text",
        "broker_version": "count",
    },
    sub_causes=("TOPIC_SET", "EXPRESSION", "BROKER_OUTDATED"),
    open_after=lambda policy: policy.subscription_differs_after,
    absorbed_by=("REBALANCE_STORM",),
    advice={
        "BROKER_OUTDATED": Advice(
            short="a broker filters by an older one",
            what=(
                "All members declare the same expression, but a broker still filters by an older one, whose version is "
                "higher: messages that only the members' expression matches are skipped without a trace."
            ),
            first_step=(
                "Stop all members of the group at once, then start them: the broker forgets the group's subscriptions "
                "with its last member."
            ),
            inspect=("MEMBERS", "COMPARE"),
        ),
        "TOPIC_SET": Advice(
            short="by topic",
            what=(
                "Members subscribe different topics: the broker's table flips with every heartbeat, and queues are "
                "assigned to clients that do not read them."
            ),
            first_step=(
                "Give every member of the group the same subscriptions; one that needs others belongs to a group of "
                "its own."
            ),
            inspect=("MEMBERS", "COMPARE"),
        ),
        "EXPRESSION": Advice(
            short="by filter",
            what=(
                "Members filter one topic differently: the broker filters for all of them by one expression, so the "
                "others lose messages."
            ),
            first_step=(
                "Give every member of the group the same expression; one that needs another belongs to a group of its "
                "own."
            ),
            inspect=("MEMBERS", "COMPARE"),
        ),
    },
)
