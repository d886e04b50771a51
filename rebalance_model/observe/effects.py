"""What the observer concludes: each effect is one row of one derived table.

Times are on the timeline (`engine.ordering`). ``cause`` names the event behind a row as
``source_id|key|seq``: the same in a replay, from files or from Kafka; empty where time alone shows it. Every effect can
be appended blindly; what is true now, and what held from when to when, are views over the rows.
"""

from typing import Annotated, Literal, TypeAlias

import msgspec

from rebalance_model.entities import MessageQueue

Health = Literal["OK", "WARN", "BAD", "UNKNOWN"]
MoveKind = Literal["MOVED", "INTERRUPTED", "UNASSIGNED"]
Time: TypeAlias = Annotated[int, msgspec.Meta(extra={"column": "timestamp"}, extra_json_schema={"format": "epoch-ms"})]
"""A point in time: epoch milliseconds here, a timestamp (UTC) in a table."""


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """The columns that every derived table has."""

    cluster: str
    group: str
    time: Time
    """Of the event that shows it, or of the moment at which it was due."""
    known_at: Time
    """The log's highest stamp when it was concluded."""
    seq: int
    """Rises by one with every row of the group, over all tables: what came last is what holds now."""
    cause: str


class AssignmentChange(Effect, frozen=True, kw_only=True):
    """One change of a queue's believed owner (table assignment_history)."""

    topic: str
    broker: str
    queue_id: int
    client_id: str
    action: Literal["ASSIGNED", "RELEASED"]
    evidence: str
    """What showed it: a stable code, see `observe.group.ownership`."""
    expected_owner: str | None
    """Whom the declared strategy names at this instant; None where that is not known."""
    rebalance_id: str


class QueueMove(msgspec.Struct, frozen=True, kw_only=True):
    """What a settled rebalance did to one queue; retry queues and those that the topic lost are left out."""

    queue: MessageQueue
    from_client: str | None
    to_client: str | None
    kind: MoveKind
    """MOVED: another client has it at the end, or its first; INTERRUPTED: the same client took it again; UNASSIGNED:
    nobody has it at the end."""
    pause_ms: int | None
    """From the old owner's last sign before it lost the queue (it unlocked it, or else was last granted the lock,
    pulled or committed) until its heir was granted the lock, or (concurrent) first pulled; milliseconds. None: nobody
    has it at the end or had it before, or it is not known."""
    pause_is_at_most: bool = False
    """Whether it may have been shorter: answers show stamps, not every lock and pull (`group.rebalances`)."""
    reconsumed: int | None = None
    """Messages that were consumed again for this move: an estimate, see `group.reconsumed`; None: not known."""
    reconsumed_min: int | None = None
    reconsumed_max: int | None = None


class RebalanceSettled(Effect, frozen=True, kw_only=True):
    """One rebalance, told when it is over (table rebalances)."""

    rebalance_id: str
    start_time: Time
    end_time: Time
    trigger: str
    """CLIENT_JOINED, CLIENT_UNREGISTERED (it said goodbye: UNREGISTER_CLIENT), CONNECTION_CLOSED (the broker's list
    leaves it out, and it had heartbeated within 120 s: killed, or cut off), HEARTBEAT_EXPIRED (the broker dropped it
    after 120 s without heartbeat: frozen, or unreachable), CLIENT_LEFT (it is not listed any more; polls do not show
    how it went), CLIENT_RESTARTED,
    STRATEGY_CHANGED (a client declares another one than before), CONNECTIONS_CHANGED (a client id on other channels,
    on another number of them, or on some brokers only), SUBSCRIPTION_CHANGED (the broker's table got or lost a topic),
    ROUTE_CHANGED, BROKER_LOST and BROKER_BACK (the route has none, or again, of the broker's queues), BROKER_RESTARTED
    (it forgot members and locks), LOCK_RETRY (a lock that had been refused is granted), PULL_EXPIRED_REPAIR (a client
    gives up a queue that it had not pulled for too long, and takes it anew), or UNEXPLAINED (queues moved, no cause was
    seen)."""
    trigger_client: str | None
    causes: tuple[str, ...]
    """Every cause within the episode, in order, as ``CODE subject``."""
    members_before: tuple[str, ...]
    members_after: tuple[str, ...]
    queues_moved: int
    """How many of the moves are MOVED; so for the next two: together they are all moves."""
    queues_interrupted: int = 0
    queues_unassigned: int = 0
    moves: tuple[QueueMove, ...]
    pause_ms_max: int | None
    """The longest of the moves' pauses; those of queues that are left unassigned go on, and are not in it."""
    converged: bool | None
    """Whether every queue has its owner, by the strategy, and it has begun; None where the strategy is not known."""
    queues_moved_min: int = 0
    """The fewest queues that could have moved to get every client as many as it has now, see `group.rebalances`."""
    pause_ms_p50: int | None = None
    """The median of the moves' pauses; the lower one of two."""
    pause_is_at_most: bool = False
    """Whether any of the moves' pauses may have been shorter."""
    reconsumed: int | None = None
    """Messages that were consumed again: the sum over the moves, an estimate and its bounds; None: not known."""
    reconsumed_min: int | None = None
    reconsumed_max: int | None = None


class GroupSnapshot(Effect, frozen=True, kw_only=True):
    """ConsumerGroupInfo when it changed, and every snapshot interval (table group_state)."""

    members: tuple[str, ...]
    subscriptions: tuple[str, ...]
    """``topic expression`` of each subscribed topic, sorted."""
    consume_type: str
    message_model: str
    consume_from_where: str
    orderly: bool | None
    strategy: str | None
    health: Health
    health_reason: str
    coverage: str
    """What telemetry was there to judge by: JSON, see `observe.rules.coverage`."""
    corrections: tuple[str, ...] = ()
    """What polls corrected in the view rebuilt from events since the last row: see `observe.polls.corrections`."""


class QueueSnapshot(Effect, frozen=True, kw_only=True):
    """A queue's state when it changed materially, and every snapshot interval (table queue_state).

    Quantities are no part of it: they have times of their own (`QueueProgress`). Ages are worked out when it is read.
    """

    topic: str
    broker: str
    queue_id: int
    owner: str | None
    expected_owner: str | None
    locked: bool | None
    lock_at: Time | None
    """When the owner last renewed its lock. Like the other stamps as known when the row was made: by a hook exactly, of
    a client's answer at the latest then, of a client that is silent when it was first asked in vain."""
    pull_at: Time | None
    """When the owner last pulled."""
    consume_at: Time | None
    """When the owner's listener was last given a message, or returned."""
    status: Health
    status_reason: str


class IncidentTransition(Effect, frozen=True, kw_only=True):
    """One transition of one incident (table anomalies)."""

    incident_id: str
    """Hash of (cluster, group, code, subject, opened_at): a replay gives the same. Of a cluster's incident (its
    ``group`` is empty) the last part is the stamp of what first shows it: every shard gives the same."""
    code: str
    sub_cause: str
    severity: Literal["info", "warning", "critical"]
    transition: Literal["OPENED", "ESCALATED", "DEESCALATED", "RECLASSIFIED", "RESOLVED"]
    """RECLASSIFIED is a change of sub-cause; it alerts nobody. ESCALATED is also that what absorbed it is over, and it
    is not: from then on it has no parent. DEESCALATED is also that a parent was found that explains it."""
    subject: str
    opened_at: Time
    topic: str | None
    broker: str | None
    queue_id: int | None
    client_id: str | None
    evidence: str
    """The numbers that the judgement rests on: JSON."""
    explanation: str
    first_step: str
    parent: str | None
    main_cause: str = ""
    """The sub-cause that has held longest: what an incident was about, when its last transition shows how it ended."""
    main_client_id: str | None = None
    """The client at fault when the main cause was first seen."""
    main_explanation: str = ""
    alert_after: Time | None = None
    """Nobody is alerted before then: whether the broker is unreachable, which would explain it, is not decided yet."""


class QueueProgress(msgspec.Struct, frozen=True, kw_only=True):
    """What one answer, or a broker's hook, says of the queues of one group at one broker (table queue_progress).

    Columns from ``topic`` on are arrays of one length, an element a queue; an empty one is not said by this kind, a
    null is not known. Unlike an `Effect` it is written when its event arrives, in no order with the group's rows.
    """

    cluster: str
    group: str
    broker: str
    client_id: str | None = None
    """Who answers (CONSUMER_RUNNING_INFO); None where the broker itself does."""
    time: Time
    """When the answer came, by the collector's clock; of a hook its event's time."""
    asked_at: Time | None
    """When the question was sent; None: by a hook."""
    interval_ms: int
    """Within what time the next row of this kind is due for each queue that is in it: the spacing of the last two
    answers; for what is said only when it changes `progress.state.REPEATED_AFTER`, or more. Older than two of them is
    stale."""
    source: Literal["POLL", "HOOK"]
    kind: str
    """The type of the answer; HOOK: what a hook saw since its last row."""
    topic: tuple[str, ...]
    queue_id: tuple[int, ...]
    broker_offset: tuple[int | None, ...] = ()
    commit_offset: tuple[int | None, ...] = ()
    """None where no commit was ever seen, for which a broker answers 0."""
    pull_offset: tuple[int | None, ...] = ()
    lag: tuple[int | None, ...] = ()
    """Messages that are not yet committed."""
    lag_is_at_least: tuple[bool, ...] = ()
    """Whether there may be more: a hook saw what was pulled, not the newest offset. Empty: it is exact."""
    in_flight: tuple[int | None, ...] = ()
    """Messages that were pulled and are not yet committed."""
    ready: tuple[int | None, ...] = ()
    """Messages that were not yet pulled."""
    waiting_ms: tuple[int | None, ...] = ()
    """How long the next message to be consumed has waited; 0 where none waits."""
    waiting_is_at_most: tuple[bool, ...] = ()
    """Whether it may be less: it is the age of the message before it. Empty: it is exact."""
    cached_count: tuple[int | None, ...] = ()
    """Messages that the client has cached."""
    commit_at: tuple[Time | None, ...] = ()
    """When the commit last changed, by the hook."""
    lock_at: tuple[Time | None, ...] = ()
    """When the lock was last renewed; of a client's answer at the latest then."""
    pull_at: tuple[Time | None, ...] = ()
    """When it was last pulled; of a client's answer at the latest then."""
    consume_at: tuple[Time | None, ...] = ()
    """When the client's listener was last given a message, or returned; at the latest then."""


AnyEffect = AssignmentChange | RebalanceSettled | GroupSnapshot | QueueSnapshot | IncidentTransition

AnyRow = AnyEffect | QueueProgress
"""A row of any derived table."""

TABLE_OF: dict[type[AnyRow], str] = {
    QueueProgress: "queue_progress",
    AssignmentChange: "assignment_history",
    RebalanceSettled: "rebalances",
    GroupSnapshot: "group_state",
    QueueSnapshot: "queue_state",
    IncidentTransition: "anomalies",
}
"""Where each row is kept, in the order in which the sink appends: evidence before what rests on it."""
