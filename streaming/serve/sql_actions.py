"""The SQL that people and programs run by REST and MCP, as rows of the audit trail.

An action on alerts is not done if it can't be recorded. SQL is answered all the same, and as fast: its row is only kept
in memory before the answer, and the rows of some seconds are appended in one commit, so a program that asks all the
time adds a commit every few seconds, and not one for each query. While the table can't be written, rows wait, up to a
limit; those of the last seconds are lost if the process is killed.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import Final

import msgspec

from schemas.arrow import table_of
from schemas.rows import OperatorAction
from streaming.base.errors import first_line
from streaming.base.place import Place
from streaming.base.times import now_ms
from streaming.serve.operator_actions import TABLE, Actor, Result, kept, with_result
from streaming.tables.append import append
from streaming.tables.delta import delta_at

_LOG = logging.getLogger(__name__)
QUERY_CHARACTERS: Final = 4_000
"""Of a query that are stored: whole queries as people write them, not lists of values that a program has filled in."""
ROWS_MAX: Final = 1_000
"""How many rows wait at most."""
_WRITE_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 60.0


class SqlRecording:
    """A query that is being answered."""

    def __init__(self) -> None:
        self.rows: int | None = None
        """How many rows its answer has; None: unknown yet."""


class SqlActions:
    """Appends the rows of SQL to the audit trail; thread-safe."""

    def __init__(self, tables: Place) -> None:
        """Write nothing yet; `close` writes what waits."""
        self._table = tables / TABLE
        self._writing = Lock()
        self._changing = Lock()
        """Of what follows."""
        self._waiting: list[OperatorAction] = []
        self._lost = 0
        """How many rows had no place since the last write that succeeded."""
        self._timer: Timer | None = None
        self._is_failing = False
        self._is_closed = False

    @contextmanager
    def recorded(self, actor: Actor, query: str) -> Iterator[SqlRecording]:
        """Record the query that the block answers, with its result.

        Args:
            actor: who asks.
            query: the query as it was asked.

        Raises:
            UserError: what the block raises.
        """
        time, recording = now_ms(), SqlRecording()

        def record(result: Result, message: str | None) -> None:
            row = OperatorAction(
                time=time, subject=kept(actor.subject), name=kept(actor.name), source=actor.source, action="SQL",
                target="", detail=_stored(query), result=result, message=None if message is None else kept(message),
                rows=recording.rows,
            )  # fmt: skip
            self._add(row)

        with with_result(record):
            yield recording

    def close(self) -> None:
        """Write what waits; later rows are lost."""
        with self._changing:
            self._is_closed = True
            if self._timer is not None:
                self._timer.cancel()
        self._write()
        with self._changing:
            if lost := self._lost + len(self._waiting):
                _LOG.error("SQL queries not recorded in %s, which could not be written: %d", TABLE, lost)

    def _add(self, row: OperatorAction) -> None:
        with self._changing:
            if self._is_closed or len(self._waiting) >= ROWS_MAX:
                self._lost += 1
                return
            self._waiting.append(row)
            if self._timer is None:
                self._schedule(_WRITE_SECONDS)

    def _schedule(self, seconds: float) -> None:
        self._timer = Timer(seconds, self._write)
        self._timer.daemon = True
        self._timer.start()

    def _write(self) -> None:
        """Append what waits; whatever fails, the next attempt may succeed."""
        with self._writing:
            with self._changing:
                rows = list(self._waiting)
            has_failed = False
            if rows:
                try:
                    append(delta_at(self._table), table_of(TABLE, [msgspec.structs.asdict(row) for row in rows]))
                except Exception as error:  # noqa: BLE001  such as a table that is missing: queries are answered anyhow
                    has_failed = True
                    if not self._is_failing:
                        _LOG.error("recording SQL in %s failed; retrying every minute: %s", TABLE, first_line(error))
            with self._changing:
                self._is_failing = has_failed
                self._timer = None
                if not has_failed:
                    del self._waiting[: len(rows)]
                    if self._lost:
                        _LOG.error("SQL queries not recorded in %s, as too many came at once: %d", TABLE, self._lost)
                    self._lost = 0
                if self._waiting and not self._is_closed:
                    self._schedule(_RETRY_SECONDS if has_failed else _WRITE_SECONDS)


def _stored(query: str) -> str:
    """Return a query as it is stored; a long one ends with how long it is."""
    if len(query) <= QUERY_CHARACTERS:
        return kept(query, QUERY_CHARACTERS)
    return f"{kept(query, QUERY_CHARACTERS)}… ({len(query):,} characters)"
