"""One incident with all that is known about it."""

from pydantic import Field

from streaming.queries.results.alerts import Acknowledgement, AlertSilence, Notification
from streaming.queries.results.base import Instant, QueryResult
from streaming.queries.results.incidents import Incident, Transition
from streaming.queries.results.queues import Queue


class SuggestedCommand(QueryResult):
    """A command to run next, filled in."""

    purpose: str
    text: str = Field(description="The command line, quoted for a POSIX shell.")


class IncidentReach(QueryResult):
    """The number of groups and queues affected by an incident of a cluster."""

    groups: int
    queues: int


class ListenerThread(QueryResult):
    """A thread of a client that consumes."""

    name: str
    state: str = Field(description="Java's Thread.State.")
    frames: tuple[str, ...] = Field(description="From the top down to the consume service that calls the listener.")


class ListenerStacks(QueryResult):
    """What a client's listener was doing; without threads, none was in it."""

    client_id: str
    time: Instant = Field(description="When the client answered, epoch milliseconds.")
    threads: tuple[ListenerThread, ...]


class Impact(QueryResult):
    """The messages that wait in the queues of an open incident, by what was last observed of each."""

    queues: int = Field(description="Number of its queues.")
    lag: int | None = Field(description="Sum over its queues whose lag is known and not stale; null: there are none.")
    lag_is_at_least: bool = Field(description="Whether only a lower bound is known for some of these.")
    lag_unknown: int = Field(description="Number of its queues whose lag is unknown or stale.")
    lag_time: Instant | None = Field(description="Time of the oldest of these observations.")
    waiting_ms: int | None = Field(
        description="Longest waiting time of a next message, in milliseconds; null: none is known, or all are stale."
    )
    waiting_is_at_most: bool = Field(description="Whether that is an upper bound.")


class IncidentDetail(QueryResult):
    """An incident with its timeline, the incidents that it explains, and the event that opened it."""

    incident: Incident
    as_of: Instant = Field(description="The instant of its state: now, or the last telemetry if that has ended.")
    reach: IncidentReach | None = Field(
        default=None,
        description="Groups and queues affected when it opened; only of an incident of a cluster.",
    )
    commands: tuple[SuggestedCommand, ...] = Field(
        default=(), description="What to run next; mqadmin also needs -n NAMESRV or NAMESRV_ADDR."
    )
    life: tuple[Transition, ...]
    absorbed: tuple[Incident, ...]
    cause_event: dict[str, object] | None = Field(
        description="Event that opened it; null if the archive does not contain it."
    )
    queue: Queue | None = Field(
        default=None, description="Current state of the queue; only of an open incident of a queue."
    )
    stacks: ListenerStacks | None = Field(
        default=None,
        description="What the listener was doing, if it hung; null: its client was not asked, or did not say.",
    )
    impact: Impact | None = Field(default=None, description="Messages that wait; only of an open incident.")
    notifications: tuple[Notification, ...] = Field(default=(), description="Who was notified when, the first first.")
    acknowledged: Acknowledgement | None = Field(default=None, description="Null: nobody has acknowledged it.")
    silences: tuple[AlertSilence, ...] = Field(default=(), description="Active silences that match it.")
    last_rebalance: str | None = Field(
        default=None, description="Id of the group's last rebalance that had begun when it opened; null: none is known."
    )
