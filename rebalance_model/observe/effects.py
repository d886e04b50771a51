"""Conclusions of the observer: each effect is one row of one derived table.

Times are on the timeline (`engine.ordering`). ``cause`` names the event behind a row as
``source_id|key|seq``: the same in a replay, from files or from Kafka; empty where time alone shows it. Every effect can
be appended blindly; what is true now, and what held from when to when, are views over the rows.
"""

import hashlib
from typing import Annotated, Literal, TypeAlias

import msgspec

from rebalance_model.entities import MessageQueue

_SEPARATOR = "\x1f"


def stable_id(*parts: str | int) -> str:
    """Return sixteen hexadecimal digits that depend only on the parts."""
    text = _SEPARATOR.join(str(part) for part in parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


Health = Literal["OK", "WARN", "BAD", "UNKNOWN"]
MoveKind = Literal["MOVED", "INTERRUPTED", "UNASSIGNED"]
Time: TypeAlias = Annotated[int, msgspec.Meta(extra={"column": "timestamp"}, extra_json_schema={"format": "epoch-ms"})]
"""A point in time: epoch milliseconds here, a timestamp (UTC) in a table."""


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """The columns that every derived table has."""

    cluster: str
    """The RocketMQ cluster."""
    group: str
    """The consumer group; empty: the row is about the cluster, not about one group."""
    time: Time
    """The time of the event that shows it, or the moment at which it was due."""
    known_at: Time
    """The log's highest stamp when it was concluded."""
    seq: int
    """Rises by one with every row of the group, over all tables: what came last is what holds now."""
    cause: str
    """The event behind the row, as ``source_id|key|seq`` of `telemetry`; empty: none, because time alone shows it."""


class AssignmentChange(Effect, frozen=True, kw_only=True):
    """One change of a queue's believed owner (table assignment_history)."""

    topic: str
    """The queue's topic."""
    broker: str
    """The name of the queue's broker."""
    queue_id: int
    """The queue's number at its topic and broker, from 0."""
    client_id: str
    """RocketMQ's client id of the owner that was assigned or released."""
    action: Literal["ASSIGNED", "RELEASED"]
    """ASSIGNED: the client owns the queue from ``time`` on; RELEASED: it did until then. A queue that changes owners
    has both, at one time."""
    evidence: str
    """The evidence of it. Of ASSIGNED: FIRST_SEEN (the owner when observation began), LOCK_GRANTED (the broker granted
    its lock), OFFSET_ASKED (it queried the queue's offset), PULLED (it pulled), ANSWER (its own answer has the queue).
    Of RELEASED: UNLOCKED (it unlocked the queue), LEFT (it left the group), GONE (the cluster no longer has the
    broker), ANSWER_WITHOUT (its answer no longer has the queue), DROPPED (its answer has it as dropped), TAKEN_OVER
    (another client has taken it)."""
    expected_owner: str | None
    """The owner by the declared strategy at this time; None: not known."""
    rebalance_id: str
    """The rebalance that it belongs to; `rebalances` has its row when it is over. Empty: none, because the owner was
    there when observation began, or a queue of the retry topic moved alone."""


class QueueMove(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a settled rebalance on one queue; retry queues and those that the topic lost are left out."""

    queue: MessageQueue
    """Topic, broker and queue id."""
    from_client: str | None
    """The owner before; null: it had none."""
    to_client: str | None
    """The owner at the end; null: it has none."""
    kind: MoveKind
    """MOVED: another client owns it at the end, or it has its first owner; INTERRUPTED: the same client took it again;
    UNASSIGNED: it has no owner at the end."""
    pause_ms: int | None
    """From the old owner's last activity before it lost the queue (its unlock, else its last granted lock, pull or
    commit) until the new owner's first granted lock, or (concurrent) its first pull; milliseconds. None: the queue has
    no owner at the end or had none before, or the time is not known."""
    pause_is_at_most: bool = False
    """True if the pause may have been shorter: polls show the last time of each kind, not every lock and pull
    (`group.rebalances`)."""
    reconsumed: int | None = None
    """Messages that were consumed again for this move: an estimate, see `group.reconsumed`; None: not known."""
    reconsumed_min: int | None = None
    """The estimate's lower bound."""
    reconsumed_max: int | None = None
    """The estimate's upper bound."""


class RebalanceSettled(Effect, frozen=True, kw_only=True):
    """One rebalance, written when it is over (table rebalances)."""

    rebalance_id: str
    """A hash of cluster, group, time and first cause, the same in a replay; unique. `assignment_history` has it in the
    rows of the rebalance."""
    start_time: Time
    """When the first cause was seen."""
    end_time: Time
    """When the last cause or change of an owner was seen; ``time`` is later: when it was clear that no more follow."""
    trigger: str
    """CLIENT_JOINED; CLIENT_UNREGISTERED (it sent UNREGISTER_CLIENT); CONNECTION_CLOSED (the broker no longer lists it,
    within 120 s of its last heartbeat: killed, or disconnected); HEARTBEAT_EXPIRED (the broker dropped it after 120 s
    without heartbeat: frozen, or unreachable); CLIENT_LEFT (it is no longer listed; polls do not show why);
    CLIENT_RESTARTED; STRATEGY_CHANGED (a client declares another strategy than before); CONNECTIONS_CHANGED (a client
    id on other channels, on another number of them, or on some brokers only); SUBSCRIPTION_CHANGED (a topic was added
    to or removed from the broker's subscription table); ROUTE_CHANGED; BROKER_LOST and BROKER_BACK (the broker's queues
    left the route, or returned to it); BROKER_RESTARTED (it lost its members and locks); LOCK_RETRY (a lock that had
    been refused is granted); PULL_EXPIRED_REPAIR (a client drops a queue that it had not pulled for too long, and
    acquires it again); or UNEXPLAINED (queues moved without a known cause)."""
    trigger_client: str | None
    """RocketMQ's client id of who triggered it; null: none did, or it is not known."""
    causes: tuple[str, ...]
    """Every cause within the rebalance, in order, as ``CODE subject``."""
    members_before: tuple[str, ...]
    """The client ids of the group when it began."""
    members_after: tuple[str, ...]
    """The client ids of the group when it was over."""
    queues_moved: int
    """The number of moves of kind MOVED; the three counts together are all moves."""
    queues_interrupted: int = 0
    """The number of moves of kind INTERRUPTED."""
    queues_unassigned: int = 0
    """The number of moves of kind UNASSIGNED."""
    moves: tuple[QueueMove, ...]
    """The effect on each queue that lost, changed or regained its owner."""
    pause_ms_max: int | None
    """The longest pause of a move; pauses of unassigned queues have not ended, and do not count."""
    converged: bool | None
    """True if every queue has the owner that the strategy names, and each owner has begun to consume; None: the
    strategy is not known."""
    queues_moved_min: int = 0
    """The minimum number of queues that must move for every client to have as many as it has now, see
    `group.rebalances`."""
    pause_ms_p50: int | None = None
    """The median pause of the moves; of an even number the lower one."""
    pause_is_at_most: bool = False
    """True if any of the moves' pauses may have been shorter."""
    reconsumed: int | None = None
    """Messages that were consumed again: the sum over the moves, an estimate; None: not known."""
    reconsumed_min: int | None = None
    """The estimate's lower bound."""
    reconsumed_max: int | None = None
    """The estimate's upper bound."""


class GroupSnapshot(Effect, frozen=True, kw_only=True):
    """A consumer group (ConsumerGroupInfo) when it changed, and every snapshot interval (table group_state)."""

    members: tuple[str, ...]
    """The client ids that the brokers list."""
    subscriptions: tuple[str, ...]
    """``topic expression`` of each subscribed topic, sorted."""
    consume_type: str
    """The way in which most members take messages: CONSUME_PASSIVELY (push), CONSUME_ACTIVELY (pull); as the broker has
    it, if no member declares it. Empty: not known, because neither says so."""
    message_model: str
    """CLUSTERING: members divide the queues; BROADCASTING: each reads all. Empty: not known, because neither a member
    nor a broker says so."""
    consume_from_where: str
    """Where a member begins in a queue without committed offset, such as CONSUME_FROM_LAST_OFFSET; empty: not known,
    because only a broker says so."""
    orderly: bool | None
    """True if its listeners consume in order, with locks; null: not known."""
    strategy: str | None
    """The allocation strategy that all members that have answered declare (in Java its class); null: they differ, or it
    is not known."""
    health: Health
    """OK; WARN: an open warning; BAD: an open critical incident; UNKNOWN: telemetry does not show it."""
    health_reason: str
    """The reason in words, or the codes of the incidents; empty: none, because it is OK."""
    coverage: str
    """The telemetry that was available to the rules: JSON, see `observe.rules.coverage`."""
    proxied_clients: tuple[str, ...] | None = None
    """The ids of clients of proxies, which no broker lists, by the proxies' own lists, or by the heartbeats that they
    copy to each other: at most `snapshots.PROXIED_MAX`; null: none is seen."""
    corrections: tuple[str, ...] = ()
    """Corrections by polls, since the last row, in the state rebuilt from events (`observe.polls.connections`)."""


class QueueSnapshot(Effect, frozen=True, kw_only=True):
    """A queue's state when it changed materially, and every snapshot interval (table queue_state).

    It has no quantities: those have times of their own (`QueueProgress`). Ages are computed when it is read.
    """

    topic: str
    """The queue's topic."""
    broker: str
    """The name of the queue's broker."""
    queue_id: int
    """The queue's number at its topic and broker, from 0."""
    owner: str | None
    """RocketMQ's client id of the owner; null: unassigned, or not known, see ``status``."""
    expected_owner: str | None
    """The owner by the declared strategy; null: not known."""
    locked: bool | None
    """True if the owner has the queue's lock at the broker; null: not known, or the group needs no locks."""
    lock_at: Time | None
    """When the owner last renewed its lock, as known when the row was written: exact from a hook; from a client's
    answer the latest possible time; for a client that does not answer the time of its first unanswered request. The
    same holds for the next two."""
    pull_at: Time | None
    """When the owner last pulled."""
    consume_at: Time | None
    """When the owner's listener was last called, or last returned."""
    status: Health
    """OK; WARN: an open warning about the queue; BAD: an open critical incident; UNKNOWN: telemetry does not show
    it."""
    status_reason: str
    """The reason in words, or the codes of the incidents; empty: none, because it is OK."""
    shared_by: tuple[str, ...] | None = None
    """The clients that pop the queue, by their last answers, at most 64; it has no owner then. Null: it is not popped,
    or telemetry does not show by whom."""


class IncidentTransition(Effect, frozen=True, kw_only=True):
    """One transition of one incident (table anomalies)."""

    incident_id: str
    """A hash of (cluster, group, code, subject, opened_at), the same in a replay. For an incident of the cluster (its
    ``group`` is empty) the last part is the log's stamp of the event that first shows it, the same in every shard."""
    code: str
    """The rule that found it, such as QUEUE_STALLED; rebalance_model/observe/rules/README.md has each one."""
    sub_cause: str
    """Why, as far as it is known now, such as LISTENER_BLOCKED; its values depend on the code. Empty: none, because the
    rule has only one, or telemetry does not show which."""
    severity: Literal["info", "warning", "critical"]
    """info: nothing need be done; warning: something is wrong, or will be; critical: messages are not consumed, or
    wrongly."""
    transition: Literal["OPENED", "ESCALATED", "DEESCALATED", "RECLASSIFIED", "RESOLVED"]
    """OPENED: it begins, in one row of each incident. RESOLVED: it has ended, in its last row. RECLASSIFIED: the
    sub-cause changed; no alert is sent. ESCALATED: the severity rose, or the incident outlasted its parent and has none
    from then on. DEESCALATED: the severity fell, or a parent was found that explains it."""
    subject: str
    """The subject: a queue as ``topic@broker:queue_id``, a client id, a broker's name, or a rebalance's id; empty:
    the whole group, or the cluster if ``group`` is empty, too. With the code it names the condition: a rule has one
    open incident about a subject."""
    opened_at: Time
    """When it was opened: ``time`` of its OPENED row."""
    topic: str | None
    """The queue's topic; null: it is not about one queue."""
    broker: str | None
    """The broker's name; null: it is about neither a queue nor a broker."""
    queue_id: int | None
    """The queue's number; null: it is not about one queue."""
    client_id: str | None
    """RocketMQ's client id of the client at fault; null: none is, or it is not known."""
    evidence: str
    """The numbers behind the decision: JSON."""
    explanation: str
    """The observation, in a sentence with the numbers."""
    first_step: str
    """The step to take about the sub-cause; of a resolved incident, about its main cause."""
    parent: str | None
    """The ``incident_id`` of the incident that explains it; null: none does."""
    main_cause: str = ""
    """The sub-cause that has held longest; `sub_cause` of the last transition shows only how the incident ended. Empty:
    none, as in ``sub_cause``."""
    main_client_id: str | None = None
    """The client at fault when the main cause was first seen."""
    main_explanation: str = ""
    """The explanation at that time; empty: as written by a release that had no main cause."""
    alert_after: Time | None = None
    """No alert is sent before this time: until then a broker that is unreachable may turn out to explain the
    incident."""
    resolution: str | None = None
    """Why a resolved incident has ended although its condition was not seen to clear, such as "the topic no longer
    exists"; null: it cleared, or is not resolved."""
    absorbed: bool | None = None
    """True if no alert is sent of it because its parent's stands for it, too. A stuck ordered queue is shown under its
    parent and has an alert of its own. Null in rows of earlier releases: then each that has a parent is."""

    @property
    def is_absorbed(self) -> bool:
        """Return whether its parent's alert stands for it."""
        return self.parent is not None if self.absorbed is None else self.absorbed


class QueueProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The quantities of a group's queues on one broker, by one answer or the broker's hook (table queue_progress).

    Columns from ``topic`` on are arrays of the same length, one element per queue; an empty array is not reported by
    this kind, a null is not known. Unlike an `Effect`, a row is written when its event arrives, in no order with the
    group's other rows.
    """

    cluster: str
    """The RocketMQ cluster."""
    group: str
    """The consumer group."""
    broker: str
    """The name of the broker that has the queues."""
    client_id: str | None = None
    """The client that answered (CONSUMER_RUNNING_INFO); None: the broker did."""
    time: Time
    """When the answer arrived, by the collector's clock; for a hook the event's time."""
    asked_at: Time | None
    """When the request was sent; None for a hook."""
    interval_ms: int
    """The time within which the next row of this kind is due for each of its queues: the spacing of the last two
    answers; for what is reported only when it changes, `progress.state.REPEATED_AFTER` or more. A row older than two
    intervals is stale."""
    source: Literal["POLL", "HOOK"]
    """POLL: an answer to a collector's request; HOOK: the broker's hook."""
    kind: str
    """The type of the answer: CONSUME_STATS (the group's offsets), CONSUME_TIME_SPAN (waiting times),
    CONSUMER_RUNNING_INFO (a client's own queues), TOPIC_STATS (its dead-letter topic); or HOOK: what a hook has seen
    since its last row."""
    topic: tuple[str, ...]
    """The topic of each queue."""
    queue_id: tuple[int, ...]
    """The number of each queue at its topic and broker; -1: all queues of the topic at the broker, which a client pops
    together."""
    broker_offset: tuple[int | None, ...] = ()
    """The offset after the queue's newest message."""
    commit_offset: tuple[int | None, ...] = ()
    """The group's committed offset; None: never committed, for which a broker answers 0."""
    pull_offset: tuple[int | None, ...] = ()
    """The offset after the last message that was pulled."""
    lag: tuple[int | None, ...] = ()
    """Messages that are not yet committed; of a queue that is popped not in order, what is ready and in flight."""
    lag_is_at_least: tuple[bool, ...] = ()
    """True if the lag may be larger: a hook sees what is pulled, not the newest offset; of a popped queue one of both
    parts, or what was popped before the hook began, is unknown. Empty: the lag is exact."""
    in_flight: tuple[int | None, ...] = ()
    """Messages that were pulled and are not yet committed; of a popped queue, those that were popped, and are neither
    acknowledged nor given back: by one client (CONSUMER_RUNNING_INFO), or by any (by a hook's calls)."""
    in_flight_since: tuple[Time | None, ...] | None = None
    """The latest time at which the oldest message in flight can have been popped, of a popped queue; null: no queue of
    the row is popped."""
    ready: tuple[int | None, ...] = ()
    """Messages that were not yet pulled, or popped."""
    waiting_ms: tuple[int | None, ...] = ()
    """The time that the next message to be consumed has waited, milliseconds; 0: none waits."""
    waiting_is_at_most: tuple[bool, ...] = ()
    """True if the waiting time may be shorter: it is the age of the message before. Empty: it is exact."""
    cached_count: tuple[int | None, ...] = ()
    """Messages that the client has cached."""
    commit_at: tuple[Time | None, ...] = ()
    """When the committed offset last changed; from a hook only."""
    lock_at: tuple[Time | None, ...] = ()
    """When the lock was last renewed; from a client's answer the latest possible time."""
    pull_at: tuple[Time | None, ...] = ()
    """When the queue was last pulled, or popped; from a client's answer the latest possible time."""
    consume_at: tuple[Time | None, ...] = ()
    """When the client's listener was last called, or last returned: the latest possible time."""
    min_offset: tuple[int | None, ...] = ()
    """The offset of the oldest message that the broker still stores; of a dead-letter topic only."""
    stored_at: tuple[Time | None, ...] = ()
    """When the newest message was stored, by the broker's clock; null: none is stored. Of a dead-letter topic only."""


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
"""The table of each row: evidence first, and at last what rests on it, which the sink appends after all others."""
