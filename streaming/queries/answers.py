"""The answers' types. Times are epoch milliseconds; None is "not known", never 0."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from rebalance_model.observe.effects import MoveKind
from streaming.queries import words

Health = Literal["OK", "WARN", "BAD", "UNKNOWN"]
Severity = Literal["info", "warning", "critical"]


class Answer(BaseModel):
    """What all answers share: they don't change, and have no surprises."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def as_json(answer: object, *, indent: int | None = None) -> bytes:
    """An answer, several, or None, as the command line prints it and the REST API sends it."""
    return to_json(answer, indent=indent)


class Coverage(Answer):
    """What telemetry there was to judge a group by; see `rebalance_model.observe.verdicts.coverage`.

    Rows of an earlier release may say less of it, those of a later one more.
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


class OpenIncidents(Answer):
    """How many incidents of each severity are open and absorbed by no other."""

    critical: int = 0
    warning: int = 0
    info: int = 0


class Group(Answer):
    """A consumer group at an instant."""

    cluster: str
    group: str
    time: int = Field(description="When its state was last told.")
    health: Health
    health_reason: str
    orderly: bool | None
    strategy: str | None
    consume_type: str
    message_model: str
    members: tuple[str, ...]
    subscriptions: tuple[str, ...]
    queues: int = Field(description="Retry queues left out.")
    unowned: int | None = Field(description="How many of them nobody has; None where clients don't divide them.")
    lag: int | None = Field(description="The sum over queues whose lag is known and not stale; None: of none.")
    lag_is_at_least: bool = Field(description="Of some of them a lower bound alone is known.")
    lag_unknown: int = Field(description="Of how many queues the lag is not known, or stale.")
    lag_stale: int = Field(description="Of how many of these it was known once within the last 15 minutes.")
    lag_age_ms: int | None = Field(description="How old the oldest lag in the sum is at the instant.")
    incidents: OpenIncidents
    last_rebalance: int | None
    coverage: Coverage

    @property
    def without_owner(self) -> str:
        """What a queue of the group that has no known owner is called."""
        return words.without_owner(
            message_model=self.message_model, consume_type=self.consume_type, sharing=self.coverage.sharing
        )


class Queue(Answer):
    """A queue of a group at an instant: who has it, who should, and how it goes."""

    cluster: str
    group: str
    topic: str
    broker: str
    queue_id: int
    owner: str | None
    since: int | None = Field(description="Since when it has this owner, or none.")
    expected_owner: str | None
    locked: bool | None
    lock_age_ms: int | None = Field(description="Since the owner renewed its lock, at the instant asked for.")
    pull_age_ms: int | None = Field(description="Since the owner pulled.")
    consume_age_ms: int | None = Field(description="Since the owner's listener was given a message, or returned.")
    commit_age_ms: int | None = Field(description="Since the commit changed; only a broker's hook knows it.")
    commit_offset: int | None
    broker_offset: int | None
    lag: int | None = Field(description="The last that was observed by the instant, within 15 minutes or 3 intervals.")
    lag_is_at_least: bool = Field(description="There may be more: a hook saw what was pulled, not the newest offset.")
    lag_time: int | None = Field(description="When it was observed.")
    lag_age_ms: int | None = Field(description="How old the observation is at the instant.")
    lag_is_stale: bool = Field(description="It is older than two intervals of its source.")
    in_flight: int | None = Field(description="Messages that were pulled and are not committed.")
    ready: int | None = Field(description="Messages that were not pulled yet.")
    waiting_ms: int | None = Field(description="How long the next message has waited; 0: none waits.")
    waiting_is_at_most: bool = Field(description="It may be less: the message before it is so old.")
    waiting_age_ms: int | None
    waiting_is_stale: bool
    cached_count: int | None = Field(description="Messages that the owner has cached, as it last answered.")
    cached_age_ms: int | None
    cached_is_stale: bool
    status: Health
    status_reason: str
    time: int = Field(description="When owner, lock and status were last written.")

    @property
    def is_elsewhere(self) -> bool:
        """Whether it has another owner than the strategy says, or none."""
        return self.expected_owner is not None and self.expected_owner != self.owner


class Member(Answer):
    """A client and how many queues it has, retry queues left out."""

    client_id: str
    queues: int
    is_member: bool = Field(description="False: it has queues, and no broker lists it any more.")


class Interval(Answer):
    """Who owned a queue from when to when; `to_time` is None while it still does."""

    cluster: str
    group: str
    topic: str
    broker: str
    queue_id: int
    client_id: str
    from_time: int
    to_time: int | None
    duration_ms: int | None
    evidence: str
    end_evidence: str | None
    rebalance_id: str


class OwnerChange(Answer):
    """A queue that had another owner at the later of two instants; None: it was unassigned, or there was none yet."""

    cluster: str
    group: str
    topic: str
    broker: str
    queue_id: int
    from_client: str | None
    to_client: str | None
    is_new: bool = Field(description="Whether telemetry did not know the queue yet at the earlier instant.")


class Move(Answer):
    """One queue of a settled rebalance."""

    topic: str
    broker: str
    queue_id: int
    from_client: str | None
    to_client: str | None
    kind: MoveKind = Field(description="MOVED, INTERRUPTED (taken again by the same client) or UNASSIGNED.")
    pause_ms: int | None
    pause_is_at_most: bool = Field(description="Whether the pause may have been shorter: polls show no exact times.")
    reconsumed: int | None
    reconsumed_min: int | None
    reconsumed_max: int | None


class Rebalance(Answer):
    """One settled rebalance; see `rebalance_model.observe.effects.RebalanceSettled`."""

    cluster: str
    group: str
    rebalance_id: str
    start_time: int
    end_time: int
    trigger: str
    trigger_client: str | None
    causes: tuple[str, ...]
    members_before: tuple[str, ...]
    members_after: tuple[str, ...]
    queues_moved: int
    queues_interrupted: int
    queues_unassigned: int
    queues_moved_min: int
    pause_ms_max: int | None
    pause_ms_p50: int | None
    pause_is_at_most: bool
    reconsumed: int | None
    reconsumed_min: int | None
    reconsumed_max: int | None
    converged: bool | None
    moves: tuple[Move, ...] = ()


class Incident(Answer):
    """An incident as its last transition (by the instant asked for) left it."""

    cluster: str
    group: str
    incident_id: str
    code: str
    sub_cause: str
    severity: Severity
    subject: str
    opened_at: int
    resolved_at: int | None
    changed_at: int
    transitions: int
    topic: str | None
    broker: str | None
    queue_id: int | None
    client_id: str | None
    explanation: str
    first_step: str
    parent: str | None = Field(description="The incident that absorbed it.")
    evidence: dict[str, object]
    cause: str = Field(
        description="The event behind its last transition: source_id|key|seq; empty where time alone shows it."
    )
    main_cause: str = Field(description="The sub-cause that has held longest; `sub_cause` is the last one.")
    main_client_id: str | None
    main_explanation: str
    consequences: int = Field(default=0, description="How many incidents it explains.")

    @property
    def title(self) -> str:
        """Code and main cause."""
        return f"{self.code} {self.main_cause}".rstrip()

    @property
    def where(self) -> str:
        """The group, or the cluster that it is about."""
        return self.group or f"cluster {self.cluster}"


class Transition(Answer):
    """One step in an incident's life."""

    time: int
    transition: str
    severity: Severity
    sub_cause: str
    explanation: str
    evidence: dict[str, object]
    parent: str | None
    cause: str


class Reach(Answer):
    """How much an incident of a cluster touches."""

    groups: int
    queues: int


class IncidentStory(Answer):
    """An incident with its life, what it absorbed, and the event that opened it."""

    incident: Incident
    reach: Reach | None = Field(
        default=None,
        description="Of an incident of a cluster, when it opened.",
    )
    life: tuple[Transition, ...]
    absorbed: tuple[Incident, ...]
    cause_event: dict[str, object] | None = Field(description="None where the archive does not have it (any more).")
    queue: Queue | None = Field(default=None, description="Of an open incident of a queue: the queue as it is now.")


class Overview(Answer):
    """A group at an instant, as a person wants to see it first."""

    group: Group
    members: tuple[Member, ...]
    incidents: tuple[Incident, ...] = Field(description="The open ones.")
    rebalances: tuple[Rebalance, ...] = Field(description="The last ones, newest first, without their moves.")


class LagPoint(Answer):
    """A topic's lag, and how long its oldest message has waited, at the end of a slice of time."""

    time: int
    topic: str
    lag: int | None = Field(description="The sum over queues whose lag is known and not stale.")
    lag_unknown: int = Field(description="Of how many queues it is not known, or stale.")
    waiting_ms: int | None = Field(description="The longest of the queues of which it is known and not stale.")


class Share(Answer):
    """What one client has, and would have."""

    client_id: str
    now: int
    then: int
    gains: tuple[str, ...]
    loses: tuple[str, ...]


class Plan(Answer):
    """What a strategy would make of a changed membership."""

    strategy: str
    topic: str
    queues: int
    queues_moved: int = Field(description="How many get another owner than they have now.")
    queues_moved_min: int = Field(description="The fewest that could move.")
    shares: tuple[Share, ...]
    refused: str | None = Field(description="Why the strategy divides nothing; None where it does.")


class SqlAnswer(Answer):
    """The answer to a person's own SQL."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    cut: bool = Field(description="There are more rows than were asked for.")
