"""One read model for a process that lives long: shared by threads, refreshed in the background, with a version.

A read model is one DuckDB connection, which takes one question at a time. So every question holds the lock; the event
loop never waits for it, because `Store.ask` does so in a thread.
"""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, Self, TypeVar

import structlog

from streaming.read_model import ReadModel

_LOG = structlog.get_logger(__name__)
_REFRESH_SECONDS = 1.0

P = ParamSpec("P")
T = TypeVar("T")
Question = Callable[Concatenate[ReadModel, P], T]
"""Takes the open read model first, as all of `streaming.queries` do."""


class Store:
    """The tables for every page, request and scrape of this process."""

    def __init__(self, tables: Path) -> None:
        """Open the tables.

        Raises:
            UserError: there are none, or one is missing.
        """
        self._tables = tables
        self._model = ReadModel(tables)
        self._seen = _versions(tables)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._refresher = threading.Thread(target=self._follow, name="store", daemon=True)
        self._version = 0

    def __enter__(self) -> Self:
        self._refresher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._refresher.join()
        self._model.close()

    @property
    def version(self) -> int:
        """Rises whenever the tables have new rows: a page that shows another version asks again."""
        return self._version

    def ask_here(self, question: Question[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The answer to a question of `streaming.queries` (or one like them), in this thread."""
        with self._lock:
            return question(self._model, *args, **kwargs)

    async def ask(self, question: Question[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same off the event loop: ``await store.ask(queues, "orders-group", at=None)``."""
        return await asyncio.to_thread(self.ask_here, question, *args, **kwargs)

    def refresh(self) -> bool:
        """Take in what was written since; whether there was anything."""
        seen = _versions(self._tables)
        if seen == self._seen:
            return False
        fresh = ReadModel(self._tables)
        with self._lock:
            stale, self._model = self._model, fresh
            self._seen, self._version = seen, self._version + 1
        stale.close()
        return True

    def _follow(self) -> None:
        while not self._closing.wait(_REFRESH_SECONDS):
            try:
                self.refresh()
            except Exception:  # noqa: BLE001  the next second tries again; the health endpoint shows how old the data is
                _LOG.exception("the tables can't be refreshed")


def _versions(tables: Path) -> dict[str, str]:
    return {log.parent.name: max(path.name for path in log.glob("*.json")) for log in tables.glob("*/_delta_log")}
