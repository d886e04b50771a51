"""PULL_REFUSED: a broker answers every pull of a queue with an error; by its hook, which reports the response code.

The members, their heartbeats and their answers are as usual: the client stamps a pull before it sends it. Clear when a
pull is served, or no client pulls the queue any more. PULL_OFFSET_MOVED (21) is no refusal: the client corrects its
offset by it.
"""

from typing import Literal, get_args

from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.hooks import pull_errors
from rebalance_model.observe.rules import concerns, stale_heartbeat
from rebalance_model.observe.rules.rule import CLEAR, OF_BROKER, Advice, Evidence, Holds, QueueRule, Severity, Verdict
from rebalance_model.observe.state import IncidentKey, PullError
from rebalance_model.observe.step import GroupStep

CODE = "PULL_REFUSED"
SubCause = Literal[
    "NO_PERMISSION",
    "TOPIC_NOT_READABLE",
    "TOPIC_NOT_EXIST",
    "SUBSCRIPTION_NOT_EXIST",
    "SUBSCRIPTION_NOT_LATEST",
    "GROUP_NOT_EXIST",
    "ERROR",
]
_SUB_CAUSES: dict[int, SubCause] = {
    pull_errors.NO_PERMISSION: "NO_PERMISSION",
    pull_errors.TOPIC_NOT_EXIST: "TOPIC_NOT_EXIST",
    pull_errors.SUBSCRIPTION_NOT_EXIST: "SUBSCRIPTION_NOT_EXIST",
    pull_errors.SUBSCRIPTION_NOT_LATEST: "SUBSCRIPTION_NOT_LATEST",
    pull_errors.GROUP_NOT_EXIST: "GROUP_NOT_EXIST",
}
_NAMES = {26: "SUBSCRIPTION_GROUP_NOT_EXIST", **{code: name for code, name in _SUB_CAUSES.items() if code != 26}}


def judge(step: GroupStep, q: QueueFacts) -> Verdict:
    """Check for how long no pull has been served; unknown while the hook is silent."""
    if q.watched_since > step.now:
        return None
    error = pull_errors.error_of(step, q)
    if error is None or error.code == pull_errors.OFFSET_MOVED:
        return None if stale_heartbeat.comes_back(step, IncidentKey(CODE, str(q))) else CLEAR
    if pull_errors.is_outdated(step, q.mq.broker, error):
        return None
    step.schedule_check(error.over_at + 1)
    severity: Severity = "warning" if q.mq.is_retry else "critical"
    duration_ms = error.last - max(error.since, q.watched_since)  # a client that has left is refused no longer
    sub_cause, causes = _sub_cause(step, q, error), _causes(step, q, error)
    return Holds(severity, sub_cause, error.client_id, duration_ms=duration_ms, stamp=error.since, explained_by=causes)


def evidence(step: GroupStep, q: QueueFacts) -> Evidence:
    """Return the broker, the response code, and how often and since when pulls were answered with it."""
    hook_view = q.seen
    error = hook_view.pull_error if hook_view is not None else None
    if error is None:
        return {"broker": q.mq.broker, "limit_ms": step.policy.pull_refused_after}
    return {
        "broker": q.mq.broker,
        "code": f"{error.code} {_NAMES.get(error.code, '')}".rstrip(),
        "refused": error.count,
        "refused_since": error.since,
        "refused_ms": step.now - error.since,
        "limit_ms": step.policy.pull_refused_after,
    }


def _causes(step: GroupStep, q: QueueFacts, error: PullError) -> tuple[IncidentKey, ...]:
    """Return the open incidents that explain it: the broker knows the puller only by heartbeats that it takes."""
    return (
        stale_heartbeat.explains(step, q.mq.broker, error.client_id) if error.code in pull_errors.UNREGISTERED else ()
    )


def _sub_cause(step: GroupStep, q: QueueFacts, error: PullError) -> SubCause:
    found = _SUB_CAUSES.get(error.code, "ERROR")
    return "TOPIC_NOT_READABLE" if found == "NO_PERMISSION" and _is_of_topic(step, q, error) else found


def _is_of_topic(step: GroupStep, q: QueueFacts, error: PullError) -> bool:
    """Return whether the topic alone is not readable: its route shows it, or the broker serves the group's others."""
    route = (step.facts.routes or {}).get(q.mq.topic)
    if route is not None and not any(one.broker == q.mq.broker for one in route.queues):
        return True
    of_broker = [(mq.topic, seen) for mq, seen in step.facts.seen.items() if mq.broker == q.mq.broker]
    others = (seen for topic, seen in of_broker if topic != q.mq.topic)
    return any(seen.pull_error is None and seen.pull_time > error.since for seen in others)


RULE = QueueRule(
    CODE,
    judge,
    evidence,
    title="The broker refuses to deliver {subject}",
    units={
        "broker": "text",
        "code": "text",
        "refused": "count",
        "refused_since": "epoch_ms",
        "refused_ms": "ms",
        "limit_ms": "ms",
    },
    sub_causes=get_args(SubCause),
    concerns=concerns.PULL_REFUSED,
    needs=("HOOKS", "PULLS"),
    open_after=lambda policy: policy.pull_refused_after,
    absorbed_by=("NO_ACTIVE_CLIENTS_WITH_LAG", *OF_BROKER, "TELEMETRY_GAP"),
    advice={
        "NO_PERMISSION": Advice(
            short="reading is not permitted",
            what="The broker refuses every pull of the queue with code 16, NO_PERMISSION: nothing is consumed.",
            first_step=(
                "Check the group's consumeEnable (mqadmin updateSubGroup -s true), the topic's permission (mqadmin "
                "updateTopicPerm -p 6), the broker's brokerPermission, and the ACL."
            ),
            inspect=("MEMBERS", "PROGRESS"),
        ),
        "TOPIC_NOT_READABLE": Advice(
            short="the topic has no readable queue any more",
            what=(
                "The topic has no readable queue on the broker any more: the clients keep theirs, and every pull is "
                "refused with code 16, NO_PERMISSION."
            ),
            first_step="Give the topic its read permission back: mqadmin updateTopicPerm -p 6.",
            inspect=("BROKERS", "PROGRESS"),
        ),
        "TOPIC_NOT_EXIST": Advice(
            short="it does not have the topic",
            what="The broker refuses every pull of the queue with code 17: it does not have the topic.",
            first_step=(
                "Create the topic on this broker (mqadmin updateTopic), or remove it from the clients' subscriptions."
            ),
            inspect=("BROKERS",),
        ),
        "SUBSCRIPTION_NOT_EXIST": Advice(
            short="it knows no subscription of the group",
            what=(
                "The broker refuses every pull of the queue with code 24: it has no subscription of the group to the "
                "topic, because no heartbeat with it was accepted."
            ),
            first_step=(
                "Check whether the clients' heartbeats reach this broker and are accepted, and that all members "
                "subscribe to the topic."
            ),
            inspect=("MEMBERS",),
        ),
        "SUBSCRIPTION_NOT_LATEST": Advice(
            short="its subscription of the group is outdated",
            what=(
                "The broker refuses every pull of the queue with code 25: its subscription of the group is older than "
                "the client's."
            ),
            first_step="Give every member the same subscriptions, and restart all of them at once.",
            inspect=("MEMBERS", "COMPARE"),
        ),
        "GROUP_NOT_EXIST": Advice(
            short="the group was not created on it",
            what="The broker refuses every pull of the queue with code 26: the group was not created on it.",
            first_step="Create the group on this broker: mqadmin updateSubGroup.",
            inspect=("BROKERS",),
        ),
        "ERROR": Advice(
            short="every pull ends with an error",
            what="The broker answers every pull of the queue with an error: nothing is consumed.",
            first_step="Read the broker's log for this client and code; it has the reason.",
            inspect=("BROKERS", "MEMBERS"),
        ),
    },
)
