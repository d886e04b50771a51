"""ROUTE_VIEW_SPLIT: after a change of a topic's queues some clients use the new route, and some the old one.

No event shows a client's route. But a member that has exactly the share of the former route, and not that of the
present one, has not seen the change; clients query the name server every 30 s.
"""

from rebalance_model.allocation import AllocateStrategy, AllocationError
from rebalance_model.broker.consumer_group_info import ConsumerGroupInfo
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.group.expectation import group_info, is_divided, strategy_of
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state import GroupState, Route
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, _: str) -> Verdict:
    """Compare the members' queues with their shares, for each topic whose route has changed."""
    state = step.state
    verdict: Verdict = CLEAR
    for route in state.routes.values():
        due = route.changed_at + step.policy.assignment_settled_after
        if not route.former:
            continue
        if state.rounds.known_at <= due:
            verdict = None
        elif _behind(step, route):
            return Holds("info")
    return verdict


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return the topic, and the members with the former route."""
    for topic, route in step.state.routes.items():
        if route.former and (behind := _behind(step, route)):
            return {
                "topic": topic,
                "queues": len(route.queues),
                "former_queues": len(route.former),
                "behind": len(behind),
                "who": ", ".join(behind[:10]),
                "changed_ms": step.now - route.changed_at,
            }
    return {"behind": 0}


def _behind(step: GroupStep, route: Route) -> list[str]:
    """Return the members with the former route's share; empty unless another one has the present route's share."""
    state = step.state
    info, chosen = group_info(state), strategy_of(state, step.policy)
    if info is None or chosen is None or not is_divided(step) or not info.client_ids():
        return []
    has: dict[str, set[MessageQueue]] = {}
    for mq in dict.fromkeys((*route.queues, *route.former)):
        if (queue := state.queues.get(mq)) is not None and queue.owner is not None:
            has.setdefault(queue.owner, set()).add(mq)
    then, now = (_shares(state, info, chosen, queues) for queues in (route.former, route.queues))
    ahead = [c for c in state.members if has.get(c, set()) == now.get(c) != then.get(c)]
    behind = [c for c in state.members if has.get(c, set()) == then.get(c) != now.get(c)]
    return behind if ahead else []


def _shares(
    state: GroupState, info: ConsumerGroupInfo, chosen: AllocateStrategy, queues: tuple[MessageQueue, ...]
) -> dict[str, set[MessageQueue]]:
    try:
        plan = chosen.plan(state.group, queues, info.client_ids()) if queues else {}
    except AllocationError:  # thrown in each client, too, which then keeps its queues
        return {}
    return {cid: set(share or ()) for cid, share in plan.items()}


RULE = GroupRule(
    "ROUTE_VIEW_SPLIT",
    judge,
    evidence,
    units={
        "topic": "text",
        "queues": "count",
        "former_queues": "count",
        "behind": "count",
        "who": "text",
        "changed_ms": "ms",
    },
    needs=("POLLS", "OWNERS"),
    advice={
        "": Advice(
            what="The topic's queues have changed, and some members still divide the former ones.",
            first_step="Check that the named members reach the name server, which they query every 30 s.",
            inspect=("COMPARE",),
        ),
    },
)
