"""Consumer groups: health, coverage by telemetry, and an overview of one."""

from pydantic import ConfigDict, Field

from streaming.queries import labels
from streaming.queries.health import Health
from streaming.queries.results.base import Instant, QueryResult
from streaming.queries.results.brokers import GroupBroker
from streaming.queries.results.clients import GroupClient, GroupMember
from streaming.queries.results.incidents import Incident
from streaming.queries.results.lag import FailedMessages
from streaming.queries.results.rebalances import Rebalance
from streaming.queries.without_owner import WithoutOwner, without_owner


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
    coverage: TelemetryCoverage
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
        """How its clients share the queues (`coverage.sharing`); PROXIED also if only clients of proxies are seen."""
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
