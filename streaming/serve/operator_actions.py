"""The audit trail: a table of the actions of people and programs on alerts and by SQL, done or refused.

The row of an action is appended by the process that handled it, in a commit of its own, as `alert_controls` is: any
number of processes append, and none reads before it does, so no commit conflicts with those of the job or of
`maintain`. What can't be recorded is not done.

SQL is answered even then, and as fast: its row is only kept in memory before the answer, and the rows of some
seconds are appended in one commit, so a program that asks all the time adds a commit every few seconds, and not one for
each query. While the table can't be written, rows wait, up to a limit; those of the last seconds are lost if the
process is killed.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
from deltalake.exceptions import TableNotFoundError

from schemas.arrow import table_of
from schemas.rows import OperatorAction
from streaming.base.errors import ForbiddenError, UserError, first_line
from streaming.base.place import Place
from streaming.base.times import now_ms
from streaming.tables.append import append
from streaming.tables.delta import delta_at

TABLE = "operator_actions"
Source: TypeAlias = Literal["PAGE", "REST", "MCP", "CLI"]
Action: TypeAlias = Literal["ACKNOWLEDGE", "SILENCE", "UNSILENCE", "CLOSE", "REOPEN"]
Result: TypeAlias = Literal["DONE", "REFUSED", "FAILED"]
CHARACTERS_MAX = 1_000
"""Maximum length of each text: they come from outside."""


class Actor(NamedTuple):
    """The author of an action, and the interface that they used."""

    subject: str
    name: str
    source: Source


class Recording:
    """An action that is being done."""

    def __init__(self, target: str) -> None:
        self.target = target
        """The target: as it was named, until it is found."""


@contextmanager
def recorded(tables: Place, actor: Actor, action: Action, target: str, detail: str = "") -> Iterator[Recording]:
    """Record the action that the block does, with its result.

    Args:
        tables: the tables.
        actor: who does it.
        action: what is done.
        target: to which incident or silence, as it was named; the block may replace it by the id.
        detail: the reason, and what else was asked for.

    Raises:
        UserError: the table does not exist, so nothing was done; or what the block raises.
    """
    time, recording = now_ms(), Recording(target)
    try:
        table = delta_at(tables / TABLE)
    except TableNotFoundError:
        raise UserError(
            f"The table {TABLE} is missing in {tables}, so nothing was done: restart `rebalance-watch run`, which "
            "creates it."
        ) from None

    def record(result: Result, message: str | None) -> None:
        row = OperatorAction(
            time=time, subject=kept(actor.subject), name=kept(actor.name), source=actor.source, action=action,
            target=kept(recording.target), detail=kept(detail), result=result,
            message=None if message is None else kept(message),
        )  # fmt: skip
        append(table, table_of(TABLE, [msgspec.structs.asdict(row)]))

    with with_result(record):
        yield recording


@contextmanager
def with_result(record: Callable[[Result, str | None], None]) -> Iterator[None]:
    """Record how the block ends.

    Args:
        record: is called once, with the result and why it was not done.

    Raises:
        UserError: what the block raises, or ``record``.
    """
    try:
        yield
    except ForbiddenError as error:
        record("REFUSED", str(error))
        raise
    except UserError as error:
        record("FAILED", str(error))
        raise
    record("DONE", None)


def kept(text: str, characters: int = CHARACTERS_MAX) -> str:
    """Return a text as it is stored: of limited length, and without what is not Unicode."""
    return text[:characters].encode("utf-8", "replace").decode()


_LOG = logging.getLogger(__name__)
QUERY_CHARACTERS: Final = 4_000
"""Length of a query that is stored: whole queries of people, not lists of values that a program has filled in."""
ROWS_MAX: Final = 1_000
"""The most rows that wait."""
_WRITE_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 60.0


class SqlRecording:
    """A query that is being answered."""

    def __init__(self) -> None:
        self.rows: int | None = None
        """The number of rows of its answer; None: unknown yet."""


class SqlActions:
    """Appends the rows of SQL to the audit trail; thread-safe."""

    def __init__(self, tables: Place) -> None:
        """Write nothing yet; `close` writes what waits."""
        self._table = tables / TABLE
        self._writing = Lock()
        self._changing = Lock()
        """Guards the fields below."""
        self._waiting: list[OperatorAction] = []
        self._lost = 0
        """The number of rows that had no place since the last write that succeeded."""
        self._timer: Timer | None = None
        self._is_failing = False
        self._is_closed = False

    @contextmanager
    def recorded(self, actor: Actor, query: str) -> Iterator[SqlRecording]:
        """Record the query that the block answers, with its result.

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
