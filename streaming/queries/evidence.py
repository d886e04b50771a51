"""Format the evidence of an incident, each field by the unit that its rule declares."""

from collections.abc import Mapping

from rebalance_model.observe.rules.registry import unit_of
from streaming.queries.labels import NOT_KNOWN, duration, moment, yes_no


def evidence_items(code: str, evidence: Mapping[str, object], now: int) -> list[tuple[str, str]]:
    """Return the known fields as pairs of label and formatted value.

    Args:
        code: the code of the incident.
        evidence: the evidence of one of its transitions, as in its row.
        now: epoch milliseconds; a time on another day is shown with its date.
    """
    return [
        (label(code, name), _shown(code, name, value, now))
        for name, value in evidence.items()
        if value is not None and value != ""
    ]


def label(code: str, name: str) -> str:
    """Return the label of a field: its name without the unit, which the value has."""
    return (name.replace("_ms", "") if unit_of(code, name) == "ms" else name).replace("_", " ")


def _shown(code: str, name: str, value: object, now: int) -> str:
    if isinstance(value, bool):
        return yes_no(value)
    unit = unit_of(code, name)
    if isinstance(value, int) and unit == "ms":
        return f"-{duration(-value)}" if value < 0 else duration(value)
    if isinstance(value, int) and unit == "epoch_ms":
        return moment(value, now) if value else NOT_KNOWN
    return str(value)
