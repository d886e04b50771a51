"""A group's lag over a period as a small line, with a description in words."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from streaming.base.language import gettext
from streaming.queries import labels

WIDTH, HEIGHT = 60, 16
"""Size of the picture, in its own unit."""
_EDGE = 1.5
"""The distance of the line from the top and from the bottom, so that all of its width is in the picture."""


class Sparkline(NamedTuple):
    """The line of a group."""

    lines: Sequence[str]
    """The points of each part in which the lag is known, as SVG has them."""
    words: str


def sparkline_of(lags: Sequence[int | None]) -> Sparkline | None:
    """Return the line of a group; None if its lag is unknown all the time.

    Args:
        lags: the lag at the end of each slice of the period, the oldest first; None: unknown.
    """
    known_lags = [lag for lag in lags if lag is not None]
    if not known_lags:
        return None
    step, scale = WIDTH / max(1, len(lags) - 1), (HEIGHT - 2 * _EDGE) / max(1, *known_lags)
    lines = []
    for is_known, part in groupby(enumerate(lags), key=lambda one: one[1] is not None):
        if is_known:
            points = [(n * step, HEIGHT - _EDGE - (lag or 0) * scale) for n, lag in part]
            if len(points) == 1:  # a line of one point is not painted
                [(x, y)] = points
                points = [(max(0, x - step / 2), y), (min(WIDTH, x + step / 2), y)]
            lines.append(" ".join(f"{x:.1f},{y:.1f}" for x, y in points))
    numbers = {"begin": known_lags[0], "end": known_lags[-1], "most": max(known_lags)}
    words = {name: labels.number(number) for name, number in numbers.items()}
    return Sparkline(lines, gettext("Lag in the period: first {begin}, last {end}, at most {most}", **words))
