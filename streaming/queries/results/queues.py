"""Queues of a group: state at an instant, owners, rebalances, history."""

from pydantic import Field

from rebalance_model.observe.effects import MoveKind
from streaming.queries.health import Health, WithoutOwner
from streaming.queries.results.base import Instant, QueryResult
from streaming.queries.results.incidents import Incident


class Interval(QueryResult):
    """An interval during which a client owned a queue; `to_time` is null while it still does."""

    cluster: str
    group: str
    topic: str
    broker: str
    queue_id: int
    client_id: str
    from_time: Instant
    to_time: Instant | None
    duration_ms: int | None
    evidence: str
    end_evidence: str | None
    rebalance_id: str

    def by(self, instant: int) -> "Interval":
        """Return the interval as it was at an instant, epoch milliseconds: what ended later had not ended."""
        if self.to_time is None or self.to_time <= instant:
            return self
        return self.model_copy(update={"to_time": None, "duration_ms": None, "end_evidence": None})


class OwnerChange(QueryResult):
    """A queue whose owner differs between two instants; null: it was unassigned, or did not exist yet."""

    cluster: str
    group: str
    topic: str
    broker: str
    queue_id: int
    from_client: str | None = Field(title="Earlier owner")
    to_client: str | None = Field(title="Later owner")
    is_new: bool = Field(description="True if the queue was not known yet at the earlier time.")


class RebalanceMove(QueryResult):
    """One queue of a settled rebalance."""

    topic: str
    broker: str
    queue_id: int
    from_client: str | None = Field(title="From")
    to_client: str | None = Field(title="To")
    kind: MoveKind = Field(
        title="Change", description="MOVED, INTERRUPTED (re-acquired by the same client) or UNASSIGNED."
    )
    pause_ms: int | None = Field(title="Pause")
    pause_is_at_most: bool = Field(description="True if the pause is an upper bound: polls give no exact times.")
    reconsumed: int | None = Field(title="Duplicates (estimated)")
    reconsumed_min: int | None
    reconsumed_max: int | None


class Rebalance(QueryResult):
    """One settled rebalance; see `rebalance_model.observe.effects.RebalanceSettled`."""

    cluster: str
    group: str
    rebalance_id: str = Field(title="Id")
    start_time: Instant = Field(title="Started")
    end_time: Instant
    trigger: str = Field(title="Cause")
    trigger_client: str | None = Field(title="Trigger")
    causes: tuple[str, ...]
    members_before: tuple[str, ...]
    members_after: tuple[str, ...]
    queues_moved: int = Field(title="Moved")
    queues_interrupted: int = Field(title="Interrupted")
    queues_unassigned: int = Field(title="Unassigned")
    queues_moved_min: int = Field(title="Necessary", description="Number of queues that had to move in any case.")
    pause_ms_max: int | None = Field(title="Longest pause")
    pause_ms_p50: int | None = Field(title="Median pause")
    pause_is_at_most: bool
    reconsumed: int | None = Field(title="Duplicates (estimated)")
    reconsumed_min: int | None
    reconsumed_max: int | None
    converged: bool | None = Field(
        title="Ended as expected", description="True if each queue had its expected owner at the end."
    )
    moves: tuple[RebalanceMove, ...] = ()

    @property
    def pause_ms_sum(self) -> int | None:
        """The sum of the known pauses of its moves, milliseconds; None if none is known."""
        known = [move.pause_ms for move in self.moves if move.pause_ms is not None]
        return sum(known) if known else None


class RebalanceTotals(QueryResult):
    """The cost of all rebalances of a group in a period."""

    rebalances: int
    first: Instant | None = Field(description="Start of the first one; null if there are none.")
    pause_ms: int | None = Field(description="Sum of the known pauses of all queues; null if none is known.")
    pause_is_at_most: bool = Field(description="True if one of them is an upper bound.")
    pauses_unknown: int = Field(description="Number of moves whose pause is unknown.")
    costliest: str | None = Field(description="Id of the one with the largest sum of pauses; null if none is known.")
    costliest_pause_ms: int | None
    by_cause: dict[str, int] = Field(description="Number of rebalances by cause, the most frequent first.")
    pause_by_cause: dict[str, int | None] = Field(
        default_factory=dict, description="Sum of the known pauses by cause, in milliseconds; null if none is known."
    )


class Queue(QueryResult):
    """A queue of a group at an instant: owner, expected owner, progress and status."""

    cluster: str
    group: str
    topic: str
    broker: str
    queue_id: int
    owner: str | None
    since: Instant | None = Field(description="Time since which it has this owner, or none.")
    expected_owner: str | None = Field(title="Expected")
    locked: bool | None
    lock_age_ms: int | None = Field(
        title="Lock age",
        description="Milliseconds since the owner renewed its lock, at the requested time, by what was reported until"
        " then: a hook reports each renewal, a client what it knows in each round.",
    )
    lock_is_stale: bool = Field(
        description="True if neither a hook nor the owner has reported the queue for 2 minutes."
    )
    pull_age_ms: int | None = Field(
        title="Last pull",
        description="Milliseconds since the owner's last pull, by what was reported until then: a hook reports it every"
        " 10 s, a client in each round.",
    )
    pull_is_stale: bool
    consume_age_ms: int | None = Field(
        title="Last consumed",
        description="Milliseconds since a message was passed to the owner's listener, or it returned; only reported by"
        " the owner.",
    )
    consume_is_stale: bool
    commit_age_ms: int | None = Field(
        description="Milliseconds since the committed offset changed; only reported by a broker hook."
    )
    commit_is_stale: bool
    commit_offset: int | None
    broker_offset: int | None
    lag: int | None = Field(
        description="Last lag observed by the requested time, at most 15 minutes or 3 intervals old."
    )
    lag_is_at_least: bool = Field(
        description="True if it is a lower bound: a hook sees pulled messages, not the newest offset."
    )
    lag_time: Instant | None = Field(description="Time of the observation.")
    lag_age_ms: int | None = Field(
        title="Lag age", description="Age of the observation at the requested time, in milliseconds."
    )
    lag_is_stale: bool = Field(description="True if it is older than two intervals of its source.")
    in_flight: int | None = Field(
        description="Number of messages pulled but not committed; of a popped queue, those that are neither"
        " acknowledged nor given back."
    )
    in_flight_since: Instant | None = Field(
        default=None,
        description="Latest time at which the oldest message in flight can have been popped; of a popped queue only.",
    )
    in_flight_age_ms: int | None = Field(
        default=None,
        description="Milliseconds since then, at the requested time: it is in flight for as long at least.",
    )
    ready: int | None = Field(description="Number of messages not pulled, or popped, yet.")
    waiting_ms: int | None = Field(
        title="Waiting", description="Waiting time of the next message in milliseconds; 0: none is waiting."
    )
    waiting_is_at_most: bool = Field(description="True if it is an upper bound: the age of the previous message.")
    waiting_age_ms: int | None
    waiting_is_stale: bool
    cached_count: int | None = Field(
        title="Cached", description="Number of messages cached by the owner, as last reported."
    )
    cached_age_ms: int | None
    cached_is_stale: bool
    status: Health
    status_reason: str
    shared_by: tuple[str, ...] = Field(
        default=(),
        title="Shared by",
        description="Clients that pop the queue, by their last answers, at most 64; it has no owner then.",
    )
    time: Instant = Field(title="Updated", description="Time of the last update of owner, lock and status.")
    is_stale: bool = Field(
        default=False, description="True if owner, lock and status are stale at the requested time, as its group is."
    )

    @property
    def is_elsewhere(self) -> bool:
        """Return whether the owner is not the one expected by the strategy, or missing."""
        return self.expected_owner is not None and self.expected_owner != self.owner

    def holder(self, without_owner: WithoutOwner) -> str:
        """Return the owner, or the label of a queue without one; the argument is that of its group."""
        return self.owner or (WithoutOwner.SHARED if self.shared_by else without_owner).label

    @property
    def is_problem(self) -> bool:
        """Return whether the queue is not OK or has an unexpected owner."""
        return self.status != "OK" or self.is_elsewhere


class QueueObservation(QueryResult):
    """A report about a queue at an instant; a quantity is null if this report does not have it."""

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
    waiting_is_at_most: bool = Field(description="True if it is an upper bound: the age of the previous message.")
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
