"""Declarations that all members of a group must share: the strategy and the kind of listener.

A difference counts when the clients that differ have each declared it in two answers. The last declaration of an
unresponsive client stays valid.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeAlias

from rebalance_model.entities import java_order
from rebalance_model.observe.polls.answers import DECLARED
from rebalance_model.observe.rules.rule import CLEAR, Evidence, Holds, Unit, Verdict
from rebalance_model.observe.state import ClientView, GroupState

Declares: TypeAlias = Callable[[ClientView], str]
"""Returns what a client declares; empty if it declares nothing."""
UNITS: Mapping[str, Unit] = {"declared": "text", "members": "text"}
"""Units of the fields that `who` returns."""


def verdict(state: GroupState, declares: Declares) -> Verdict:
    """Judge whether all clients declare the same."""
    clients = state.clients.values()
    declared = {(what, client.declared >= DECLARED) for client in clients if (what := declares(client))}
    if len({what for what, sure in declared if sure}) > 1:
        return Holds("critical")
    return CLEAR if len({what for what, _ in declared}) <= 1 else None


def who(state: GroupState, declares: Declares) -> Evidence:
    """Return how many members declare what, and the first member in the minority."""
    declared = {member: declares(client) for member in state.members if (client := state.clients[member]).answered}
    counted = Counter(declared.values())
    rarest = min(counted, key=lambda what: (counted[what], what), default="")
    names = sorted((member for member, what in declared.items() if what == rarest), key=java_order)
    return {
        "declared": ", ".join(f"{what or 'nothing'} by {n}" for what, n in counted.most_common()),
        "members": ", ".join(names[:10]),
    }
