"""STRATEGY_MISMATCH and MIXED_CONSUME_MODE: what every member of a group must declare alike.

Each client works out its own share: two strategies give some queues two owners and others none. A group that consumes
one queue in order and another one not, depending on who has it, keeps no order at all. Told when clients that differ
have each said so in two answers; of a client that is silent its last word stands.
"""

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from rebalance_model.entities import java_order
from rebalance_model.observe.polls.answers import DECLARED
from rebalance_model.observe.state import ClientView, GroupState
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict

_Declares: TypeAlias = Callable[[ClientView], str]


def _strategy(client: ClientView) -> str:
    return client.strategy


def _consume_mode(client: ClientView) -> str:
    return "" if client.orderly is None else "ordered" if client.orderly else "concurrent"


def _verdict(state: GroupState, declares: _Declares) -> Verdict:
    said = {(declares(client), client.declared >= DECLARED) for client in state.clients.values() if declares(client)}
    if len({what for what, sure in said if sure}) > 1:
        return Holds("critical")
    return CLEAR if len({what for what, _ in said}) <= 1 else None


def _who(state: GroupState, declares: _Declares) -> Evidence:
    """How many members declare what, and the first of those in the minority."""
    said = {member: declares(client) for member in state.members if (client := state.clients[member]).answered}
    counted = Counter(said.values())
    rarest = min(counted, key=lambda what: (counted[what], what), default="")
    names = sorted((member for member, what in said.items() if what == rarest), key=java_order)
    return {
        "declared": ", ".join(f"{what or 'nothing'} by {n}" for what, n in counted.most_common()),
        "members": ", ".join(names[:10]),
    }


def _rule(code: str, declares: _Declares) -> Rule[Turn, str]:
    def judge(turn: Turn, _: str) -> Verdict:
        return _verdict(turn.state, declares)

    def evidence(turn: Turn, _: str) -> Evidence:
        return _who(turn.state, declares)

    return Rule(code, judge, evidence)


STRATEGY_MISMATCH = _rule("STRATEGY_MISMATCH", _strategy)
MIXED_CONSUME_MODE = _rule("MIXED_CONSUME_MODE", _consume_mode)
