"""The processes in which a server runs users' own SQL."""

import queue
from typing import Final

from streaming.base.errors import UserError
from streaming.base.limits import SQL_QUERIES
from streaming.base.place import Place
from streaming.queries.sql_process import SqlAnswer, SqlProcess

_PATIENCE_SECONDS: Final = 1.0


class SqlPool:
    """Up to `limits.SQL_QUERIES` processes. Each is started when it is first needed, and at once after it was ended."""

    def __init__(self, tables: Place) -> None:
        self._tables = tables
        # The last one that was used comes first, so that the second is only started if it is needed.
        self._free: queue.LifoQueue[SqlProcess | None] = queue.LifoQueue()
        self._busy: set[SqlProcess] = set()
        self._closed = False
        for _ in range(SQL_QUERIES):
            self._free.put(None)

    def ask(self, query: str, *, timeout_s: float, limit: int) -> SqlAnswer:
        """Run one SELECT; thread-safe. See `SqlProcess.ask`.

        Raises:
            UserError: too many queries are running; or as `SqlProcess.ask` raises it.
        """
        try:
            process = self._free.get(timeout=_PATIENCE_SECONDS)
        except queue.Empty:
            raise UserError(f"{SQL_QUERIES} queries are already running: retry later.") from None
        try:
            if process is None or process.closed:
                process = SqlProcess(self._tables, lasting=True)
            self._busy.add(process)
            return process.ask(query, timeout_s=timeout_s, limit=limit)
        finally:
            if process is not None:
                self._busy.discard(process)
                if process.closed:  # the next one opens the tables meanwhile
                    process = None if self._closed else SqlProcess(self._tables, lasting=True)
            self._free.put(process)

    def close(self) -> None:
        """End all processes; a query that runs fails."""
        self._closed = True
        for process in tuple(self._busy):
            process.kill()
        while not self._free.empty():
            free = self._free.get()
            if free is not None:
                free.close()
