"""A queue of a group over a period."""

from pydantic import Field

from streaming.queries.results.base import Instant, QueryResult
from streaming.queries.results.incidents import Incident
from streaming.queries.results.ownership import Interval
from streaming.queries.results.queues import Queue
from streaming.queries.results.rebalances import Rebalance


class QueueObservation(QueryResult):
    """What was reported of a queue at an instant; a quantity is null if this report does not have it."""

    time: Instant
    source: str = Field(description="HOOK or POLL.")
    kind: str = Field(description="HOOK, or the type of the answer to the collector.")
    client_id: str | None = Field(description="The client that answered; null: the broker did.")
    stale_at: Instant = Field(description="Time from which it is stale: two intervals of its source later.")
    broker_offset: int | None
    commit_offset: int | None = Field(title="Committed")
    lag: int | None
    lag_is_at_least: bool
    waiting_ms: int | None = Field(
        title="Waiting", description="Waiting time of the next message in milliseconds; 0: none is waiting."
    )
    waiting_is_at_most: bool = Field(description="Whether it is an upper bound: the age of the previous message.")
    lock_at: Instant | None = Field(
        title="Lock renewed", description="When the lock was last renewed; by a client the latest possible time."
    )


class QueueHistory(QueryResult):
    """A queue over a period: owners, rebalances that changed it, incidents, and what was reported of it."""

    cluster: str
    group: str
    topic: str
    broker: str
    queue_id: int
    since: Instant
    until: Instant
    unassigned_since: Instant | None = Field(
        description="Time since which it was unassigned when the period began; null if it had an owner or was unknown."
    )
    intervals: tuple[Interval, ...]
    rebalances: tuple[Rebalance, ...] = Field(description="Oldest first, each with the move of this queue alone.")
    incidents: tuple[Incident, ...] = Field(description="Those of the queue, its clients, group and broker.")
    observations: tuple[QueueObservation, ...] = Field(description="Oldest first.")


class QueueDetail(QueryResult):
    """A queue at an instant, and over the period before it."""

    queue: Queue | None = Field(description="Its state at the end of the period; null if the group did not have it.")
    history: QueueHistory
