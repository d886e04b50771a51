"""A queue of a group at an instant."""

from pydantic import Field

from streaming.queries.health import Health
from streaming.queries.results.base import Instant, QueryResult
from streaming.queries.without_owner import WithoutOwner


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
        description="Whether neither a hook nor the owner has reported the queue for 2 minutes."
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
        description="Whether it is a lower bound: a hook sees pulled messages, not the newest offset."
    )
    lag_time: Instant | None = Field(description="Time of the observation.")
    lag_age_ms: int | None = Field(
        title="Lag age", description="Age of the observation at the requested time, in milliseconds."
    )
    lag_is_stale: bool = Field(description="Whether it is older than two intervals of its source.")
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
    waiting_is_at_most: bool = Field(description="Whether it is an upper bound: the age of the previous message.")
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
        default=False, description="Whether owner, lock and status are stale at the requested time, as its group is."
    )

    @property
    def is_elsewhere(self) -> bool:
        """Whether the owner is not the one expected by the strategy, or missing."""
        return self.expected_owner is not None and self.expected_owner != self.owner

    def holder(self, without_owner: WithoutOwner) -> str:
        """Return the owner, or the label of a queue without one; the argument is that of its group."""
        return self.owner or (WithoutOwner.SHARED if self.shared_by else without_owner).label

    @property
    def is_problem(self) -> bool:
        """Whether the queue is not OK or has an unexpected owner."""
        return self.status != "OK" or self.is_elsewhere
