"""Consumer groups and their members: health, brokers, lag, failed messages, coverage by telemetry."""

from pydantic import ConfigDict, Field

from streaming.queries import labels
from streaming.queries.health import Health, WithoutOwner, without_owner
from streaming.queries.results.base import Instant, QueryResult
from streaming.queries.results.incidents import Incident
from streaming.queries.results.queues import Interval, Rebalance


class GroupMember(QueryResult):
    """A client and its number of queues, without retry queues."""

    client_id: str = Field(title="Client")
    queues: int
    is_member: bool = Field(
        title="Membership", description="False if it has queues but is no longer listed by any broker or proxy."
    )


class GroupClient(QueryResult):
    """A client in a group at an instant; what telemetry does not say is null."""

    cluster: str
    group: str
    client_id: str = Field(title="Client")
    is_member: bool = Field(
        title="Membership", description="False if it has queues but is no longer listed by any broker."
    )
    queues: int = Field(description="Number of its queues, without retry queues.")
    version: str | None = Field(
        default=None, description="RocketMQ's release that the client declares; behind a proxy the proxy's own."
    )
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
        " no member; UNKNOWN: no broker and no collector has reported it for 5 minutes, or telemetry has stopped.",
    )
    health_reason: str = Field(default="", title="Reason", description="The incident, or what is wrong.")
    telemetry_age_ms: int = Field(
        default=0, description="Age of the newest telemetry of its cluster at the requested time, in milliseconds."
    )
    is_stale: bool = Field(default=False, description="True if the client may have changed since, as of its group.")


class ClientDetail(QueryResult):
    """A client in each of its groups, its queues over a period, and its incidents."""

    client_id: str
    since: Instant
    until: Instant
    groups: tuple[GroupClient, ...] = Field(description="Its groups at the end of the period; empty if it was in none.")
    intervals: tuple[Interval, ...] = Field(description="By queue and time.")
    incidents: tuple[Incident, ...] = Field(description="Open ones first, then the newest.")


ASKED_WITHIN_MS = 300_000
"""The time for which the archive is read back for requests."""


class GroupBroker(QueryResult):
    """A broker that has queues of a group, as collectors asked it about the group within the last 5 minutes."""

    broker: str
    asked_at: Instant | None = Field(description="When it was last asked; null: not within the last 5 minutes.")
    answered_at: Instant | None = Field(description="Time of its last answer; null: none within the last 5 minutes.")
    silent_since: Instant | None = Field(
        description="When the first request was sent that it left without an answer, as all later ones; null: it"
        " answered the last one, or was not asked."
    )
    remark: str = Field(description="Why the last of these requests has no answer; empty if it has one.")
    as_of: Instant = Field(description="Time of the newest telemetry of its cluster in the archive: so much is known.")
    is_fresh: bool = Field(
        description="True if it had answered within two intervals of the collector before that, or 30 s if longer."
    )


class FailedMessages(QueryResult):
    """The messages of a group's retry topic or dead-letter topic at a broker, as last answered by an instant."""

    topic: str
    broker: str
    given_up: bool = Field(
        title="State",
        description="True if these are dead letters: they have used up their attempts, and no consumer gets them.",
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
    is_stale: bool = Field(description="True if it is older than two intervals of its source.")


class LagPoint(QueryResult):
    """Lag and waiting time of a topic at the end of a time slice."""

    time: Instant
    topic: str
    lag: int | None = Field(description="Sum over the queues whose lag is known and not stale.")
    lag_is_at_least: bool = Field(description="True if the lag of one of these is a lower bound, by a broker hook.")
    lag_unknown: int = Field(description="Number of queues whose lag is unknown or stale.")
    waiting_ms: int | None = Field(description="Longest known, fresh waiting time of the queues, in milliseconds.")


class TelemetryCoverage(QueryResult):
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
    inapplicable_rules: tuple[str, ...] = ()
    sharing: str = ""
    unreadable: tuple[str, ...] = ()
    unreadable_more: int = 0
    members_mute: int = 0
    routes_incomplete: tuple[str, ...] = ()

    @property
    def owners_known(self) -> bool:
        """Return whether a queue without a known owner has none: each member reports its queues, or hooks do."""
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
    lag_is_at_least: bool = Field(description="True if only a lower bound is known for some queues.")
    lag_unknown: int = Field(description="Number of queues whose lag is unknown or stale.")
    lag_stale: int = Field(description="Number of these whose lag was known within the last 15 minutes.")
    lag_age_ms: int | None = Field(title="Lag age", description="Age of the oldest lag in the sum, in milliseconds.")
    incidents: OpenIncidents
    last_rebalance: Instant | None
    coverage: TelemetryCoverage
    telemetry_age_ms: int = Field(
        default=0, description="Age of the newest telemetry of its cluster at the requested time, in milliseconds."
    )
    is_stale: bool = Field(
        default=False,
        description="True if that is more than a minute, or than two intervals of its source if that is longer: the"
        " group may have changed since. From 3 minutes on its health is UNKNOWN.",
    )

    @property
    def sharing(self) -> str:
        """Return how its clients share the queues (`coverage.sharing`); PROXIED also if only proxies have clients."""
        return self.coverage.sharing or ("PROXIED" if self.proxied_clients and not self.members else "")

    @property
    def kind(self) -> str:
        """Return how its clients consume, in words."""
        return labels.kind(
            orderly=self.orderly, message_model=self.message_model, consume_type=self.consume_type,
            sharing=self.sharing,
        )  # fmt: skip

    @property
    def without_owner(self) -> WithoutOwner:
        """Return what a queue of the group without a known owner is."""
        return without_owner(
            message_model=self.message_model, consume_type=self.consume_type, sharing=self.coverage.sharing
        )


class Overview(QueryResult):
    """A summary of a group at an instant."""

    group: Group
    members: tuple[GroupMember, ...]
    incidents: tuple[Incident, ...] = Field(description="Open incidents.")
    rebalances: tuple[Rebalance, ...] = Field(description="Last rebalances, newest first, without their moves.")
    failed: tuple[FailedMessages, ...] = Field(
        default=(), description="Its retry and dead-letter topics at each broker; those that are unknown are left out."
    )
    proxied: tuple[GroupClient, ...] = Field(
        default=(), description="Its clients behind proxies, which no broker lists, with language, version and proxy."
    )
    brokers: tuple[GroupBroker, ...] = Field(
        default=(), description="Its brokers, and when each was asked and has answered; empty without polls."
    )
