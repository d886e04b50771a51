"""Rounds of polls 10 s apart, as the collector's are, and the rules that use them.

``FOUR`` is a healthy pair: AVG gives a the queues 0 and 1, b 2 and 3.
"""

from dataclasses import replace

import msgspec

from rebalance_model.observe.effects import IncidentTransition
from tests.support.trace import Member, Trace, holding

CIRCLE = "AllocateMessageQueueAveragelyByCircle"
HASH = "AllocateMessageQueueConsistentHash"
OWN = "com.example.MyStrategy"
FOUR = {"a": holding(0, 1), "b": holding(2, 3)}
MINE = (
    "QUEUE_UNASSIGNED",
    "QUEUE_DOUBLE_OWNED",
    "ASSIGNMENT_MISMATCH",
    "STRATEGY_MISMATCH",
    "MIXED_CONSUME_MODE",
    "ZOMBIE_QUEUE",
    "UNLOCK_PENDING",
    "CLIENT_UNRESPONSIVE",
    "CONSUMER_IDLE",
    "ASSIGNMENT_SKEW",
    "ROUTE_VIEW_SPLIT",
    "REBALANCE_STALLED",
    "QUEUE_STALLED",
)
"""The rules of this table: other rules may also report in a trace (the clients' clocks are hours off)."""


def rounds(trace: Trace, start: float, stop: float, members: dict[str, Member], lag: int | None = None) -> Trace:
    """Add a round every 10 s, the last one before ``stop``; ``lag`` is the increase of every queue's lag per round."""
    at = start
    while at < stop:
        grown = round(at / 10) * (lag or 0)
        trace.poll(at, members, None if lag is None else dict.fromkeys(range(4), (200 + grown, 100)))
        at += 10
    return trace


def concurrent(*queue_ids: int, **fields: object) -> Member:
    return replace(holding(*queue_ids, **fields), orderly=False)


def evidence(trace: Trace, code: str) -> dict[str, object]:
    """Return the evidence of the first transition of this code."""
    first = next(e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == code)
    assert first.explanation
    assert first.first_step
    return msgspec.json.decode(first.evidence)
