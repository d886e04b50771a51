"""The types of the queries' results, a module a subject.

Times are in epoch milliseconds; None means unknown, never 0.
"""

from streaming.queries.results.alerts import (
    Acknowledgement,
    Closing,
    Notification,
    RecordedAction,
    Silence,
)
from streaming.queries.results.base import (
    Instant,
    QueryResult,
    as_json,
    times_of,
)
from streaming.queries.results.clients import (
    Client,
    ClientDetail,
    Member,
)
from streaming.queries.results.groups import (
    Coverage,
    Group,
    OpenIncidents,
    Overview,
)
from streaming.queries.results.incident_detail import (
    Command,
    Impact,
    IncidentDetail,
    ListenerStacks,
    Reach,
    ThreadStack,
)
from streaming.queries.results.incidents import (
    BY_PERSON,
    Incident,
    Transition,
)
from streaming.queries.results.lag import (
    FailedMessages,
    LagPoint,
)
from streaming.queries.results.ownership import (
    Interval,
    OwnerChange,
)
from streaming.queries.results.quality import (
    QualityCheck,
)
from streaming.queries.results.queue_history import (
    QueueDetail,
    QueueHistory,
    QueueObservation,
)
from streaming.queries.results.queues import (
    Queue,
)
from streaming.queries.results.rebalances import (
    Move,
    Rebalance,
    RebalanceTotals,
)
from streaming.queries.results.sql import (
    SqlResult,
)

__all__ = [
    "BY_PERSON",
    "Acknowledgement",
    "Client",
    "ClientDetail",
    "Closing",
    "Command",
    "Coverage",
    "FailedMessages",
    "Group",
    "Impact",
    "Incident",
    "IncidentDetail",
    "Instant",
    "Interval",
    "LagPoint",
    "ListenerStacks",
    "Member",
    "Move",
    "Notification",
    "OpenIncidents",
    "Overview",
    "OwnerChange",
    "QualityCheck",
    "QueryResult",
    "Queue",
    "QueueDetail",
    "QueueHistory",
    "QueueObservation",
    "Reach",
    "Rebalance",
    "RebalanceTotals",
    "RecordedAction",
    "Silence",
    "SqlResult",
    "ThreadStack",
    "Transition",
    "as_json",
    "times_of",
]
