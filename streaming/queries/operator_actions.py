"""Query what people and programs did about the alerts of incidents."""

from streaming.base.statements import statements_of
from streaming.queries.results import RecordedAction
from streaming.tables.reader import ReadModel

_SQL = statements_of(__name__)

LAST = 1_000
"""The actions that are listed at most."""


def operator_actions(model: ReadModel, *, since: int = 0, last: int = LAST) -> list[RecordedAction]:
    """List the actions since an instant (epoch milliseconds), the newest first."""
    return [RecordedAction(**row) for row in model.rows(_SQL["actions"], {"since": since, "last": last})]
