"""Which instant a page shows, and which span around it."""

from typing import NamedTuple

from streaming.errors import UserError
from streaming.queries.present import Ends
from streaming.times import duration_ms, instant_ms, now_ms

SPANS = {"15m": "15 min", "1h": "1 h", "6h": "6 h", "1d": "1 d", "7d": "7 d"}
"""The spans to choose from, as they stand in an address and on a button."""
DEFAULT_SPAN = "1h"


class Window(NamedTuple):
    """The span that the timeline shows; epoch milliseconds."""

    since: int
    until: int


def window(told: Ends, span: str, at: int | None) -> Window:
    """The span that ends now, unless the instant is earlier than that: then one with the instant in its middle."""
    length = duration_ms(span)
    if at is None or at >= told.live - length:
        return until(told, span, told.live)
    return until(told, span, at + length // 2)


def until(told: Ends, span: str, end: int) -> Window:
    """The span that ends at an instant: not after now, and without what is before all history."""
    end = max(min(end, told.live), told.first + 1_000)
    return Window(max(end - duration_ms(span), told.first - 1_000), end)


def parse_at(text: str | None) -> int | None:
    """The instant of an address; None is now.

    Raises:
        UserError: it is no time.
    """
    return instant_ms(text, now_ms()) if text else None


def parse_span(text: str | None) -> str:
    """The span of an address.

    Raises:
        UserError: it is none of those that there are.
    """
    if text and text not in SPANS:
        raise UserError(f"{text!r} is no span to show: choose one of {', '.join(SPANS)}.")
    return text or DEFAULT_SPAN
