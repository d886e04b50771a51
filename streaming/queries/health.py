"""Health, severity, and kinds of queues without an owner: order, labels and numbers for pages, CLI and REST."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, TypeAlias

from rebalance_model.observe import effects
from rebalance_model.observe.rules import rule
from streaming.base.language import gettext
from streaming.queries.labels import NOT_KNOWN


class WithoutOwner(Enum):
    """The meaning of a queue that has no known owner."""

    UNASSIGNED = "UNASSIGNED"
    """It should have an owner: each queue of the group has one."""
    EVERY_CLIENT = "EVERY_CLIENT"
    """Every client reads it (BROADCASTING)."""
    SHARED = "SHARED"
    """Clients pop it together."""
    UNKNOWN = "UNKNOWN"
    """Telemetry does not show its owner."""

    @property
    def label(self) -> str:
        """The text in place of an owner."""
        match self:
            case WithoutOwner.UNASSIGNED:
                return gettext("unassigned")
            case WithoutOwner.EVERY_CLIENT:
                return gettext("every client")
            case WithoutOwner.SHARED:
                return gettext("shared")
            case WithoutOwner.UNKNOWN:
                return NOT_KNOWN


def without_owner(*, message_model: str, consume_type: str, sharing: str) -> WithoutOwner:
    """Return what a queue of a group is that has no known owner.

    Args:
        message_model: the message model of the group.
        consume_type: the consume type of the group.
        sharing: `Coverage.sharing` of the group, see `GroupFacts.division`.
    """
    if message_model == "BROADCASTING":
        return WithoutOwner.EVERY_CLIENT
    if sharing == "POPPED":
        return WithoutOwner.SHARED
    if consume_type == "CONSUME_ACTIVELY" or sharing in {"PROXIED", "UNLISTED"}:
        return WithoutOwner.UNKNOWN
    return WithoutOwner.UNASSIGNED


Health: TypeAlias = effects.Health
Severity: TypeAlias = rule.Severity


class Level(NamedTuple):
    """The order and the appearance of a health status or a severity."""

    rank: int
    """0 is the worst."""
    style: str
    """The style of rich on a terminal."""
    colour: str
    """The variable of `static/style.css` on a page."""


HEALTH: Mapping[Health, Level] = {
    "BAD": Level(0, "bold red", "--bad"),
    "WARN": Level(1, "yellow", "--warn"),
    "UNKNOWN": Level(2, "italic magenta", "--ink-2"),
    "OK": Level(3, "green", "--ok"),
}
"""The worst first. UNKNOWN is worse than OK: nothing is green that could not be judged."""
SEVERITY: Mapping[Severity, Level] = {
    "critical": Level(0, "bold red", "--bad"),
    "warning": Level(1, "yellow", "--warn"),
    "info": Level(2, "blue", "--info"),
}
"""The worst first."""
METRIC: Mapping[Health, int] = {"UNKNOWN": 0, "OK": 1, "WARN": 2, "BAD": 3}
"""The value of a status in a metric: Burrow's numbers, where 0 is what cannot be judged."""
