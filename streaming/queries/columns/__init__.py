"""The columns that people see of each result type, for the command line's grids and the pages' tables.

To add a column to a table: declare it in the module of its subject, and name it in `grid` (command line), `page`, or
both.
"""

from streaming.queries.columns.groups import CLIENT, FAILED_MESSAGES, GROUP, MEMBER, PROXIED_COLUMNS, shown_columns
from streaming.queries.columns.incidents import INCIDENT, QUALITY, RECORDED_ACTION, TRANSITION
from streaming.queries.columns.queues import (
    DURATION_MEANING,
    INTERVAL,
    LONGEST_MEANING,
    MOVE,
    OBSERVATION,
    OWNER_CHANGE,
    QUEUE,
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
