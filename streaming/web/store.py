"""One read model for a process that lives long, kept up to date, and asked off the event loop."""

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, Self, TypeVar

from streaming.read_model import ReadModel

_LOG = logging.getLogger(__name__)
_REFRESH_SECONDS = 1.0

P = ParamSpec("P")
T = TypeVar("T")


class Store:
    """The tables for every page, request and scrape of this process."""

    def __init__(self, tables: Path) -> None:
        """Open the tables.

        Raises:
            UserError: there are none, or one is missing.
        """
        self._model = ReadModel(tables)
        self._closing = threading.Event()
        self._follower = threading.Thread(target=self._follow, name="store", daemon=True)

    def __enter__(self) -> Self:
        self._follower.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._follower.join()
        self._model.close()

    @property
    def version(self) -> int:
        """Rises whenever the tables have new rows: a page that shows another version asks again."""
        return self._model.version

    def ask_here(self, question: Callable[Concatenate[ReadModel, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The answer to a question of `streaming.queries` (or one like them), in this thread; any thread may ask."""
        return question(self._model, *args, **kwargs)

    async def ask(self, question: Callable[Concatenate[ReadModel, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same off the event loop: ``await store.ask(queues, "orders-group", at=None)``."""
        return await asyncio.to_thread(lambda: question(self._model, *args, **kwargs))

    def refresh(self) -> bool:
        """Take in what was written since; whether there was anything. Done every second in the background."""
        return self._model.refresh()

    def _follow(self) -> None:
        failing = False
        while not self._closing.wait(_REFRESH_SECONDS):
            try:
                self.refresh()
                failing = False
            except Exception:  # noqa: BLE001  whatever it is, the next second may be better
                # Questions go on over what was read last; health tells how old that is.
                if not failing:
                    _LOG.exception("the tables can't be read anew; every second tries again")
                failing = True
