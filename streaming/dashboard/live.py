"""Keeps a page as new as the tables."""

import time
from collections.abc import Awaitable, Callable

from nicegui import ui

from streaming.web.store import Store

_REST = 4
"""After an update that the tables asked for, a page rests for so many times as long as that took: where the tables are
large and change each second, open pages take a part of the server's time, not all of it."""
_REST_FAILED = 15.0
"""After an update that failed, a page rests for so many seconds: what fails at once would fail each second."""


class Live:
    """Calls ``update`` when the tables have new rows, and when the page asks; one call at a time, the last one wins."""

    def __init__(
        self, store: Store, update: Callable[[], Awaitable[None]], tick: Callable[[], bool] | None = None
    ) -> None:
        """Note how new the tables are: to be made before the page asks for the first time.

        What comes while it asks would never be shown if no rows followed.

        Args:
            store: the tables.
            update: asks and shows.
            tick: called each second; whether time alone is a reason to update.
        """
        self._store = store
        self._update = update
        self._tick = tick
        self._shown = store.version
        self._running = self._again = False
        self._rest_until = 0.0

    def begin(self) -> None:
        """Look once a second from now on, as a part of the page that is being laid out."""
        ui.timer(1.0, self._look, immediate=False)

    async def refresh(self) -> None:
        """Update now; if an update is under way, once more after it."""
        self._again = True
        if self._running:
            return
        self._running = True
        try:
            while self._again:
                self._again = False
                self._shown = self._store.version
                await self._update()
        except Exception:
            self._shown = -1  # no version: it is asked for again, though no rows may follow
            self._rest_until = time.monotonic() + _REST_FAILED
            raise
        finally:
            self._running = False

    async def _look(self) -> None:
        due = self._tick() if self._tick is not None else False
        begun = time.monotonic()
        if (due or self._store.version != self._shown) and begun >= self._rest_until:
            await self.refresh()
            self._rest_until = time.monotonic() + _REST * (time.monotonic() - begun)
