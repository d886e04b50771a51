"""One incident with all that is known about it, and what people did about its alerts."""

from pydantic import Field

from streaming.queries.results.base import Instant, QueryResult
from streaming.queries.results.incidents import Incident, Transition
from streaming.queries.results.queues import Queue


class Notification(QueryResult):
    """One alert about an incident and its last step on the way to a channel, or why none was sent."""

    time: Instant = Field(description="Time of its last step, by the clock of the alert process.")
    channel: str | None = Field(description="Name of the channel; null: no channel is notified.")
    message: str | None = Field(description="OPENED, ESCALATED, REMINDER or RESOLVED; null: it is held back.")
    step: str = Field(description="HELD, QUEUED, PACKED, SENT, FAILED or GIVEN_UP, as in alert_deliveries.")
    reason: str | None = Field(default=None, description="Why it is held back, as a code, as in alert_deliveries.")
    related_id: str | None = Field(
        default=None, description="The silence, or the other incident, that the reason is about."
    )
    detail: str = Field(description="The channel's error, or why it was given up, in words; else empty.")
    attempt: int = Field(description="Number of attempts to send it.")


class Acknowledgement(QueryResult):
    """A person's note that they have seen an incident: no more reminders are sent."""

    time: Instant
    author: str
    reason: str


class Closing(QueryResult):
    """A person's note that an incident is closed, or open again."""

    time: Instant
    author: str
    reason: str


class AlertSilence(QueryResult):
    """An active silence that suppresses the alerts of an incident."""

    silence_id: str
    until: Instant
    author: str
    reason: str


class RecordedAction(QueryResult):
    """An action of a person or a program on the alerts of incidents or by SQL, done or refused."""

    time: Instant
    name: str = Field(title="Who", description="Name of who did it; may be empty.")
    subject: str = Field(
        description="The identity of a person for the identity provider or the proxy; of a command the system's user; "
        "token: who had the token; empty: someone on the dashboard's machine."
    )
    source: str = Field(title="By", description="PAGE, REST, MCP or CLI.")
    action: str = Field(description="ACKNOWLEDGE, SILENCE, UNSILENCE, CLOSE, REOPEN or SQL.")
    target: str = Field(
        title="Incident or silence",
        description="Id of the incident or the silence, as it was named if it was not found; of a new silence the "
        "incident that it was made from, or what it matches; empty: SQL.",
    )
    detail: str = Field(title="Reason or query", description="Why, and of a silence how long, or the query of SQL.")
    result: str = Field(description="DONE; REFUSED: not allowed; FAILED: it could not be done.")
    message: str | None = Field(description="Why it was not done; null: it was.")
    rows: int | None = Field(description="The number of rows of the answer of SQL; null: another action, or no answer.")


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
    """The stacks of a client's listener; without threads, none was in it."""

    client_id: str
    time: Instant = Field(description="When the client answered, epoch milliseconds.")
    threads: tuple[ListenerThread, ...]


class Impact(QueryResult):
    """The messages that wait in the queues of an open incident, by what was last observed of each."""

    queues: int = Field(description="Number of its queues.")
    lag: int | None = Field(description="Sum over its queues whose lag is known and not stale; null: there are none.")
    lag_is_at_least: bool = Field(description="True if only a lower bound is known for some of these.")
    lag_unknown: int = Field(description="Number of its queues whose lag is unknown or stale.")
    lag_time: Instant | None = Field(description="Time of the oldest of these observations.")
    waiting_ms: int | None = Field(
        description="Longest waiting time of a next message, in milliseconds; null: none is known, or all are stale."
    )
    waiting_is_at_most: bool = Field(description="True if that is an upper bound.")


class IncidentDetail(QueryResult):
    """An incident with its timeline, the incidents that it explains, and the event that opened it."""

    incident: Incident
    as_of: Instant = Field(description="The instant of its state: now, or the last telemetry if that has ended.")
    reach: IncidentReach | None = Field(
        default=None,
        description="Groups and queues affected when it opened; only of an incident of a cluster.",
    )
    commands: tuple[SuggestedCommand, ...] = Field(
        default=(), description="The commands to run next; mqadmin also needs -n NAMESRV or NAMESRV_ADDR."
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
        description="The stacks of the listener, if it hung; null: its client was not asked, or did not say.",
    )
    impact: Impact | None = Field(default=None, description="Messages that wait; only of an open incident.")
    notifications: tuple[Notification, ...] = Field(default=(), description="Who was notified when, the first first.")
    acknowledged: Acknowledgement | None = Field(default=None, description="Null: nobody has acknowledged it.")
    silences: tuple[AlertSilence, ...] = Field(default=(), description="Active silences that match it.")
    last_rebalance: str | None = Field(
        default=None, description="Id of the group's last rebalance that had begun when it opened; null: none is known."
    )
