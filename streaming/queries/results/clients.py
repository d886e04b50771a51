"""Members of groups, and clients in all of their groups."""

from pydantic import Field

from streaming.queries.health import Health
from streaming.queries.results.base import Instant, QueryResult
from streaming.queries.results.incidents import Incident
from streaming.queries.results.ownership import Interval


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
    is_stale: bool = Field(default=False, description="Whether the client may have changed since, as of its group.")


class ClientDetail(QueryResult):
    """A client in each of its groups, its queues over a period, and its incidents."""

    client_id: str
    since: Instant
    until: Instant
    groups: tuple[GroupClient, ...] = Field(description="Its groups at the end of the period; empty if it was in none.")
    intervals: tuple[Interval, ...] = Field(description="By queue and time.")
    incidents: tuple[Incident, ...] = Field(description="Open ones first, then the newest.")
