"""PULL_EXPIRED: a push client has not pulled from its queue for longer than pullMaxIdleTime.

The client repairs that itself at its next rebalance (it drops the queue and starts it anew), so in polls it shows
for 20 s at most. Clear when a pull is seen or the queue goes to another.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.ages import Ages
from rebalance_model.observe.expectation import group_info
from rebalance_model.observe.incidents import Clear, Holds, Verdict
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import GroupState

CODE = "PULL_EXPIRED"
PUSH = "CONSUME_PASSIVELY"


def judge(state: GroupState, mq: MessageQueue, ages: Ages | None, policy: Policy) -> Verdict:
    """The verdict on one queue by its owner's ages."""
    owner = state.queues[mq].owner
    if owner is None or ages is None:
        return Clear({"owner": owner})
    if ages.queue is None or ages.pull is None or not _applies(state, mq):
        return None
    expired = ages.pull > policy.pull_max_idle_time
    if not expired and not state.incidents:
        return None  # nothing to open and nothing to resolve: the usual case
    evidence: dict[str, int | str | bool | None] = {
        "owner": owner,
        "pull_age_ms": ages.pull,
        "limit_ms": policy.pull_max_idle_time,
        "cached_count": ages.queue.cached_count,
        "silent": ages.client.silent,
    }
    if not expired:
        return None if ages.client.silent else Clear(evidence)
    return Holds("critical", "", owner, evidence)


def due(state: GroupState, mq: MessageQueue, policy: Policy) -> int | None:
    """When the queue of an owner that is silent pull-expires, by the collector's clock; None once it has."""
    client = state.clients.get(state.queues[mq].owner or "")
    if client is None or not _applies(state, mq) or not client.silent or f"{CODE} {mq}" in state.incidents:
        return None
    return client.unanswered_since + policy.pull_max_idle_time + 1


def _applies(state: GroupState, mq: MessageQueue) -> bool:
    info = group_info(state)
    return info is not None and info.consume_type == PUSH and not mq.is_retry
