"""Query what people and programs did about the alerts of incidents, and by SQL."""

from typing import Literal, TypeAlias

from streaming.base.statements import statements_of
from streaming.queries.results import RecordedAction
from streaming.tables.reader import ReadModel

_SQL = statements_of(__name__)

ActionKind: TypeAlias = Literal["incident", "sql"]
"""About incidents and silences, or SQL."""
LAST = 1_000
"""The actions that are listed at most."""


def operator_actions(
    model: ReadModel, *, since: int = 0, kind: ActionKind | None = None, last: int = LAST
) -> list[RecordedAction]:
    """List the actions since an instant (epoch milliseconds), of one kind or of both, the newest first."""
    rows = model.rows(_SQL["actions"], {"since": since, "kind": kind, "last": last})
    return [RecordedAction(**row) for row in rows]
