"""The columns that people see of each result type, for the command line's grids and the pages' tables.

To add a column to a table: declare it in the module of its subject, and name it in `grid` (command line), `page`, or
both.
"""

from streaming.queries.columns.alerts import (
    RECORDED_ACTION,
)
from streaming.queries.columns.clients import (
    CLIENT,
    MEMBER,
    PROXIED_COLUMNS,
    shown_columns,
)
from streaming.queries.columns.failed_messages import (
    FAILED_MESSAGES,
)
from streaming.queries.columns.groups import (
    GROUP,
)
from streaming.queries.columns.incidents import (
    INCIDENT,
    TRANSITION,
)
from streaming.queries.columns.ownership import (
    INTERVAL,
    OWNER_CHANGE,
)
from streaming.queries.columns.quality import (
    QUALITY,
)
from streaming.queries.columns.queues import (
    OBSERVATION,
    QUEUE,
)
from streaming.queries.columns.rebalances import (
    DURATION_MEANING,
    LONGEST_MEANING,
    MOVE,
    REBALANCE,
    TOTAL_MEANING,
)

__all__ = [
    "CLIENT",
    "DURATION_MEANING",
    "FAILED_MESSAGES",
    "GROUP",
    "INCIDENT",
    "INTERVAL",
    "LONGEST_MEANING",
    "MEMBER",
    "MOVE",
    "OBSERVATION",
    "OWNER_CHANGE",
    "PROXIED_COLUMNS",
    "QUALITY",
    "QUEUE",
    "REBALANCE",
    "RECORDED_ACTION",
    "TOTAL_MEANING",
    "TRANSITION",
    "shown_columns",
]
