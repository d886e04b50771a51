"""REBALANCE_STALLED: members or routes have changed, and with them the strategy's answer, but no queue has moved.

A client rebalances in one thread: an RPC that hangs in it keeps the client as it was (#3138). Queues that wait for
something else do not count: a lock that the broker keeps for a client that is gone, a listener that keeps a queue from
being unlocked, a member that is silent. Nor is anything stalled where a member has taken its queues and others
keep them (QUEUE_DOUBLE_OWNED). While brokers list different members there is no one answer of the strategy.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.group.expectation import is_divided
from rebalance_model.observe.state import GroupState, QueueState
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.ages import hook_lock
from rebalance_model.observe.verdicts.rules import cid_view_split
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict


def judge(turn: Turn, _: str) -> Verdict:
    """By the time since the strategy's answer changed, in which every member has answered."""
    state = turn.state
    if not 0 < state.moved_at < state.expected_at or state.strategy_basis in ("", "INFERRED") or not is_divided(state):
        return CLEAR
    behind = _behind(turn)
    if not behind or any(state.queues[mq].rival == state.queues[mq].expected for mq in behind):
        return CLEAR
    since = min(max(state.expected_at, _free_at(turn, mq), state.queues[mq].released_at or 0) for mq in behind)
    if state.rounds.known_at <= since + turn.policy.assignment_settled_after or cid_view_split.is_split(turn):
        return None  # asked again when all have answered (`rounds`)
    return Holds("warning")


def evidence(turn: Turn, _: str) -> Evidence:
    """What waits, and for whom."""
    state = turn.state
    behind = _behind(turn)
    return {
        "queues_behind": len(behind),
        "first": str(behind[0]) if behind else None,
        "owner": state.queues[behind[0]].owner if behind else None,
        "expected_owner": state.queues[behind[0]].expected if behind else None,
        "changed_ms": turn.now - state.expected_at,
        "limit_ms": turn.policy.assignment_settled_after,
    }


def _behind(turn: Turn) -> list[MessageQueue]:
    """Queues that could be where the strategy puts them, and are not."""
    state = turn.state
    return [
        mq
        for mq, queue in state.queues.items()
        if queue.owner != queue.expected and queue.in_route and not mq.is_retry and _could_move(state, queue)
    ]


def _could_move(state: GroupState, queue: QueueState) -> bool:
    concerned = (state.clients.get(client_id) for client_id in (queue.owner, queue.expected) if client_id is not None)
    return queue.expected is not None and queue.dropped_by is None and not any(c and c.silent for c in concerned)


def _free_at(turn: Turn, mq: MessageQueue) -> int:
    """When the lock of an owner that is gone runs out, by the group's clock; 0 where there is none."""
    entry, hook = hook_lock(turn.state, mq), turn.live_hook(turn.state.views.get(mq.broker))
    if entry is not None and hook is not None and entry.client_id not in turn.state.members:
        age = turn.now - entry.last_update_timestamp
        return turn.now + turn.policy.broker_lock_max_live_time - age
    return turn.state.queues[mq].lock_free_at or 0


RULE = Rule("REBALANCE_STALLED", judge, evidence, absorbed_by=("REBALANCE_STORM", "TELEMETRY_GAP"))
