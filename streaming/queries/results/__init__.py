"""The types of the queries' results, a module a subject.

Times are in epoch milliseconds; None means unknown, never 0.
"""

from streaming.queries.results.alerts import (
    Acknowledgement,
    AlertSilence,
    Closing,
    Notification,
    RecordedAction,
)
from streaming.queries.results.base import (
    Instant,
    QueryResult,
    as_json,
    times_of,
)
from streaming.queries.results.brokers import (
    GroupBroker,
)
from streaming.queries.results.clients import (
    ClientDetail,
    GroupClient,
    GroupMember,
)
from streaming.queries.results.groups import (
    Group,
    OpenIncidents,
    Overview,
    TelemetryCoverage,
)
from streaming.queries.results.incident_detail import (
    Impact,
    IncidentDetail,
    IncidentReach,
    ListenerStacks,
    ListenerThread,
    SuggestedCommand,
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
    Rebalance,
    RebalanceMove,
    RebalanceTotals,
)
from streaming.queries.results.sql import (
    SqlResult,
)

__all__ = [
    "BY_PERSON",
    "Acknowledgement",
    "AlertSilence",
    "ClientDetail",
    "Closing",
    "FailedMessages",
    "Group",
    "GroupBroker",
    "GroupClient",
    "GroupMember",
    "Impact",
    "Incident",
    "IncidentDetail",
    "IncidentReach",
    "Instant",
    "Interval",
    "LagPoint",
    "ListenerStacks",
    "ListenerThread",
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
    "Rebalance",
    "RebalanceMove",
    "RebalanceTotals",
    "RecordedAction",
    "SqlResult",
    "SuggestedCommand",
    "TelemetryCoverage",
    "Transition",
    "as_json",
    "times_of",
]
