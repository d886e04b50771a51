"""Query the messages of a group that its listeners refused: those to be tried again, and those that were given up."""

from rebalance_model.entities import DEAD_LETTER_TOPIC_PREFIX, RETRY_TOPIC_PREFIX
from streaming.base.statements import statements_of, with_parts
from streaming.queries.group_at import GroupAt
from streaming.queries.observed import observed
from streaming.queries.present import present
from streaming.queries.results import FailedMessages
from streaming.tables.observations import LOOK_BACK_MS
from streaming.tables.reader import ReadModel

GROWTH_MS = 3_600_000
"""The time over which added messages are counted."""
_SLICE_MS = 300_000
"""How exactly the beginning of that time is met where history begins within it."""

_COLUMNS = ["lag", "broker_offset", "min_offset", "stored_at"]
_OF_OFFSETS = "p.kind IN ('CONSUME_STATS', 'TOPIC_STATS')"
_AT_THE_ENDS = "(p.time <= from_ms($since + 300000) OR p.time > from_ms($until - $back))"
"""Only answers at both ends of the time, two fifths of all; for the 5 minutes see `observed.sql`."""


def _failed(condition: str) -> str:
    """Return the query, over the answers of a condition as in `observed`."""
    answers = observed(_COLUMNS, condition, "$retry, $dead")
    return with_parts(statements_of(__name__)["failed_messages"], observed=answers)


_IN_SHORT = _failed(f"{_OF_OFFSETS} AND {_AT_THE_ENDS}")
_IN_FULL = _failed(_OF_OFFSETS)
"""Where the history of a topic begins within the time: its first answer counts."""


def failed_messages(model: ReadModel, group_at: GroupAt) -> list[FailedMessages]:
    """Return the retry topic of a group at each broker, then its dead-letter topic; one that is unknown is left out."""
    until = present(model, group_at.at)
    parameters = {
        "cluster": group_at.cluster,
        "group": group_at.group,
        "retry": f"{RETRY_TOPIC_PREFIX}{group_at.group}",
        "dead": f"{DEAD_LETTER_TOPIC_PREFIX}{group_at.group}",
        "since": until - GROWTH_MS,
        "until": until,
        "step": _SLICE_MS,
        "back": LOOK_BACK_MS,
    }
    rows = model.rows(_IN_SHORT, parameters)
    if any(row["added_since"] > until - GROWTH_MS for row in rows):
        rows = model.rows(_IN_FULL, parameters)
    recent = (row for row in rows if row["age_ms"] <= LOOK_BACK_MS)
    return [FailedMessages(**row | {"added_ms": until - row.pop("added_since")}) for row in recent]
