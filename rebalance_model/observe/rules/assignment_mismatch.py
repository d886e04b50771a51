"""ASSIGNMENT_MISMATCH: a queue stays with a member that should not have it according to the strategy.

Judged at an answer of the owner to a request that was sent later than 60 s after the last change in the group: every
client has rebalanced three times by then. While brokers list different members, each client works from one of the
lists, and no owner can be expected (CID_VIEW_SPLIT reports that). If the strategy was only inferred, the inference is
dropped instead. Clients that pull by themselves (CONSUME_ACTIVELY) or pop divide their queues by no known strategy.
"""

from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.group.route_views import member_lists
from rebalance_model.observe.rules import concerns, route_view_split
from rebalance_model.observe.rules.rule import CLEAR, OF_BROKER, Advice, Evidence, Holds, QueueRule, Verdict
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, q: QueueFacts) -> Verdict:
    """Compare the queue's owner with the expected owner."""
    state = step.state
    queue = q.queue
    if queue.owner == queue.expected_owner or queue.owner is None or queue.expected_owner is None or q.mq.is_retry:
        return CLEAR
    if state.strategy_basis == "INFERRED" or not step.facts.is_divided:
        return CLEAR
    owner = state.clients[queue.owner]
    settled = max(state.expected_at, state.owner_changed_at) + step.policy.assignment_settled_after
    lists = set(member_lists(state).values())
    if owner.silent or owner.asked_at_answer <= settled or len(lists) > 1:
        return None
    if route_view_split.may_explain(step, q.mq):
        return None
    return Holds("warning", client_id=queue.owner, explained_by=route_view_split.explains(step, q.mq))


def evidence(step: GroupStep, q: QueueFacts) -> Evidence:
    """Return the owner, the expected owner, and the strategy."""
    state = step.state
    queue = q.queue
    return {
        "owner": queue.owner,
        "expected_owner": queue.expected_owner,
        "strategy": state.strategy,
        "strategy_basis": state.strategy_basis,
        "settled_ms": step.now - max(state.expected_at, state.owner_changed_at),
        "limit_ms": step.policy.assignment_settled_after,
    }


RULE = QueueRule(
    "ASSIGNMENT_MISMATCH",
    judge,
    evidence,
    title="{subject} is with the wrong client",
    units={
        "owner": "text",
        "expected_owner": "text",
        "strategy": "text",
        "strategy_basis": "text",
        "settled_ms": "ms",
        "limit_ms": "ms",
    },
    concerns=concerns.MISPLACED,
    needs=("POLLS", "OWNERS"),
    absorbed_by=(
        "LOCK_ORPHANED",
        *OF_BROKER,
        "TELEMETRY_GAP",
        "REBALANCE_STORM",
        "MIXED_MEMBERS",
    ),
    advice={
        "": Advice(
            what=(
                "The queue stays with a member that should not have it according to the strategy and the members "
                "that the broker lists."
            ),
            first_step=(
                "Look for `rebalanced result changed` in the owner's log: it uses another list of members or queues."
            ),
            inspect=("COMPARE",),
        ),
    },
)
