"""MIXED_CONSUME_MODE: some members of one group consume in order, and others concurrently.

Whether a queue is consumed in order then depends on its owner, so the group guarantees no order. See `declarations`.
"""

from rebalance_model.observe.rules import declarations
from rebalance_model.observe.rules.rule import Advice, Evidence, GroupRule, Verdict
from rebalance_model.observe.state import ClientView
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, _: str) -> Verdict:
    """Judge by the kinds of listener that the clients declare."""
    return declarations.verdict(step.state, _consume_mode)


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return how many members declare which kind, and the first of those in the minority."""
    return declarations.who(step.state, _consume_mode)


def _consume_mode(client: ClientView) -> str:
    return "" if client.orderly is None else "ordered" if client.orderly else "concurrent"


RULE = GroupRule(
    "MIXED_CONSUME_MODE",
    judge,
    evidence,
    follows=("MEMBERS", "DECLARED", "ORDER"),
    title="{group} consumes both in order and concurrently",
    units=declarations.UNITS,
    needs=("POLLS", "ANSWERS"),
    advice={
        "": Advice(
            what=(
                "Some members consume in order and some concurrently: no queue's order is guaranteed, and retries use "
                "both mechanisms."
            ),
            first_step="Give every member the same kind of listener, or split the group into two.",
            inspect=("COMPARE",),
        ),
    },
)
