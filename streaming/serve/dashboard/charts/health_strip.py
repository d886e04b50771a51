"""A group's health over a period as a strip of slices, with a description in words."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from streaming.base.language import gettext
from streaming.queries import labels
from streaming.queries.health import HEALTH, Health

_WORDS = 6
"""The maximum number of changes that are described one by one."""
_HEIGHT = {"BAD": 16, "WARN": 11, "UNKNOWN": 16, "OK": 5}
"""The height of a slice: like the signs, they differ in shape, not in colour alone."""
WIDTH = 4
"""The width of a slice; the unit is the picture's own."""


class Bar(NamedTuple):
    """Successive slices of one health."""

    health: Health
    x: int
    width: int
    height: int


class Strip(NamedTuple):
    """The strip of a group."""

    bars: Sequence[Bar]
    width: int
    words: str


def strip_of(worst: Sequence[Health], length_ms: int) -> Strip:
    """Return the strip of a group by the worst health of each slice, the oldest first.

    Args:
        worst: the health of each slice.
        length_ms: the length of the period, in milliseconds.
    """
    runs = [(health, len(list(same))) for health, same in groupby(worst)]
    bars, x = [], 0
    for health, count in runs:
        bars.append(Bar(health, x, count * WIDTH, _HEIGHT[health]))
        x += count * WIDTH
    return Strip(bars, x, _words(worst, runs, length_ms))


def _words(worst: Sequence[Health], runs: Sequence[tuple[Health, int]], length_ms: int) -> str:
    """Describe the runs, the oldest first; if there are many, how much of the period each health takes."""
    each = length_ms // len(worst)
    if len(runs) <= _WORDS:
        return gettext(", then ").join(_lasting(health, count * each) for health, count in runs)
    total = Counter(worst)
    parts = gettext(", ").join(_lasting(health, total[health] * each) for health in HEALTH if total[health])
    return gettext("{n} changes: {parts} in total", n=len(runs) - 1, parts=parts)


def _lasting(health: Health, length_ms: int) -> str:
    return gettext("{health} for {duration}", health=gettext(health), duration=labels.duration(length_ms))
