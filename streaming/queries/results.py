"""The types of the queries' results. Times are in epoch milliseconds; None means unknown, never 0."""

from typing import Annotated, TypeAlias, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from rebalance_model.observe.effects import MoveKind
from streaming.base.language import gettext
from streaming.queries import labels
from streaming.queries.health import Health, Severity
from streaming.queries.without_owner import WithoutOwner, without_owner

Instant: TypeAlias = Annotated[int, Field(json_schema_extra={"format": "epoch-ms"})]
"""A point in time: epoch milliseconds, in CSV ISO 8601."""


class QueryResult(BaseModel):
    """The base of all results: immutable, without extra fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def times_of(rows: type[QueryResult]) -> frozenset[str]:
    """Return the names of the fields that are points in time."""
    hints = get_type_hints(rows, include_extras=True)
    return frozenset(name for name, hint in hints.items() if Instant in (hint, *get_args(hint)))


def as_json(answer: object, *, indent: int | None = None) -> bytes:
    """Encode one result, several, or None as JSON, for the command line and the REST API alike."""
    return to_json(answer, indent=indent)


class Coverage(QueryResult):
    """The telemetry that a group's health is based on; see `rebalance_model.observe.rules.coverage`.

    Rows of an earlier release may lack fields, those of a later one may have more.
    """

    model_config = ConfigDict(extra="ignore")

    brokers: int = 0
    hooks: int = 0
    polls: bool = False
    brokers_answering: int = 0
    members: int = 0
    members_answering: int = 0
    offsets: bool = False
    silent_rules: tuple[str, ...] = ()
    sharing: str = ""
    unreadable: tuple[str, ...] = ()
    unreadable_more: int = 0
    members_mute: int = 0
    routes_incomplete: tuple[str, ...] = ()

    @property
    def owners_known(self) -> bool:
        """Whether a queue without a known owner has none: each member reports its queues, or hooks do."""
        return not self.members_mute or (self.brokers > 0 and self.hooks == self.brokers)


class OpenIncidents(QueryResult):
    """The number of open incidents of each severity that no other incident explains.

    Those of a group include those of its cluster that affect it, as in its list.
    """

    critical: int = 0
    warning: int = 0
    info: int = 0
    closed: int = Field(
        default=0, description="Those that a person has closed while their condition holds: the health is as before."
    )


class Group(QueryResult):
    """A consumer group at an instant."""

    cluster: str
    group: str
    time: Instant = Field(title="Updated", description="Time of the last update of its state.")
    health: Health
    health_reason: str = Field(title="Reason")
    orderly: bool | None
    strategy: str | None
    consume_type: str
    message_model: str
    members: tuple[str, ...]
    proxied_clients: tuple[str, ...] | None = Field(
        default=None,
        description="Clients of proxies, which no broker lists, by the proxies' own lists, or by the heartbeats that"
        " proxies copy to each other, as a hook sees them; null: none is seen.",
    )
    subscriptions: tuple[str, ...]
    queues: int = Field(description="Number of queues, without retry queues.")
    unowned: int | None = Field(
        title="Unassigned", description="Number of unassigned queues; null if queues have no single owner."
    )
    lag: int | None = Field(description="Sum over the queues whose lag is known and not stale; null if there are none.")
    lag_is_at_least: bool = Field(description="Whether only a lower bound is known for some queues.")
    lag_unknown: int = Field(description="Number of queues whose lag is unknown or stale.")
    lag_stale: int = Field(description="Number of these whose lag was known within the last 15 minutes.")
    lag_age_ms: int | None = Field(title="Lag age", description="Age of the oldest lag in the sum, in milliseconds.")
    incidents: OpenIncidents
    last_rebalance: Instant | None
    coverage: Coverage
    telemetry_age_ms: int = Field(
        default=0, description="Age of the newest telemetry of its cluster at the requested time, in milliseconds."
    )
    is_stale: bool = Field(
        default=False,
        description="Whether that is more than a minute, or than two intervals of its source if that is longer: the"
        " group may have changed since. From 3 minutes on its health is UNKNOWN.",
    )

    @property
    def sharing(self) -> str:
        """How its clients share the queues (`Coverage.sharing`); PROXIED also if only clients of proxies are seen."""
        return self.coverage.sharing or ("PROXIED" if self.proxied_clients and not self.members else "")

    @property
    def kind(self) -> str:
        """How its clients consume, in words."""
        return labels.kind(
            orderly=self.orderly, message_model=self.message_model, consume_type=self.consume_type,
            sharing=self.sharing,
        )  # fmt: skip

    @property
    def without_owner(self) -> WithoutOwner:
        """What a queue of the group without a known owner is."""
        return without_owner(
            message_model=self.message_model, consume_type=self.consume_type, sharing=self.coverage.sharing
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


class Member(QueryResult):
    """A client and its number of queues, without retry queues."""

    client_id: str = Field(title="Client")
    queues: int
    is_member: bool = Field(
        title="Membership", description="False if it has queues but is no longer listed by any broker or proxy."
    )


class Client(QueryResult):
    """A client in a group at an instant; what telemetry does not say is null."""

    cluster: str
    group: str
    client_id: str = Field(title="Client")
    is_member: bool = Field(
        title="Membership", description="False if it has queues but is no longer listed by any broker."
    )
    queues: int = Field(description="Number of its queues, without retry queues.")
    version: str | None = Field(default=None, description="RocketMQ's release that the client declares.")
    language: str | None = None
    address: str | None = Field(default=None, description="Address and port of its connection to a broker or proxy.")
    proxy: str | None = Field(default=None, description="Remoting address of the proxy that it is behind, if any.")
    last_heartbeat: Instant | None = Field(
        default=None, title="Heartbeat", description="Time of its last heartbeat of the last 5 minutes; by hooks only."
    )
    seen_at: Instant | None = Field(
        default=None,
        title="Last listed",
        description="Time at which a broker or proxy last listed its connection, or got its heartbeat.",
    )
    started_at: Instant | None = Field(default=None, title="Started", description="By the client's own clock.")
    subscriptions: tuple[str, ...] | None = None
    open_incidents: int = Field(title="Incidents", description="Number of open incidents about it.")
    health: Health = Field(
        default="UNKNOWN",
        description="BAD: a critical incident about it is open; WARN: one of severity warning, or it has queues and is"
        " no member; UNKNOWN: no broker and no collector has reported it for 5 minutes.",
    )
    health_reason: str = Field(default="", title="Reason", description="The incident, or what is wrong.")


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


class OwnerChange(QueryResult):
    """A queue whose owner differs between two instants; null: it was unassigned, or did not exist yet."""

    cluster: str
    group: str
    topic: str
    broker: str
    queue_id: int
    from_client: str | None = Field(title="Earlier owner")
    to_client: str | None = Field(title="Later owner")
    is_new: bool = Field(description="Whether the queue was not known yet at the earlier time.")


class Move(QueryResult):
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
    pause_is_at_most: bool = Field(description="Whether the pause is an upper bound: polls give no exact times.")
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
    queues_moved_min: int = Field(title="Minimum")
    pause_ms_max: int | None = Field(title="Longest pause")
    pause_ms_p50: int | None = Field(title="Median pause")
    pause_is_at_most: bool
    reconsumed: int | None = Field(title="Duplicates (estimated)")
    reconsumed_min: int | None
    reconsumed_max: int | None
    converged: bool | None
    moves: tuple[Move, ...] = ()

    @property
    def pause_ms_sum(self) -> int | None:
        """The sum of the known pauses of its moves, milliseconds; None if none is known."""
        known = [move.pause_ms for move in self.moves if move.pause_ms is not None]
        return sum(known) if known else None


class RebalanceTotals(QueryResult):
    """What the rebalances of a group in a period have cost together."""

    rebalances: int
    first: Instant | None = Field(description="Start of the first one; null if there are none.")
    pause_ms: int | None = Field(description="Sum of the known pauses of all queues; null if none is known.")
    pause_is_at_most: bool = Field(description="Whether one of them is an upper bound.")
    pauses_unknown: int = Field(description="Number of moves whose pause is unknown.")
    costliest: str | None = Field(description="Id of the one with the largest sum of pauses; null if none is known.")
    costliest_pause_ms: int | None
    by_cause: dict[str, int] = Field(description="Number of rebalances by cause, the most frequent first.")
    pause_by_cause: dict[str, int | None] = Field(
        default_factory=dict, description="Sum of the known pauses by cause, in milliseconds; null if none is known."
    )


class Incident(QueryResult):
    """An incident after its last transition by the requested time."""

    cluster: str
    group: str
    incident_id: str = Field(title="Id")
    code: str
    sub_cause: str
    severity: Severity
    subject: str
    opened_at: Instant = Field(title="Opened")
    resolved_at: Instant | None = Field(title="Resolved")
    changed_at: Instant
    transitions: int
    topic: str | None
    broker: str | None
    queue_id: int | None
    client_id: str | None
    explanation: str
    first_step: str
    parent: str | None = Field(title="Explained by", description="Id of the incident that explains it.")
    absorbed: bool = Field(description="Whether no alert is sent of it because the alert of that one stands for it.")
    evidence: dict[str, object]
    cause: str = Field(
        description="Event that caused its last transition: source_id|key|seq; empty if it was the passage of time."
    )
    main_cause: str = Field(description="The sub-cause that held longest; `sub_cause` is the latest one.")
    main_client_id: str | None = Field(title="Client")
    main_explanation: str
    resolution: str | None = Field(
        default=None,
        title="Ended",
        description=(
            "Why it was resolved although its condition was not seen to clear: the topic no longer exists, or a person "
            "has closed it (who, and why)."
        ),
    )
    cleared_at: Instant | None = Field(
        default=None,
        description="When its condition cleared; null while it holds, even if a person has closed the incident.",
    )
    consequences: int = Field(default=0, title="Explains", description="Number of incidents that it explains.")

    @property
    def title(self) -> str:
        """The code and the main cause."""
        return f"{self.code} {self.main_cause}".rstrip()

    @property
    def where(self) -> str:
        """The affected group or cluster."""
        return self.group or gettext("cluster {cluster}", cluster=self.cluster)


BY_PERSON = ("CLOSED", "REOPENED")
"""What a person did, in the timeline of an incident; the explanation is who, and why."""


class Transition(QueryResult):
    """A transition in the timeline of an incident, or that a person closed it or opened it again."""

    time: Instant
    transition: str = Field(
        description="OPENED, ESCALATED, DEESCALATED, RECLASSIFIED, RESOLVED; CLOSED, REOPENED: by a person; the "
        "explanation is who, and why."
    )
    severity: Severity
    sub_cause: str
    explanation: str
    evidence: dict[str, object]
    parent: str | None
    cause: str


class Command(QueryResult):
    """A command to run next, filled in."""

    purpose: str
    text: str = Field(description="The command line, quoted for a POSIX shell.")


class Reach(QueryResult):
    """The number of groups and queues affected by an incident of a cluster."""

    groups: int
    queues: int


class ThreadStack(QueryResult):
    """A thread of a client that consumes."""

    name: str
    state: str = Field(description="Java's Thread.State.")
    frames: tuple[str, ...] = Field(description="From the top down to the consume service that calls the listener.")


class ListenerStacks(QueryResult):
    """What a client's listener was doing."""

    client_id: str
    time: Instant = Field(description="When the client answered, epoch milliseconds.")
    threads: tuple[ThreadStack, ...]


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
    """That a person has seen an incident: no more reminders are sent."""

    time: Instant
    author: str
    reason: str


class Closing(QueryResult):
    """That a person has closed an incident, or has opened it again."""

    time: Instant
    author: str
    reason: str


class Silence(QueryResult):
    """An active silence that suppresses the alerts of an incident."""

    silence_id: str
    until: Instant
    author: str
    reason: str


class RecordedAction(QueryResult):
    """What a person or a program did about the alerts of incidents, or was refused."""

    time: Instant
    name: str = Field(title="Who", description="Name of who did it; may be empty.")
    subject: str = Field(
        description="What identifies a person for the identity provider or the proxy; of a command the system's user; "
        "token: who had the token; empty: someone on the dashboard's machine."
    )
    source: str = Field(title="By", description="PAGE, REST or CLI.")
    action: str = Field(description="ACKNOWLEDGE, SILENCE, UNSILENCE, CLOSE or REOPEN.")
    target: str = Field(
        title="Incident or silence",
        description="Id of the incident or the silence, as it was named if it was not found; of a new silence the "
        "incident that it was made from, or what it matches.",
    )
    detail: str = Field(title="Reason", description="Why, and of a silence how long; may be empty.")
    result: str = Field(description="DONE; REFUSED: not allowed; FAILED: it could not be done.")
    message: str | None = Field(description="Why it was not done; null: it was.")


class IncidentDetail(QueryResult):
    """An incident with its timeline, the incidents that it explains, and the event that opened it."""

    incident: Incident
    reach: Reach | None = Field(
        default=None,
        description="Groups and queues affected when it opened; only of an incident of a cluster.",
    )
    commands: tuple[Command, ...] = Field(
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
        default=None, description="What the listener was doing, if it hung and its client was asked for its stacks."
    )
    impact: Impact | None = Field(default=None, description="Messages that wait; only of an open incident.")
    notifications: tuple[Notification, ...] = Field(default=(), description="Who was notified when, the first first.")
    acknowledged: Acknowledgement | None = Field(default=None, description="Null: nobody has acknowledged it.")
    silences: tuple[Silence, ...] = Field(default=(), description="Active silences that match it.")
    last_rebalance: str | None = Field(
        default=None, description="Id of the group's last rebalance that had begun when it opened; null: none is known."
    )

    @property
    def judged(self) -> Transition:
        """The last transition that says why the incident is open; once it is resolved, why it mainly was."""
        ended = self.incident.resolved_at is not None
        steps = [step for step in reversed(self.life) if step.transition not in {"RESOLVED", *BY_PERSON}]
        mainly = [step for step in steps if ended and step.sub_cause == self.incident.main_cause]
        return (mainly or steps or self.life)[0]


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
    unassigned_since: int | None = Field(
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


class ClientDetail(QueryResult):
    """A client in each of its groups, its queues over a period, and its incidents."""

    client_id: str
    since: Instant
    until: Instant
    groups: tuple[Client, ...] = Field(description="Its groups at the end of the period; empty if it was in none.")
    intervals: tuple[Interval, ...] = Field(description="By queue and time.")
    incidents: tuple[Incident, ...] = Field(description="Open ones first, then the newest.")


class FailedMessages(QueryResult):
    """The messages of a group's retry topic or dead-letter topic at a broker, as last answered by an instant."""

    topic: str
    broker: str
    given_up: bool = Field(
        title="State",
        description="Whether these are dead letters: they have used up their attempts, and no consumer gets them.",
    )
    messages: int | None = Field(
        description="Retry topic: messages that wait to be consumed again, without those whose delay is not over."
        " Dead-letter topic: messages that it still stores."
    )
    added: int | None = Field(
        description="Messages that were added within the last hour, or since the broker was first asked; null if the"
        " topic was deleted meanwhile."
    )
    added_ms: int = Field(description="The time over which they were counted, in milliseconds.")
    newest_at: Instant | None = Field(
        title="Newest", description="When the newest dead letter was stored, by the broker's clock."
    )
    time: Instant = Field(description="Time of the observation.")
    age_ms: int = Field(title="Age", description="Age of the observation at the requested time, in milliseconds.")
    is_stale: bool = Field(description="Whether it is older than two intervals of its source.")


class Overview(QueryResult):
    """A summary of a group at an instant."""

    group: Group
    members: tuple[Member, ...]
    incidents: tuple[Incident, ...] = Field(description="Open incidents.")
    rebalances: tuple[Rebalance, ...] = Field(description="Last rebalances, newest first, without their moves.")
    failed: tuple[FailedMessages, ...] = Field(
        default=(), description="Its retry and dead-letter topics at each broker; those that are unknown are left out."
    )
    proxied: tuple[Client, ...] = Field(
        default=(), description="Its clients behind proxies, which no broker lists, with language, version and proxy."
    )


class LagPoint(QueryResult):
    """Lag and waiting time of a topic at the end of a time slice."""

    time: Instant
    topic: str
    lag: int | None = Field(description="Sum over the queues whose lag is known and not stale.")
    lag_is_at_least: bool = Field(description="Whether the lag of one of these is a lower bound, by a broker hook.")
    lag_unknown: int = Field(description="Number of queues whose lag is unknown or stale.")
    waiting_ms: int | None = Field(description="Longest known, fresh waiting time of the queues, in milliseconds.")


class SqlResult(QueryResult):
    """The result of a custom SQL query."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    cut: bool = Field(description="Whether there are more rows than the limit.")
    durations: tuple[str, ...] = Field(
        default=(), description="The columns whose values are intervals: durations by ISO 8601, such as PT43.208S."
    )


class QualityCheck(QueryResult):
    """The last result of one check of the data."""

    suite: str = Field(description="telemetry: of the last batch of the archive; any other: of the tables.")
    expectation: str = Field(description="Its type by Great Expectations; suite: the whole suite can't be run.")
    column: str | None = Field(title="Check", description="The columns that are checked; null: the rows as a whole.")
    success: bool = Field(title="Result", description="False also if the check could not be made.")
    observed: str | None = Field(description="What was observed, as JSON; of a failed check up to 20 examples.")
    unexpected_count: int | None = Field(title="Failed", description="Number of rows or subjects that failed.")
    row_count: int = Field(title="Checked", description="Number of rows or subjects that were checked.")
    time: Instant = Field(title="Log until", description="Latest ingest time of what was checked.")
    checked_at: Instant | None = Field(
        title="Checked at", description="When the tables were checked; null for a batch of the archive."
    )
    stops_job: bool = Field(title="Stops job", description="Whether the job is stopped while this check fails.")
    why: str = Field(description="The consequence of a failure, or why the check could not be made.")
