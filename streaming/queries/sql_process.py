"""Run users' own SQL in a process of its own, with a hard limit of memory, that can be ended at any instant.

DuckDB looks for an interrupt only between chunks of rows: one call of a scalar function runs as long as it likes, and
its strings do not count in DuckDB's own memory limit. So a query that takes too long is ended with its process. What
that process does is in `sql_worker`, which this one does not import: it would take as long again.
"""

import queue
import subprocess
import sys
import tempfile
from multiprocessing import Pipe
from typing import Final, NamedTuple

from streaming.base.errors import ERRORS_BY_NAME, UserError
from streaming.base.files import Closable
from streaming.base.language import current, gettext, marked
from streaming.base.limits import SQL_ANSWER_BYTES, SQL_MEMORY_BYTES, SQL_QUERIES
from streaming.base.place import Place

_WORKER: Final = """
import sys
sys.modules["numpy"] = None
import pyarrow
del sys.modules["numpy"]
from streaming.queries.sql_worker import main
main()
"""
"""The program of the process. pyarrow imports numpy if it is there, and does without: that would take a quarter of the
time of a question."""
_OPEN_SECONDS: Final = 120.0
"""The first query over tables in an object store copies their files, as every command does."""

_TOO_LONG: Final = marked(
    "The query took more than {n} seconds and was stopped: limit it to one group or a shorter period."
)
_TOO_LARGE: Final = marked(
    "The query needs more than {n} GB of memory and was stopped: limit it to one group or a shorter period."
)


class SqlAnswer(NamedTuple):
    """The result of a query."""

    content: bytes
    """A `SqlResult` as JSON."""
    rows: int
    """The number of its rows."""


class SqlProcess(Closable):
    """A process with the tables open. It answers one query at a time, and ends with the process that started it."""

    def __init__(self, tables: Place, *, lasting: bool = False) -> None:
        """Start it; it opens the tables meanwhile.

        Args:
            tables: their folder or object store.
            lasting: whether it is for many queries: then it follows the tables, and loads at once what any may need.
        """
        self._spill = tempfile.TemporaryDirectory(prefix="rebalance-watch-")
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _WORKER, str(theirs.fileno()), self._spill.name],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # a library that gets no memory may print what only its authors understand
            )
        self._connection.send((tables, lasting))
        self._is_open = False

    def ask(self, query: str, *, timeout_s: float, limit: int) -> SqlAnswer:
        """Run one SELECT over tables, views and functions; errors are in the current language.

        Args:
            query: a query in DuckDB's SQL.
            timeout_s: seconds after which the query is ended with the process.
            limit: the maximum number of rows.

        Raises:
            UserError: the query is not allowed (see `guard`), fails, or needs too much time, memory or space.
            NotReadyError: there are no tables.
        """
        try:
            if not self._is_open:
                self._wait(_OPEN_SECONDS, marked("Opening the tables took more than {n} seconds: try again."))
                self._received()
                self._is_open = True
            self._connection.send((query, timeout_s, limit, current().code))
            self._wait(timeout_s, _TOO_LONG)
            return self._received()
        except (EOFError, OSError):  # it was killed, or has ended itself: in both cases mostly for lack of memory
            self.close()
            raise UserError(gettext(_TOO_LARGE, n=f"{SQL_MEMORY_BYTES / 1e9:.0f}")) from None
        except BaseException as error:
            if not isinstance(error, UserError):  # such as Ctrl-C: the query may still run
                self.close()
            raise

    @property
    def closed(self) -> bool:
        """Return whether the process has ended."""
        return self._connection.closed or self._process.poll() is not None

    def kill(self) -> None:
        """End the process from any thread, also while it works: a query that runs there fails."""
        self._process.kill()

    def close(self) -> None:
        """End the process and remove its files; a second call does nothing."""
        self.kill()
        self._process.wait()
        self._connection.close()
        self._spill.cleanup()

    def _wait(self, seconds: float, says: str) -> None:
        if not self._connection.poll(seconds):
            self.close()
            raise UserError(gettext(says, n=f"{seconds:g}"))

    def _received(self) -> SqlAnswer:
        """Return what the process sends, see `sql_worker`."""
        kind, rows, last = self._connection.recv_bytes(100).decode().split(",")
        content = self._connection.recv_bytes(SQL_ANSWER_BYTES)
        if last:
            self.close()
        if kind:
            raise ERRORS_BY_NAME[kind](content.decode())
        return SqlAnswer(content, int(rows))


_PATIENCE_SECONDS: Final = 1.0


class SqlPool:
    """A pool of `limits.SQL_QUERIES` processes. Each is started when it is first needed, and after it was ended."""

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
            raise UserError(gettext("{n} queries are already running: retry later.", n=SQL_QUERIES)) from None
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
