"""MIXED_MEMBERS: some members of one group consume in another way than most.

Every member counts when the queues are divided (findConsumerIdList), however it consumes. One that broadcasts reads all
queues by itself and commits none of its share; one that subscribes nothing reads none of it, and each of its heartbeats
empties the broker's table of subscriptions (ConsumerGroupInfo.updateSubscription). What most members declare counts for
the other rules meanwhile (`member_types`).
"""

from collections import Counter
from collections.abc import Callable, Iterable

from rebalance_model.entities import java_order
from rebalance_model.observe.facts.group_facts import has_no_interests, interests_of
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, GroupRule, Holds, Severity, Verdict
from rebalance_model.observe.state import ClientView, GroupState
from rebalance_model.observe.step import GroupStep

NAMES_MAX = 10
"""At most this many members are named."""


def judge(step: GroupStep, _: str) -> Verdict:
    """Compare what the members declare, in their heartbeats or answers."""
    state = step.state
    if len(state.members) < 2:
        return CLEAR
    for severity, sub_cause, differs in _WAYS:
        if found := [member for member in state.members if differs(state, state.clients[member])]:
            return Holds(severity, sub_cause, found[0] if len(found) == 1 else None)
    return CLEAR


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return who differs, and how many members declare what."""
    state = step.state
    clients = {member: state.clients[member] for member in sorted(state.members, key=java_order)}
    differing = [name for name, client in clients.items() if any(differs(state, client) for _, _, differs in _WAYS)]
    return {
        "members": len(clients),
        "differing": ", ".join(differing[:NAMES_MAX]),
        "differing_count": len(differing),
        "message_models": _counted(client.message_model for client in clients.values()),
        "consume_types": _counted(client.consume_type for client in clients.values()),
        "without_subscriptions": sum(map(has_no_interests, clients.values())),
    }


def _counted(declared: Iterable[str]) -> str:
    return ", ".join(f"{what or 'unknown'} by {count}" for what, count in sorted(Counter(declared).items()))


def _has_another_model(state: GroupState, client: ClientView) -> bool:
    return client.message_model not in {"", state.message_model}


def _subscribes_nothing(state: GroupState, client: ClientView) -> bool:
    return has_no_interests(client) and any(interests_of(one) for one in state.clients.values())


def _has_another_type(state: GroupState, client: ClientView) -> bool:
    return client.consume_type not in {"", state.consume_type}


_WAYS: tuple[tuple[Severity, str, Callable[[GroupState, ClientView], bool]], ...] = (
    ("critical", "MESSAGE_MODEL", _has_another_model),
    ("critical", "SUBSCRIBES_NOTHING", _subscribes_nothing),
    ("warning", "CONSUME_TYPE", _has_another_type),
)
"""The ways in which a member may differ, the worst one first."""

RULE = GroupRule(
    "MIXED_MEMBERS",
    judge,
    evidence,
    follows=("MEMBERS", "DECLARED", "SUBSCRIPTIONS"),
    title="The members of {group} do not fit together",
    units={
        "members": "count",
        "differing": "text",
        "differing_count": "count",
        "message_models": "text",
        "consume_types": "text",
        "without_subscriptions": "count",
    },
    sub_causes=("MESSAGE_MODEL", "SUBSCRIBES_NOTHING", "CONSUME_TYPE"),
    needs=("MEMBERS",),
    clear_after=lambda policy: policy.rebalance_wait_interval + policy.poll_interval,  # its share is divided again
    advice={
        "MESSAGE_MODEL": Advice(
            short="some broadcast",
            what=(
                "Members of one group have different message models: those that broadcast are counted when the queues "
                "are divided, but read all queues and commit none, so the messages of their share wait."
            ),
            first_step="Give every member the same messageModel, or move those that differ to a group of their own.",
            inspect=("MEMBERS", "COMPARE"),
        ),
        "SUBSCRIBES_NOTHING": Advice(
            short="one subscribes nothing",
            what=(
                "A member subscribes nothing: it gets a share of the queues that nobody reads, and each of its "
                "heartbeats empties the broker's table of subscriptions, so all members rebalance."
            ),
            first_step="Stop the named client, or give it a group of its own; a tool must not use a consumer's group.",
            inspect=("MEMBERS", "COMPARE"),
        ),
        "CONSUME_TYPE": Advice(
            short="some pull by themselves",
            what="Some members pull by themselves (CONSUME_ACTIVELY) in a group of push consumers, or the reverse.",
            first_step="Check that the named client belongs to the group; one that pulls by itself needs its own.",
            inspect=("MEMBERS", "COMPARE"),
        ),
    },
)
