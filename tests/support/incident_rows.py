"""The rows of incidents of a trace, by their codes."""

import msgspec

from rebalance_model.observe.effects import IncidentTransition
from tests.support.trace import Trace


def transitions_of(trace: Trace, *codes: str) -> list[tuple[float, str, str]]:
    """Return every transition of these codes: (seconds of the trace to the millisecond, transition, code and cause)."""
    return [(round(at, 3), what, name) for at, what, name in trace.incidents(*codes)]


def distinct_transitions(trace: Trace, *codes: str) -> list[tuple[float, str, str]]:
    """Return the same, but one row for all subjects that share it."""
    return list(dict.fromkeys(transitions_of(trace, *codes)))


def rows(trace: Trace, code: str) -> list[IncidentTransition]:
    """Return the rows of this code."""
    return [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == code]


def evidence(trace: Trace, code: str) -> list[dict[str, object]]:
    """Return the evidence of each row of this code."""
    return [msgspec.json.decode(row.evidence) for row in rows(trace, code)]
