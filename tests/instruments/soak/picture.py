"""Draw measures over time as small multiples, in SVG, with the faults as marks."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from html import escape

_COLUMNS, _WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _TOP = 3, 380, 90, 40, 58, 70
_COLOURS = {"lab": "#b7a3d6", "ours": "#e2943b"}

Series = Sequence[tuple[float, float]]
"""Minutes and values, in order of time."""


def picture(title: str, panels: Mapping[str, Series], marks: Sequence[tuple[float, str]], minutes: float) -> str:
    """Return an SVG with a panel for each measure.

    Args:
        title: shown above.
        panels: the values of each measure; the highest of each minute is drawn.
        marks: the minute of each fault, and its kind: lab or ours.
        minutes: the length of the axis of time.
    """
    rows = -(-len(panels) // _COLUMNS)
    width = _COLUMNS * (_WIDTH + _GAP_X) + _GAP_X
    height = _TOP + rows * (_HEIGHT + _GAP_Y)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{_GAP_X}" y="30" font-size="18">{escape(title)}</text>',
        f'<text x="{_GAP_X}" y="50" font-size="12" fill="{_COLOURS["lab"]}">| fault of RocketMQ</text>',
        f'<text x="{_GAP_X + 150}" y="50" font-size="12" fill="{_COLOURS["ours"]}">| kill of a process of ours</text>',
    ]
    for number, (name, series) in enumerate(panels.items()):
        x = _GAP_X + number % _COLUMNS * (_WIDTH + _GAP_X)
        y = _TOP + number // _COLUMNS * (_HEIGHT + _GAP_Y) + 16
        lines += _panel(name, series, marks, minutes, x, y)
    return "\n".join([*lines, "</svg>", ""])


def per_minute(series: Series, summary: Callable[[list[float]], float]) -> Series:
    """Return one value for each minute: what ``summary`` makes of those of the minute."""
    minutes: dict[int, list[float]] = defaultdict(list)
    for minute, value in series:
        minutes[int(minute)].append(value)
    return [(minute + 0.5, summary(values)) for minute, values in sorted(minutes.items())]


def _panel(
    name: str, series: Series, marks: Sequence[tuple[float, str]], minutes: float, x: int, y: int
) -> list[str]:  # fmt: skip
    most = max((value for _, value in series), default=0) or 1

    def at(minute: float) -> float:
        return x + minute / minutes * _WIDTH

    drawn = ((at(minute), y + _HEIGHT - value / most * _HEIGHT) for minute, value in per_minute(series, max))
    points = " ".join(f"{across:.1f},{down:.1f}" for across, down in drawn)
    faults = {
        kind: "".join(f"M{at(minute):.1f} {y}v{_HEIGHT}" for minute, of in marks if of == kind) for kind in _COLOURS
    }
    figures = f"highest {most:,.4g}, last {series[-1][1]:,.4g}" if series else "not measured"
    return [
        f'<text x="{x}" y="{y - 5}" font-size="12">{escape(name)}</text>',
        f'<text x="{x + _WIDTH}" y="{y - 5}" font-size="11" fill="#555" text-anchor="end">{figures}</text>',
        *(f'<path d="{path}" stroke="{_COLOURS[kind]}"/>' for kind, path in faults.items()),
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#ccc"/>',
        f'<polyline points="{points}" fill="none" stroke="#1f6f8b" stroke-width="1.2"/>',
        *(
            f'<text x="{at(minute):.1f}" y="{y + _HEIGHT + 13}" font-size="10" fill="#555" text-anchor="middle">'
            f"{minute:g}</text>"
            for minute in (0, round(minutes / 2), round(minutes))
        ),
    ]
