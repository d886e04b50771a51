"""What a rule is, and what it says of one subject."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.turn import ClusterStep, Turn

Severity = Literal["info", "warning", "critical"]
Evidence: TypeAlias = dict[str, int | str | bool | None]
"""The numbers behind a verdict; what a person would check first, first."""


class Holds(msgspec.Struct, frozen=True, gc=False):
    """What is wrong is there."""

    severity: Severity
    sub_cause: str = ""
    client_id: str | None = None
    """Whose fault it is, where it is one client's."""
    held: int | None = None
    """For how long it has held, milliseconds, where the evidence says so; None: since it was first judged so."""
    stamp: int | None = None
    """When what first shows it was stamped, which is in the incident's id; None: now."""


class Clear(msgspec.Struct, frozen=True, gc=False):
    """It is not there, on good evidence."""


CLEAR = Clear()
Verdict: TypeAlias = Holds | Clear | None
"""None: not known, or not yet. That freezes the rule for this subject: nothing opens or resolves, no time counts."""

Subject = TypeVar("Subject", MessageQueue, str)
StepT = TypeVar("StepT", Turn, ClusterStep)


def _at_once(_: Policy) -> int:
    return 0


@dataclass(frozen=True)
class Rule(Generic[StepT, Subject]):
    """One rule of detection.md, about a group or about a cluster.

    The subject is a queue; a client's id, a broker's name, a rebalance's id, or "" for the group; of a cluster a
    broker's name or a collector's.
    """

    code: str
    judge: Callable[[StepT, Subject], Verdict]
    """Pure, total and cheap. What time alone may change it asks for by `Turn.schedule_check`."""
    evidence: Callable[[StepT, Subject], Evidence]
    """Asked for at a transition only."""
    open_after: Callable[[Policy], int] = _at_once
    """How long it must hold before it opens, milliseconds."""
    clear_after: Callable[[Policy], int] = _at_once
    """How long it must be clear before it resolves, milliseconds."""
    absorbed_by: tuple[str, ...] = ()
    """Codes of what explains it: while one of them is open, on the same queue, broker or group, it is its child."""
