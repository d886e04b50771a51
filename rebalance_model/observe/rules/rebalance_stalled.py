"""REBALANCE_STALLED: members or routes have changed, and with them the strategy's answer, but no queue has moved.

A client rebalances in one thread: an RPC that hangs in it keeps the client as it was (#3138). Queues that wait for
something else do not count: a lock that the broker keeps for a client that is gone, a listener that keeps a queue from
being unlocked, a member that is silent. Nor is anything stalled where a member has taken its queues and others
keep them (QUEUE_DOUBLE_OWNED). While brokers list different members there is no one answer of the strategy.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.group.ages import hook_lock
from rebalance_model.observe.group.expectation import is_divided
from rebalance_model.observe.rules import cid_view_split
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state import GroupState, QueueState
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, _: str) -> Verdict:
    """By the time since the strategy's answer changed, in which every member has answered."""
    state = step.state
    if (
        not 0 < state.owner_changed_at < state.expected_at
        or state.strategy_basis in ("", "INFERRED")
        or not is_divided(state)
    ):
        return CLEAR
    behind = _behind(step)
    if not behind or any(state.queues[mq].rival == state.queues[mq].expected for mq in behind):
        return CLEAR
    since = min(max(state.expected_at, _free_at(step, mq), state.queues[mq].released_at or 0) for mq in behind)
    if state.rounds.known_at <= since + step.policy.assignment_settled_after or cid_view_split.is_split(step):
        return None  # asked again when all have answered (`rounds`)
    return Holds("warning")


def evidence(step: GroupStep, _: str) -> Evidence:
    """What waits, and for whom."""
    state = step.state
    behind = _behind(step)
    return {
        "queues_behind": len(behind),
        "first": str(behind[0]) if behind else None,
        "owner": state.queues[behind[0]].owner if behind else None,
        "expected_owner": state.queues[behind[0]].expected if behind else None,
        "changed_ms": step.now - state.expected_at,
        "limit_ms": step.policy.assignment_settled_after,
    }


def _behind(step: GroupStep) -> list[MessageQueue]:
    """Queues that could be where the strategy puts them, and are not."""
    state = step.state
    return [
        mq
        for mq, queue in state.queues.items()
        if queue.owner != queue.expected and queue.in_route and not mq.is_retry and _could_move(state, queue)
    ]


def _could_move(state: GroupState, queue: QueueState) -> bool:
    concerned = (state.clients.get(client_id) for client_id in (queue.owner, queue.expected) if client_id is not None)
    return queue.expected is not None and queue.dropped_by is None and not any(c and c.silent for c in concerned)


def _free_at(step: GroupStep, mq: MessageQueue) -> int:
    """When the lock of an owner that is gone runs out, by the group's clock; 0 where there is none."""
    entry, hook = hook_lock(step.state, mq), step.live_hook(step.state.views.get(mq.broker))
    if entry is not None and hook is not None and entry.client_id not in step.state.members:
        age = step.now - entry.last_update_timestamp
        return step.now + step.policy.broker_lock_max_live_time - age
    return step.state.queues[mq].lock_free_at or 0


RULE = GroupRule(
    "REBALANCE_STALLED",
    judge,
    evidence,
    units={
        "queues_behind": "count",
        "first": "text",
        "owner": "text",
        "expected_owner": "text",
        "changed_ms": "ms",
        "limit_ms": "ms",
    },
    needs=("POLLS", "OWNERS"),
    absorbed_by=("REBALANCE_STORM", "TELEMETRY_GAP"),
    advice={
        "": Advice(
            what="The strategy's answer has changed, and no queue has moved since: a rebalance thread hangs.",
            first_step=(
                "Take a thread dump of the owner named and look at RebalanceService; check its RPCs to the broker."
            ),
        ),
    },
)
