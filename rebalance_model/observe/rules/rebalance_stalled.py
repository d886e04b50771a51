"""REBALANCE_STALLED: members or routes have changed, and with them the expected assignment, but no queue has moved.

A client rebalances in one thread: an RPC that hangs in it blocks all rebalancing (#3138). Queues that wait for
something else do not count: a lock that the broker keeps for a client that is gone, a listener that prevents a queue
from being unlocked, a member that does not answer, an expected owner that does not subscribe to the topic. The
rebalance is not stalled either if one member has taken its queues while another keeps them (QUEUE_DOUBLE_OWNED). While
brokers list different members the expected assignment is ambiguous, and nothing is judged.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.rules import cid_view_split, route_view_split, subscription_inconsistent
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state import GroupState, QueueState
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, _: str) -> Verdict:
    """Check the time since the expected assignment changed, in which every member must have answered."""
    state = step.state
    if (
        not 0 < state.owner_changed_at < state.expected_at
        or state.strategy_basis in ("", "INFERRED")
        or not step.facts.is_divided
    ):
        return CLEAR
    behind = _behind(step)
    if not behind or any(state.queues[mq].rival == state.queues[mq].expected_owner for mq in behind):
        return CLEAR
    since = min(max(state.expected_at, _free_at(step, mq), state.queues[mq].released_at or 0) for mq in behind)
    if state.rounds.known_at <= since + step.policy.assignment_settled_after or cid_view_split.is_split(step):
        return None  # judged again when all have answered (`rounds`)
    if route_view_split.may_explain(step, *behind):
        return None
    return Holds("warning", explained_by=route_view_split.explains(step, *behind))


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return how many queues wait, and the first of them with its owner and expected owner."""
    state = step.state
    behind = _behind(step)
    return {
        "queues_behind": len(behind),
        "first": str(behind[0]) if behind else None,
        "owner": state.queues[behind[0]].owner if behind else None,
        "expected_owner": state.queues[behind[0]].expected_owner if behind else None,
        "changed_ms": step.now - state.expected_at,
        "limit_ms": step.policy.assignment_settled_after,
    }


def _behind(step: GroupStep) -> list[MessageQueue]:
    """Return queues that could be with their expected owner, and are not."""
    state = step.state
    return [
        mq
        for mq, queue in state.queues.items()
        if queue.owner != queue.expected_owner and queue.in_route and not mq.is_retry and _could_move(state, queue)
        if not subscription_inconsistent.is_left(step, mq.topic, queue.expected_owner)
    ]


def _could_move(state: GroupState, queue: QueueState) -> bool:
    concerned = (
        state.clients.get(client_id) for client_id in (queue.owner, queue.expected_owner) if client_id is not None
    )
    return queue.expected_owner is not None and queue.dropped_by is None and not any(c and c.silent for c in concerned)


def _free_at(step: GroupStep, mq: MessageQueue) -> int:
    """Return when the lock of a vanished owner expires, by the group's clock (epoch ms); 0 if there is none."""
    entry = step.facts.calls_at(mq.broker).locks.get(mq)
    if entry is not None and entry.client_id not in step.facts.members:
        return entry.last_update_timestamp + step.policy.broker_lock_max_live_time
    return step.state.queues[mq].lock_free_at or 0


RULE = GroupRule(
    "REBALANCE_STALLED",
    judge,
    evidence,
    follows=("MEMBERS", "CHANNELS", "DECLARED", "SUBSCRIPTIONS", "OWNERS", "ROUND", "ROUTES", "POPPED"),
    title="{group} should rebalance and does not",
    units={
        "queues_behind": "count",
        "first": "text",
        "owner": "text",
        "expected_owner": "text",
        "changed_ms": "ms",
        "limit_ms": "ms",
    },
    needs=("POLLS", "OWNERS"),
    absorbed_by=("REBALANCE_STORM", "MIXED_MEMBERS", "TELEMETRY_GAP"),
    advice={
        "": Advice(
            what="The expected assignment has changed, but no queue has moved since: a rebalance thread hangs.",
            first_step=(
                "Take a thread dump of the named owner and look at RebalanceService; check its RPCs to the broker."
            ),
            inspect=("THREADS",),
        ),
    },
)
