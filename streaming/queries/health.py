"""Health and severity: their order, colours and numbers, for the command line, the pages, metrics and alerts."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from rebalance_model.observe import effects
from rebalance_model.observe.rules import rule

Health: TypeAlias = effects.Health
Severity: TypeAlias = rule.Severity


class Level(NamedTuple):
    """How a health status or a severity is ordered and shown."""

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
