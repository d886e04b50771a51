"""What pages have in common that show the tables now and follow them, or at an instant."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from streaming.queries.present import HistoryBounds
from streaming.serve.dashboard.parts.live import Live
from streaming.serve.dashboard.parts.paging import turned
from streaming.serve.store import Store


class _Data(Protocol):
    @property
    def ends(self) -> HistoryBounds:
        """The beginning and end of history."""


DataT = TypeVar("DataT", bound=_Data)


class LivePage(ABC, Generic[DataT]):
    """A page whose `ask` reads its data into `_data`, and whose `_show` shows them."""

    _data: DataT

    def __init__(self, store: Store, at: int | None = None) -> None:
        """Create the page without its data.

        Args:
            store: the tables.
            at: the instant that is shown, epoch milliseconds; None: now, which follows the tables.
        """
        self._store = store
        self._at = at
        self._pages = Counter[str]()
        """The page that each table shows, from 0."""
        self._live = Live(store, self._update, tick=self._turned_silent)

    @abstractmethod
    async def ask(self) -> None:
        """Read the data of the page."""

    @abstractmethod
    def _show(self) -> None:
        """Show the data of the page."""

    def _begin(self) -> None:
        """Show the page, and follow the tables unless it shows an instant."""
        self._show()
        if self._at is None:
            self._live.begin()

    def _turner(self, table: str) -> Callable[[str], None]:
        """Return the callback of a table's pager."""

        def turn(word: str) -> None:
            self._pages[table] = turned(word)
            self._show()

        return turn

    async def _update(self) -> None:
        await self.ask()
        self._show()

    def _turned_silent(self) -> bool:
        return self._data.ends.has_turned()
