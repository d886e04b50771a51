"""Check rows of incidents against the declarations of their rules."""

import msgspec

from rebalance_model.observe.effects import AnyEffect, IncidentTransition
from rebalance_model.observe.rules.registry import RULES, unit_of
from rebalance_model.observe.rules.rule import Unit

_TYPES: dict[Unit, type] = {"flag": bool, "text": str}
_SUB_CAUSES = {(rule.code, sub_cause) for rule in RULES for sub_cause in rule.sub_causes}


def undeclared(effect: AnyEffect) -> str | None:
    """Return the part of a row that no rule of its code declares; None if there is none."""
    if not isinstance(effect, IncidentTransition):
        return None
    if (effect.code, effect.sub_cause) not in _SUB_CAUSES:
        return f"{effect.code}: sub-cause {effect.sub_cause!r}"
    for name, value in msgspec.json.decode(effect.evidence).items():
        unit = unit_of(effect.code, name)
        if unit is None or (value is not None and type(value) is not _TYPES.get(unit, int)):
            return f"{effect.code}: {name} = {value!r} as {unit}"
    return None
