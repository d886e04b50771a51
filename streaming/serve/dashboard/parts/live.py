"""Update a page when the tables change: what pages have in common that follow them, or show them at an instant."""

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from nicegui import ui

from streaming.queries.present import HistoryBounds
from streaming.serve.dashboard.parts.ordering import turned
from streaming.serve.store import Store

_REST = 4
"""After an update caused by the tables, a page pauses for this multiple of its duration: with large tables that change
each second, open pages use a part of the server's time, not all of it."""
_REST_FAILED = 15.0
"""The pause after a failed update, in seconds: otherwise it would fail each second."""


class Live:
    """Calls ``update`` when the tables have new rows and on request, one call at a time; the last request wins."""

    def __init__(
        self, store: Store, update: Callable[[], Awaitable[None]], tick: Callable[[], bool] | None = None
    ) -> None:
        """Store the version of the tables; must be called before the page reads them for the first time.

        Otherwise rows written during that read would never be shown if no others followed.

        Args:
            store: the tables.
            update: reads the data and shows it.
            tick: called each second; returns whether the passage of time requires an update.
        """
        self._store = store
        self._update = update
        self._tick = tick
        self._shown_version = store.version
        self._running = self._again = False
        self._rest_until = 0.0

    def begin(self) -> None:
        """Check once a second from now on, as a part of the page that is being created."""
        ui.timer(1.0, self._look, immediate=False)

    async def refresh(self) -> None:
        """Update now; if an update is in progress, repeat it afterwards."""
        self._again = True
        if self._running:
            return
        self._running = True
        try:
            while self._again:
                self._again = False
                self._shown_version = self._store.version
                await self._update()
        except Exception:
            self._shown_version = -1  # no valid version: the update is repeated even without new rows
            self._rest_until = time.monotonic() + _REST_FAILED
            raise
        finally:
            self._running = False

    async def _look(self) -> None:
        due = self._tick() if self._tick is not None else False
        begun = time.monotonic()
        if (due or self._store.version != self._shown_version) and begun >= self._rest_until:
            await self.refresh()
            self._rest_until = time.monotonic() + _REST * (time.monotonic() - begun)


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

    def _show_filtered(self, address: str) -> None:
        """Show the first page of each table, by filters that the address of the page has from now on."""
        self._pages.clear()
        ui.navigate.history.replace(address)
        self._show()

    async def _update(self) -> None:
        await self.ask()
        self._show()

    def _turned_silent(self) -> bool:
        return self._data.ends.has_turned()
