"""The audit trail: what people and programs did about the alerts of incidents, done or not, as a table.

Their SQL is recorded there, too, but in another way: see `sql_actions`.

A row is appended by the process that handled the action, in a commit of its own, as `alert_controls` is: any number of
processes append, and none reads before it does, so no commit conflicts with those of the job or of `maintain`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from deltalake.exceptions import TableNotFoundError

from schemas.arrow import table_of
from schemas.rows import OperatorAction
from streaming.base.errors import ForbiddenError, UserError
from streaming.base.place import Place
from streaming.base.times import now_ms
from streaming.tables.append import append
from streaming.tables.delta import delta_at

TABLE = "operator_actions"
Source: TypeAlias = Literal["PAGE", "REST", "MCP", "CLI"]
Action: TypeAlias = Literal["ACKNOWLEDGE", "SILENCE", "UNSILENCE", "CLOSE", "REOPEN"]
Result: TypeAlias = Literal["DONE", "REFUSED", "FAILED"]
CHARACTERS_MAX = 1_000
"""Of each text: they come from outside."""


class Actor(NamedTuple):
    """Who does something, and by what."""

    subject: str
    name: str
    source: Source


class Recording:
    """An action that is being done."""

    def __init__(self, target: str) -> None:
        self.target = target
        """To what: as it was named, until it is found."""


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
