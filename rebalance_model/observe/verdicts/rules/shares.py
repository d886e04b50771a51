"""CONSUMER_IDLE and ASSIGNMENT_SKEW: members that have nothing to do, and one that has far more than the others."""

from rebalance_model.entities import RETRY_TOPIC_PREFIX
from rebalance_model.observe.group.expectation import group_info, is_divided
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import GroupState
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict

_NAMED = 10
_SKEW_FACTOR, _SKEW_MORE = 2, 2
"""Strategies deal out each topic by itself, and the first clients get every remainder: so much is usual."""


def _queues(state: GroupState) -> int | None:
    """How many queues the group's topics have; None as long as the route of one is not known."""
    info, queues = group_info(state), 0
    for topic in info.subscription_table if info is not None else ():
        if topic.startswith(RETRY_TOPIC_PREFIX):
            continue
        if (route := state.routes.get(topic)) is None:
            return None
        queues += len(route.queues)
    return queues


def _idle(state: GroupState) -> list[str]:
    return [member for member in state.members if member not in state.shares]


def _judge_idle(turn: Turn, _: str) -> Verdict:
    state = turn.state
    queues = _queues(state)
    if queues is None:
        return None
    if not 0 < queues < len(state.members) or not is_divided(state):
        return CLEAR
    return Holds("info")


def _idle_evidence(turn: Turn, _: str) -> Evidence:
    idle = _idle(turn.state)
    return {
        "members": len(turn.state.members),
        "queues": _queues(turn.state),
        "idle": len(idle),
        "who": ", ".join(idle[:_NAMED]),
    }


def _most(state: GroupState) -> tuple[str, int]:
    return max(state.shares.items(), key=lambda share: (share[1], share[0]), default=("", 0))


def _judge_skew(turn: Turn, _: str) -> Verdict:
    state = turn.state
    if not state.rounds.known_at or not is_divided(state):
        return None  # a member that has not answered may have what nobody is known to have
    who, most = _most(state)
    members, queues = len(state.members), sum(state.shares.values())
    if most * members <= _SKEW_FACTOR * queues or (most - _SKEW_MORE) * members <= queues:
        return CLEAR
    if any(view.info.client_ids().count(who) > 1 for view in state.views.values()):
        return None  # two processes by one id, and its share is theirs together
    return Holds("info", client_id=who)


def _skew_evidence(turn: Turn, _: str) -> Evidence:
    who, most = _most(turn.state)
    return {
        "client": who,
        "queues": most,
        "all_queues": sum(turn.state.shares.values()),
        "members": len(turn.state.members),
        "strategy": turn.state.strategy,
    }


def _settled(policy: Policy) -> int:
    return policy.assignment_settled_after


CONSUMER_IDLE = Rule("CONSUMER_IDLE", _judge_idle, _idle_evidence, open_after=_settled)
ASSIGNMENT_SKEW = Rule("ASSIGNMENT_SKEW", _judge_skew, _skew_evidence, open_after=_settled)
