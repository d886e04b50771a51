"""One read model for a long-running process, kept up to date and queried off the event loop."""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Self, TypeVar

from streaming.base.errors import NotReadyError, UserError
from streaming.base.health import Health
from streaming.base.language import gettext
from streaming.base.place import Place
from streaming.queries.sql_process import SqlPool
from streaming.serve.operator_actions import SqlActions
from streaming.tables import ReadModel

_LOG = logging.getLogger(__name__)
_REFRESH_SECONDS = 1.0
_REFRESH_AGE_MS_MAX = 60_000

P = ParamSpec("P")
T = TypeVar("T")


class Store:
    """The tables, shared by every page, request and scrape of this process."""

    def __init__(self, tables: Place) -> None:
        """Open the tables if they exist, otherwise as soon as they do.

        Raises:
            UserError: a table is damaged.
        """
        self.health = Health()
        """True if this process has the tables and keeps them up to date."""
        self._refreshed = self.health.task("refresh of the tables", _REFRESH_AGE_MS_MAX)
        self.sql = SqlPool(tables)
        """Runs users' own SQL, each query in a process of its own."""
        self.sql_actions = SqlActions(tables)
        """Records users' own SQL in the audit trail."""
        self._tables = tables
        self._model = _opened(tables)
        self._note_refresh()
        self._closing = threading.Event()
        self._follower = threading.Thread(target=self._follow, name="store", daemon=True)

    def __enter__(self) -> Self:
        self._follower.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self.sql.close()
        self.sql_actions.close()
        self._follower.join()
        if self._model is not None:
            self._model.close()

    @property
    def version(self) -> int:
        """The version of the tables, which rises when they have new rows; pages of another version update."""
        return 0 if self._model is None else self._model.version

    def model(self) -> ReadModel:
        """Return the read model.

        Raises:
            NotReadyError: there are no tables yet.
        """
        if self._model is None:
            raise NotReadyError(
                gettext(
                    "There are no tables in {tables} yet: they appear when `rebalance-watch run` has started.",
                    tables=self._tables,
                )
            )
        return self._model

    async def ask(self, question: Callable[Concatenate[ReadModel, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query off the event loop: ``await store.ask(queues, "orders-group", at=None)``.

        Raises:
            NotReadyError: there are no tables yet.
        """
        model = self.model()
        return await asyncio.to_thread(lambda: question(model, *args, **kwargs))

    def refresh(self) -> bool:
        """Read new rows and return whether there were any; called every second in the background."""
        if self._model is None:
            self._model = _opened(self._tables)
            return self._model is not None
        return self._model.refresh()

    def _note_refresh(self) -> None:
        if self._model is None:
            self._refreshed.failed("there are no tables yet")
        else:
            self._refreshed.done()

    def _follow(self) -> None:
        failing = False
        while not self._closing.wait(_REFRESH_SECONDS):
            try:
                self.refresh()
                self._note_refresh()
                failing = False
            except UserError as error:
                self._refreshed.failed(str(error))
                if not failing:
                    _LOG.error("refreshing the tables failed; retrying every second: %s", error)
                failing = True
            except Exception:  # noqa: BLE001  whatever it is, the next attempt may succeed
                self._refreshed.failed("reading the tables failed: see the log")
                # Queries continue over the last state; /health reports its age.
                if not failing:
                    _LOG.exception("refreshing the tables failed; retrying every second")
                failing = True


def _opened(tables: Place) -> ReadModel | None:
    """Return the read model; None until the job has created every table."""
    try:
        return ReadModel(tables)
    except NotReadyError:
        return None
