"""The bar of time and period at the top of a page: the same one on each page of a state."""

from collections.abc import Callable, Collection, Mapping

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
