"""LOCK_EXPIRED: an ordered queue whose owner has not renewed its lock; the client refuses to consume it.

Judged within one answer; for an owner that is silent, by how long it has been (`ages`). Clear at a renewal,
a release, or when the queue is granted to anyone.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.ages import Ages
from rebalance_model.observe.incidents import Clear, Holds, Verdict
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import GroupState

CODE = "LOCK_EXPIRED"


def judge(state: GroupState, mq: MessageQueue, ages: Ages | None, policy: Policy) -> Verdict:
    """The verdict on one queue by its owner's ages."""
    owner = state.queues[mq].owner
    if owner is None or ages is None:
        return Clear({"owner": owner})
    if not ages.client.orderly or mq.is_retry:
        return None
    expired = ages.lock > policy.client_lock_max_live_time
    if not expired and not state.incidents:
        return None  # nothing to open and nothing to resolve: the usual case
    evidence: dict[str, int | str | bool | None] = {
        "owner": owner,
        "lock_age_ms": ages.lock,
        "limit_ms": policy.client_lock_max_live_time,
        "broker_limit_ms": policy.broker_lock_max_live_time,
        "silent": ages.client.silent,
    }
    if not expired:
        return None if ages.client.silent else Clear(evidence)
    critical = ages.lock > policy.broker_lock_max_live_time
    return Holds("critical" if critical else "warning", "", owner, evidence)


def due(state: GroupState, mq: MessageQueue, policy: Policy) -> int | None:
    """When an owner that is silent passes the next limit, by the collector's clock; None after the last."""
    ages = Ages.of(state, mq, 0)
    if ages is None or not ages.client.orderly or mq.is_retry or not ages.client.silent:
        return None
    incident = state.incidents.get(f"{CODE} {mq}")
    if incident is not None and incident.severity == "critical":
        return None
    limit = policy.client_lock_max_live_time if incident is None else policy.broker_lock_max_live_time
    return ages.client.unanswered_since + limit + 1
