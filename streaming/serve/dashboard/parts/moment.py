"""The instant that a page shows and the period around it, and the bar at its top in which they are chosen."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from streaming.base.errors import UserError
from streaming.base.language import gettext, marked
from streaming.base.nearest import one_of
from streaming.base.times import duration_ms, instant_ms, now_ms
from streaming.queries.present import HistoryBounds
from streaming.serve.dashboard.parts.markup import LiveMarkup


class TimeBar:
    """The instant that a page shows, a field to choose another one, and the periods to choose from."""

    def __init__(self, on_do: Callable[[str], object] | None = None) -> None:
        """Create the bar; it stays in sight.

        Args:
            on_do: called with the word of a button; None: the page is loaded with what was chosen.
        """
        self._markup = LiveMarkup("when", on_do).classes("when-bar")

    def show(
        self, ends: HistoryBounds, at: int | None, spans: Mapping[str, str] | None = None, span: str = "",
        name: str = "span", useful: Collection[str] | None = None, controls: Mapping[str, object] | None = None,
    ) -> None:  # fmt: skip
        """Show an instant and the periods.

        Args:
            ends: the begin and end of history.
            at: the instant that is shown, epoch milliseconds; None: now.
            spans: the names of the periods by their values; None: the page shows none.
            span: the chosen one.
            name: the parameter of the address that has it.
            useful: the periods that can be chosen; None: all.
            controls: what the buttons of lanes depend on; None: there are none.
        """
        self._markup.show(at=at, ends=ends, spans=spans, span=span, name=name, useful=useful, controls=controls)


SPANS = {"15m": marked("15 min"), "1h": marked("1 h"), "6h": marked("6 h"), "1d": marked("1 d"), "7d": marked("7 d")}
"""The lengths of the period to choose from, as in an address and on a button."""
DEFAULT_SPAN = "1h"
ZOOM_MS_MIN = 10_000
"""The shortest period that the timeline shows, milliseconds."""


class Window(NamedTuple):
    """The period that the timeline shows, in epoch milliseconds."""

    since: int
    until: int


def useful_spans(ends: HistoryBounds) -> frozenset[str]:
    """Return the periods up to the first one that contains all of history: longer ones show nothing more."""
    history, useful = ends.live - ends.first, set[str]()
    for name in SPANS:
        useful.add(name)
        if duration_ms(name) >= history:
            break
    return frozenset(useful)


def window(ends: HistoryBounds, span: str, at: int | None) -> Window:
    """Return the period that ends now; if the instant is before that, the one centred on it."""
    length = duration_ms(span)
    if at is None or at >= ends.live - length:
        return until(ends, span, ends.live)
    return until(ends, span, at + length // 2)


def until(ends: HistoryBounds, span: str, end: int) -> Window:
    """Return the period that ends at an instant, limited to history."""
    return ending(ends, duration_ms(span), end)


def ending(ends: HistoryBounds, length_ms: int, end: int) -> Window:
    """Return the period of a length that ends at an instant, limited to history."""
    end = max(min(end, ends.live), ends.first + 1_000)
    return Window(max(end - length_ms, ends.first - 1_000), end)


def zoomed(ends: HistoryBounds, since: int, until_: int) -> Window:
    """Return a period that a user has selected, at least `ZOOM_MS_MIN` long and limited to history."""
    middle, length = (since + until_) // 2, max(until_ - since, ZOOM_MS_MIN)
    return ending(ends, length, middle + length // 2)


def parse_zoom(since: str | None, until_: str | None) -> Window | None:
    """Parse the selected period of an address; None: none is selected.

    Raises:
        UserError: one of its ends is missing or no valid time, or they are in the wrong order.
    """
    if not since and not until_:
        return None
    begin, end = parse_at(since), parse_at(until_)
    if begin is None or end is None or begin >= end:
        raise UserError(gettext("A period needs since and until, and since is the earlier one."))
    return Window(begin, end)


def parse_at(text: str | None) -> int | None:
    """Parse the instant of an address; None is now.

    Raises:
        UserError: it is not a valid time.
    """
    return instant_ms(text, now_ms()) if text else None


def parse_span(text: str | None) -> str:
    """Parse the period of an address.

    Raises:
        UserError: it is not one of `SPANS`.
    """
    return one_of("span", text, SPANS) if text else DEFAULT_SPAN
