"""Conditions of rules, derived from the ground truth."""

from collections.abc import Iterator
from dataclasses import dataclass

from rebalance_model.entities import MessageQueue
from tests.detection.snapshot import Snapshot

SECOND = 1_000
"""In milliseconds."""
NONE: frozenset[str] = frozenset()
"""The condition holds by the widest reading of its rule: an incident is correct, but not required."""
HOOK, POLL, EITHER = frozenset({"hook"}), frozenset({"poll"}), frozenset({"hook", "poll"})
"""The kinds of telemetry each of which shows the condition: there an incident is required."""
COMBINED = frozenset({"both"})
"""Only hook and polls together show the condition: one reports that the other is silent."""


@dataclass(frozen=True)
class Condition:
    """The condition of a rule holds for one subject, now."""

    code: str
    subject: str
    required: frozenset[str] = NONE
    """The kinds of telemetry (hook, poll, both) by which an incident is required."""
    since: int | None = None
    """When it began, if that was before the oracle could know it; epoch milliseconds."""


Conditions = Iterator[Condition]
"""What an oracle returns; `oracle.py` finds the oracles by it."""


def required(snapshot: Snapshot, mq: MessageQueue, telemetry: frozenset[str], when: bool = True) -> frozenset[str]:
    """Return those of the kinds of telemetry that report the queue's broker, polls only if its holders answer them.

    None unless `when`.
    """
    reporting = snapshot.telemetry_of(mq.broker)
    if not all(snapshot.answers(client) for client, _ in snapshot.holders.get(mq, ())):
        reporting -= POLL
    return telemetry & reporting if when else NONE
