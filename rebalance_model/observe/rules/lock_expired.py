"""LOCK_EXPIRED: an ordered queue whose owner has not renewed its lock; the client refuses to consume it.

With the broker's hook judged by the broker's clock; by polls within one answer, or, for an owner that is silent, by how
long it has been (`ages`). Clear at a renewal, a release, or when the queue is granted to anyone.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.ages import Ages, hook_lock
from rebalance_model.observe.incidents import Clear, Holds, Verdict
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import GroupState

CODE = "LOCK_EXPIRED"


def judge(state: GroupState, mq: MessageQueue, ages: Ages | None, policy: Policy) -> Verdict:
    """The verdict on one queue by its owner's ages."""
    owner = state.queues[mq].owner
    if owner is None or ages is None:
        return Clear({"owner": owner})
    if ages.lock is None or not (ages.client.orderly or ages.lock_is_exact) or mq.is_retry:
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
        return None if ages.client.silent and not ages.lock_is_exact else Clear(evidence)
    critical = ages.lock > policy.broker_lock_max_live_time
    return Holds("critical" if critical else "warning", "", owner, evidence)


def due(state: GroupState, mq: MessageQueue, policy: Policy) -> int | None:
    """When an owner that is silent passes the next limit, by the collector's clock; None after the last.

    Where a hook tells of the lock, the broker's own clock says when: `hook.scan`.
    """
    client = state.clients.get(state.queues[mq].owner or "")
    if client is None or not client.orderly or mq.is_retry or not client.silent or hook_lock(state, mq) is not None:
        return None
    incident = state.incidents.get(f"{CODE} {mq}")
    if incident is not None and incident.severity == "critical":
        return None
    limit = policy.client_lock_max_live_time if incident is None else policy.broker_lock_max_live_time
    return client.unanswered_since + limit + 1
