"""REBALANCE_STORM: the group rebalances again and again for repeating causes.

Only causes that repeat are counted (`causes.repeated`): a rollout of any size is no storm, nor is a recovered network.
The sub-cause is the most frequent kind of cause:

- TOPIC_SET_FLIP: members subscribe different topics, and each heartbeat undoes the other's.
- RECONNECT_CHURN: the same client ids return on other connections without UNREGISTER_CLIENT.
- MEMBER_FLAPPING: clients join and leave.
- ROUTE_FLAPPING: the topic's queues, or a broker with its queues, disappear and return.

Without such a cause, a client whose rebalance never completes rebalances every second; only the hook shows that.
CONFIG_ON_RETRY_TOPIC: the strategy CONFIG returns the same queues for the retry topic, which does not have them.
ENDLESS_REBALANCE: the reason is unknown.
"""

from collections import Counter
from typing import Literal, get_args

from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.group import causes
from rebalance_model.observe.hooks import pull_errors
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state import Cause, IncidentKey
from rebalance_model.observe.step import GroupStep

CODE = "REBALANCE_STORM"
TIMES_ITS_RATE = 4
"""The factor over the group's usual rate that makes fewer causes a storm."""
CONFIG = "AllocateMessageQueueByConfig"
SubCause = Literal[
    "TOPIC_SET_FLIP",
    "RECONNECT_CHURN",
    "MEMBER_FLAPPING",
    "ROUTE_FLAPPING",
    "CONFIG_ON_RETRY_TOPIC",
    "ENDLESS_REBALANCE",
]


def judge(step: GroupStep, _: str) -> Verdict:
    """Count the repeated causes; once open, it holds until none has repeated for the whole window."""
    state, policy = step.state, step.policy
    looping = _looping_client(step)
    if looping is not None and not _has_unreadable_topic(step):
        config = state.clients[looping].strategy.endswith(CONFIG)
        return Holds("critical", "CONFIG_ON_RETRY_TOPIC" if config else "ENDLESS_REBALANCE", looping)
    is_open = IncidentKey(CODE) in state.incidents
    if not is_open and len(state.causes) < min(policy.storm_causes + 1, policy.storm_causes_rare):
        return CLEAR
    repeats = causes.repeated(step)
    if repeats and is_open:
        step.schedule_check(min(cause.time for cause in repeats) + policy.storm_window + 1)
    if repeats and (is_open or _is_storm(step, len(repeats))):
        return Holds("critical", _root(repeats), _culprit(repeats))
    return CLEAR


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return how many causes there were, and the most frequent ones."""
    repeats, recent_count = causes.repeated(step), len(causes.recent(step))
    rate = causes.usual_rate(step.state, step.policy, step.now, recent_count)
    fields: Evidence = {
        "causes": len(repeats),
        "limit": step.policy.storm_causes,
        "window_ms": step.policy.storm_window,
        "all_causes": recent_count,
        "own_causes_per_hour": rate[0] * 3_600_000 // rate[1] if rate is not None else None,
    }
    for what, count in Counter(f"{cause.code} {cause.subject}" for cause in repeats).most_common(3):
        fields[what] = count
    return fields


def _is_storm(step: GroupStep, count: int) -> bool:
    policy = step.policy
    if count > policy.storm_causes:
        return True
    rate = causes.usual_rate(step.state, policy, step.now, len(causes.recent(step)))
    if rate is None or count < policy.storm_causes_rare:
        return False
    return count * rate[1] > TIMES_ITS_RATE * rate[0] * policy.storm_window


def _root(repeats: list[Cause]) -> SubCause:
    unregistered = {
        cause.subject for cause in repeats if cause.code in ("CLIENT_LEFT", "CLIENT_UNREGISTERED", "CLIENT_RESTARTED")
    }
    return Counter(_kind(cause, unregistered) for cause in repeats).most_common(1)[0][0]


def _kind(cause: Cause, unregistered: set[str]) -> SubCause:
    if cause.code == causes.SUBSCRIPTIONS:
        return "TOPIC_SET_FLIP"
    if cause.code in causes.ROUTES:
        return "ROUTE_FLAPPING"
    if cause.code == causes.CONNECTIONS or cause.subject not in unregistered:
        return "RECONNECT_CHURN"
    return "MEMBER_FLAPPING"


def _culprit(repeats: list[Cause]) -> str | None:
    """Return the client that makes most of the causes, if there is one."""
    [(client_id, count)] = Counter(cause.client_id for cause in repeats).most_common(1)
    return client_id if 2 * count > len(repeats) else None


def _has_unreadable_topic(step: GroupStep) -> bool:
    """Return whether a topic has no readable queue: its clients' rebalance fails and is repeated every second then.

    AllocateMessageQueueStrategy.check throws for an empty mqAll, and RebalanceImpl.rebalanceByTopic keeps the queues.
    """
    if any(not route.queues for route in (step.facts.routes or {}).values()):
        return True
    return any(pull_errors.is_refused(step, QueueFacts.of(step.facts, mq)) for mq in step.state.queues)


def _looping_client(step: GroupStep) -> str | None:
    """Return a client that has rebalanced every second for the whole window though no lock is refused to it."""
    for hook in step.facts.hooks.values():
        for client_id, asking in hook.rebalance_loops.items():
            long = asking.last - asking.since > step.policy.storm_window
            if long and client_id in step.state.clients and step.now - asking.last <= causes.LOOPS_WITHIN:
                step.schedule_check(asking.last + causes.LOOPS_WITHIN + 1)
                if not _is_refused(step, client_id):
                    return client_id
    return None


def _is_refused(step: GroupStep, client_id: str) -> bool:
    return any(client_id in seen.refusals for seen in step.facts.seen.values())


RULE = GroupRule(
    CODE,
    judge,
    evidence,
    follows=("CAUSES", "ROUTES"),
    title="{group} rebalances again and again",
    units={
        "causes": "count",
        "limit": "count",
        "window_ms": "ms",
        "all_causes": "count",
        "own_causes_per_hour": "per_hour",
        "*": "count",
    },
    sub_causes=get_args(SubCause),
    absorbed_by=("BROKER_NAME_SHARED", "TELEMETRY_GAP", "MIXED_MEMBERS"),
    advice={
        "TOPIC_SET_FLIP": Advice(
            short="its members subscribe different topics",
            what=(
                "Members subscribe different topics: each heartbeat undoes the other's, and all of them rebalance at "
                "every flip."
            ),
            first_step=(
                "Give every member of the group the same subscriptions; one that needs others belongs to a group of "
                "its own."
            ),
            inspect=("MEMBERS",),
        ),
        "RECONNECT_CHURN": Advice(
            short="clients keep reconnecting",
            what=(
                "The same client ids return repeatedly on new connections without unregistering; the group "
                "rebalances each time."
            ),
            first_step=(
                "Check what cuts the connections (network, proxy, idle timeouts), or kills the processes: memory "
                "limits, liveness probes."
            ),
            inspect=("MEMBERS",),
        ),
        "MEMBER_FLAPPING": Advice(
            short="clients keep joining and leaving",
            what="Clients join and leave repeatedly, and the group rebalances each time.",
            first_step=(
                "Check why these clients restart: their logs, their deployment's probes, an oscillating autoscaler."
            ),
            inspect=("MEMBERS",),
        ),
        "ROUTE_FLAPPING": Advice(
            short="queues keep disappearing",
            what="The topic's queues, or a broker's queues, disappear and return; every client rebalances each time.",
            first_step=(
                "Check the broker's registration with the name servers, and who changes the topic's configuration."
            ),
            inspect=("BROKERS",),
        ),
        "CONFIG_ON_RETRY_TOPIC": Advice(
            short="the strategy CONFIG does not fit the retry topic",
            what=(
                "The strategy CONFIG returns the same queues for the retry topic, which does not have them: the "
                "client's rebalance never completes and restarts every second."
            ),
            first_step=(
                "Use another strategy, or your own that returns CONFIG's queues only for the topic they belong to."
            ),
            inspect=("COMPARE",),
        ),
        "ENDLESS_REBALANCE": Advice(
            short="a client never completes it",
            what="The client's rebalance never completes: it restarts every second, though no lock is refused to it.",
            first_step=(
                "Read the client's rebalance log; strategies that return queues of other topics (CONFIG) cause this."
            ),
            inspect=("COMPARE",),
        ),
    },
)
