"""Query the brokers of a group: when each was last asked about it, and when it answered.

Two things look alike in what a group's page shows of a broker's queues: the broker was asked and did not answer, or had
no turn (`streaming.collect.poll`). Only the archive of telemetry tells them apart: a request without an answer is an
event, too.
"""

from rebalance_model.observe.events import DEADLINE, NOT_ASKED, UNREACHABLE
from streaming.base.statements import statements_of
from streaming.queries.group_at import GroupAt
from streaming.queries.present import present
from streaming.queries.results import GroupBroker
from streaming.queries.results.brokers import ASKED_WITHIN_MS
from streaming.tables.reader import ReadModel

_SQL = statements_of(__name__)
_FRESH_MS = 30_000
"""An answer is fresh for two intervals, and so long at least."""


def group_brokers(model: ReadModel, group_at: GroupAt) -> list[GroupBroker]:
    """List the brokers of a group; none if nothing was polled, or there is no archive."""
    of_group = {"cluster": group_at.cluster, "group": group_at.group, "back": ASKED_WITHIN_MS}
    [archive] = model.rows(_SQL["heard"], of_group | {"now": present(model, group_at.at)})
    if (heard := archive["heard"]) is None:
        return []
    fresh_ms = max(_FRESH_MS, 2 * (archive["interval_ms"] or 0))
    silence = {"silence": [UNREACHABLE, DEADLINE], "not_asked": NOT_ASKED}
    rows = model.rows(_SQL["brokers"], of_group | silence | {"instant": group_at.instant, "now": heard})
    return [GroupBroker(**row, as_of=heard, is_fresh=heard - (row["answered_at"] or 0) <= fresh_ms) for row in rows]
