"""Query what people and programs did about the alerts of incidents."""

from streaming.queries.results import RecordedAction
from streaming.tables.reader import ReadModel

_ACTIONS = """
SELECT a.time, a.name, a.subject, a.source, a.action, a.target, a.detail, a.result, a.message
FROM operator_actions a
WHERE a.time >= from_ms($since)
ORDER BY a.time DESC, a.target
LIMIT $last
"""
LAST = 1_000
"""The actions that are listed at most."""


def operator_actions(model: ReadModel, *, since: int = 0, last: int = LAST) -> list[RecordedAction]:
    """List the actions since an instant (epoch milliseconds), the newest first."""
    return [RecordedAction(**row) for row in model.rows(_ACTIONS, {"since": since, "last": last})]
