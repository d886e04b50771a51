"""STRATEGY_MISMATCH: members of one group divide its queues by different strategies.

Each client computes its own share: two strategies give some queues two owners and others none. See `declarations`.
"""

from rebalance_model.observe.rules import declarations
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, GroupRule, Verdict
from rebalance_model.observe.state import ClientView
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, _: str) -> Verdict:
    """Judge by the strategies that the clients declare; where they pop every topic, none divides any."""
    if step.facts.division == "POPPED":
        return CLEAR
    return declarations.verdict(step.state, _strategy)


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return how many members declare which strategy, and the first of those in the minority."""
    return declarations.who(step.state, _strategy)


def _strategy(client: ClientView) -> str:
    return client.strategy


RULE = GroupRule(
    "STRATEGY_MISMATCH",
    judge,
    evidence,
    follows=("MEMBERS", "DECLARED", "POPPED"),
    title="Members of {group} use different strategies",
    units=declarations.UNITS,
    needs=("POLLS", "ANSWERS"),
    advice={
        "": Advice(
            what="The members divide the queues by different strategies: some queues have two owners, and some none.",
            first_step="Deploy one allocateMessageQueueStrategy to all members.",
            inspect=("COMPARE",),
        ),
    },
)
