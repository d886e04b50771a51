"""ASSIGNMENT_SKEW: one member has far more queues than the others."""

from rebalance_model.observe.group.ghost_connections import is_listed_twice
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state import GroupState
from rebalance_model.observe.step import GroupStep

FACTOR, MORE = 2, 2
"""Strategies divide each topic separately, and the first clients get every remainder: this much skew is normal."""


def judge(step: GroupStep, _: str) -> Verdict:
    """Compare the largest share with the mean."""
    state = step.state
    if not state.rounds.known_at or not step.facts.is_divided:
        return None  # the queues without a known owner may belong to a member that has not answered
    who, most = _most(state)
    members, queues = len(state.members), sum(state.shares.values())
    if most * members <= FACTOR * queues or (most - MORE) * members <= queues:
        return CLEAR
    if is_listed_twice(state, who):
        return None  # two processes use one client id, and their shares are added up
    return Holds("info", client_id=who)


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return the largest share, the number of queues that members have, and the strategy."""
    who, most = _most(step.state)
    return {
        "client": who,
        "queues": most,
        "all_queues": sum(step.state.shares.values()),
        "members": len(step.state.members),
        "strategy": step.state.strategy,
    }


def _most(state: GroupState) -> tuple[str, int]:
    return max(state.shares.items(), key=lambda share: (share[1], share[0]), default=("", 0))


RULE = GroupRule(
    "ASSIGNMENT_SKEW",
    judge,
    evidence,
    follows=("MEMBERS", "DECLARED", "OWNERS", "ROUND"),
    title="The queues of {group} are unevenly divided",
    units={"client": "text", "queues": "count", "all_queues": "count", "members": "count", "strategy": "text"},
    needs=("POLLS", "OWNERS"),
    open_after=lambda policy: policy.assignment_settled_after,
    advice={
        "": Advice(
            what="One member has more than twice as many queues as the members have on average.",
            first_step=(
                "Check the strategy: AVG gives every topic's remainder to the first client ids, and a hash ring "
                "distributes unevenly."
            ),
            inspect=("MEMBERS",),
        ),
    },
)
