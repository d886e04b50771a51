"""The strategies that can be simulated for a group: all six of RocketMQ, if the policy states what they need."""

from collections.abc import Mapping

from msgspec.structs import replace

from rebalance_model.allocation import AllocateStrategy
from rebalance_model.observe.group.configured_strategy import configured_strategy
from rebalance_model.observe.policy import NEARBY, NEED_NO_PARAMETERS, Policy
from streaming.base.language import gettext
from streaming.base.nearest import one_of
from streaming.queries.labels import strategy_name

STRATEGIES = (*NEED_NO_PARAMETERS, "CONFIG", "MACHINE_ROOM", NEARBY)
"""The strategies of RocketMQ."""

Known = AllocateStrategy | str
"""A strategy, or the sentence that says what it lacks."""


def own_name(policy: Policy, declared: str | None) -> str:
    """Return the name of a group's own strategy.

    Args:
        policy: the group's policy.
        declared: the Java class that its clients declare; None: they differ, or none has answered.
    """
    return _short(policy.allocate_strategy) or strategy_name(declared)


def strategies_of(policy: Policy, own: str, asked: str | None = None) -> Mapping[str, Known]:
    """Return the strategies to compare for a group, its own first.

    One whose parameters the policy does not state is left out, unless it is the group's own or is asked for.

    Raises:
        InvalidValueError: the strategy that is asked for is none of RocketMQ's.
    """
    if asked:
        asked = one_of("strategy", asked, STRATEGIES)
    known = {name: _known(policy, name) for name in STRATEGIES}
    shown = [name for name, one in known.items() if not isinstance(one, str) or name in {own, asked}]
    return {name: known[name] for name in sorted(shown, key=lambda name: name != own)}


def _short(name: str) -> str:
    """Return the name of a strategy without that of its inner one."""
    return NEARBY if name.startswith(NEARBY) else name


def _known(policy: Policy, name: str) -> Known:
    """Return a strategy with the parameters that the policy states for it."""
    full = name
    if name == NEARBY:
        full = policy.allocate_strategy if policy.allocate_strategy.startswith(NEARBY) else f"{NEARBY}-AVG"
    try:
        stated = replace(policy, allocate_strategy=full)
    except ValueError as error:  # a parameter is missing
        return gettext("{reason}: state it in the policy", reason=str(error).removeprefix("allocate_strategy "))
    chosen = configured_strategy(stated)
    assert chosen is not None
    return chosen
