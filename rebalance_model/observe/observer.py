"""Answer questions about the groups of a log while it is read: owners, members, incidents, and their reasons.

An `Observer` is a `Shard` with its groups in memory, and answers of its present state; see the example of the package.
Answers are of the timeline's present, which is up to one tick interval behind the last event: what is not complete yet
is left out.
"""

from collections import defaultdict, deque
from collections.abc import Iterable

import msgspec

from rebalance_model.entities import MessageQueue, queue_order
from rebalance_model.errors import NotYetError, UnknownSubjectError, UsageError
from rebalance_model.observe.effects import AnyRow, AssignmentChange, IncidentTransition
from rebalance_model.observe.engine.salvage import Saved
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import AnyEvent
from rebalance_model.observe.events.decoding import decode
from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.group.owners_queue import owners_queue
from rebalance_model.observe.group_store import KEY_PREFIX, GroupsInMemory
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.rules.registry import QUEUE_RULES
from rebalance_model.observe.rules.rule import Evidence
from rebalance_model.observe.state import (
    UNREADABLE,
    GroupState,
    IncidentState,
    QueueState,
    UnreadableStateError,
    decode_group,
    encode_group,
)
from rebalance_model.observe.step import GroupStep

STEPS_KEPT = 8
"""The number of a queue's last rows that are kept to explain it."""

_Step = AssignmentChange | IncidentTransition
_Kept = tuple[Saved, dict[str, bytes]]
_EVENTS = msgspec.json.Decoder(AnyEvent)


class OpenIncident(msgspec.Struct, frozen=True):
    """An open incident."""

    cluster: str
    group: str
    """Empty: it is about the cluster."""
    code: str
    subject: str
    """A queue as ``topic@broker:id``, a client, a broker, a rebalance; empty: the group itself."""
    sub_cause: str
    severity: str
    opened_at: int
    """Epoch milliseconds."""
    evidence: Evidence = {}
    """The numbers behind it now, of an incident about a queue (`explain`); else empty."""


class Explanation(msgspec.Struct, frozen=True):
    """The state of a queue, and the last steps that led to it."""

    owner: str | None
    expected_owner: str | None
    lag: int | None
    """The number of messages that wait, by the broker's last answer; None: unknown."""
    lock_ms: int | None
    """The time since the owner renewed its lock, a lower bound in milliseconds; None: unknown."""
    pull_ms: int | None
    """Milliseconds since its last pull; None: unknown."""
    consume_ms: int | None
    """Milliseconds since its listener last finished a message; None: unknown."""
    incidents: tuple[OpenIncident, ...]
    """Its open incidents."""
    steps: tuple[_Step, ...]
    """Its last changes of owner and transitions of incidents that this observer has seen, the oldest first; at most
    `STEPS_KEPT`."""


class Observer:
    """The consumer groups of one log."""

    def __init__(self, policy: Policy | None = None) -> None:
        """Begin with an empty log.

        Args:
            policy: the thresholds; None: the defaults.
        """
        self._policy = policy or Policy()
        self._groups = GroupsInMemory()
        self._shard = Shard(None, self._groups, self._policy)
        self._steps: defaultdict[tuple[str, MessageQueue], deque[_Step]] = defaultdict(lambda: deque(maxlen=STEPS_KEPT))
        self._stamp = 0

    @classmethod
    def load(cls, blob: bytes, policy: Policy | None = None) -> "Observer":
        """Return an observer that continues where another one was saved; the steps of its queues are not kept.

        Raises:
            StateVersionError: another release has saved it.
            UnreadableStateError: no observer has saved it, or it was changed since.
            UsageError: it is not bytes.
        """
        if not isinstance(blob, bytes):
            raise UsageError(f"what an observer has saved is bytes, not {type(blob).__name__}")
        made = cls(policy)
        try:
            saved, groups = msgspec.msgpack.decode(blob, type=_Kept)
        except UNREADABLE as error:
            raise UnreadableStateError(str(error)) from error
        made._groups.update(groups)
        made._shard = Shard(saved, made._groups, made._policy)
        return made

    def save(self) -> bytes:
        """Return everything that `load` needs to continue; the observer itself stays usable."""
        return msgspec.msgpack.encode((self._shard.flush(), dict(self._groups)))

    def __repr__(self) -> str:
        return f"<Observer of {len(self.groups())} groups at {self._shard.timeline.state.now}>"

    def read(self, lines: Iterable[bytes]) -> list[AnyRow]:
        """Process the next lines of a log, an event each, as in a recording; return the rows that they complete.

        Raises:
            RejectedError: a line is no valid event; those before it are processed. To skip such lines, call `decode`
                and `feed` for each.
            UsageError: a line is not bytes.
        """
        return [row for line in lines for row in self._fed(decode(line))]

    def feed(self, event: AnyEvent, stamp: int | None = None) -> list[AnyRow]:
        """Process the log's next event; return the rows of all events that this completes.

        Args:
            event: the event.
            stamp: the log's own stamp of it, epoch milliseconds; None: the highest event time so far.

        Raises:
            UsageError: the value is not an event, or a field has a wrong value; nothing is changed.
        """
        if not isinstance(event, AnyEvent) or not isinstance(stamp, int | None):
            raise UsageError(f"an event and its stamp are needed, not {type(event).__name__}, {type(stamp).__name__}")
        try:  # a constructor does not check the types of its fields
            event = _EVENTS.decode(msgspec.json.encode(event))
        except (msgspec.MsgspecError, TypeError, OverflowError) as error:
            raise UsageError(f"{type(event).__name__}: {error}") from error
        return self._fed(event, stamp)

    def _fed(self, event: AnyEvent, stamp: int | None = None) -> list[AnyRow]:
        self._stamp = max(self._stamp, event.time) if stamp is None else stamp
        return self._noted(self._shard.push(event, self._stamp))

    def finish(self) -> list[AnyRow]:
        """Process what still waits for other sources, as when every source has ended; return the rows."""
        return self._noted(self._shard.finish())

    def groups(self) -> tuple[tuple[str, str], ...]:
        """Return the groups of which an event has been folded, by cluster and name, sorted."""
        keys = {state.key for state in self._shard.timeline.groups()}
        keys |= {key.removeprefix("/") for key in self._groups if not key.startswith(KEY_PREFIX)}
        return tuple(sorted((cluster, group) for cluster, _, group in (key.partition("/") for key in keys)))

    def queues(self, cluster: str, group: str) -> tuple[MessageQueue, ...]:
        """Return the queues of a group that telemetry has shown, in Java's order.

        Raises:
            UnknownSubjectError: no event of the group has been folded; `NotYetError` if some wait.
        """
        return tuple(sorted(self._state(cluster, group).queues, key=queue_order))

    def members(self, cluster: str, group: str) -> tuple[str, ...]:
        """Return the client ids of the group's members, in Java's order.

        Raises:
            UnknownSubjectError: no event of the group has been folded; `NotYetError` if some wait.
        """
        return self._state(cluster, group).members

    def owner(self, cluster: str, group: str, queue: MessageQueue) -> str | None:
        """Return the client that has the queue; None: no client has, or it is unknown which.

        Raises:
            UnknownSubjectError: the group, or its queue, is not known.
        """
        return self._queue(cluster, group, queue)[1].owner

    def incidents(self, cluster: str, group: str = "") -> tuple[OpenIncident, ...]:
        """Return the open incidents of a group, or of the cluster itself, the oldest first.

        Raises:
            UnknownSubjectError: no event of the group, or of the cluster, has been folded.
        """
        cluster_state = self._shard.timeline.state.clusters.get(cluster)
        if group:
            by_key = self._state(cluster, group).incidents
        elif cluster_state is not None:
            by_key = cluster_state.incidents
        else:
            raise self._not_known(f"cluster {cluster!r}", cluster)
        return tuple(
            _open_incident(cluster, group, one) for one in sorted(by_key.values(), key=lambda one: one.opened_at)
        )

    def explain(self, cluster: str, group: str, queue: MessageQueue) -> Explanation:
        """Return what is known of a queue, with the evidence of its open incidents; it changes nothing.

        Raises:
            UnknownSubjectError: the group, or its queue, is not known.
        """
        known, _ = self._queue(cluster, group, queue)
        state = decode_group(encode_group(known))  # a copy: to look at an age may schedule a check
        step = GroupStep(state, self._policy.of_group(cluster, group), self._shard.timeline.moment(cluster))
        q = QueueFacts.of(step.facts, queue)
        process_queue = owners_queue(step, q)
        evidence = {rule.code: rule.evidence for rule in QUEUE_RULES}
        return Explanation(
            owner=q.queue.owner,
            expected_owner=q.queue.expected_owner,
            lag=q.queue.lag,
            lock_ms=process_queue.lock_ms if process_queue is not None else None,
            pull_ms=process_queue.pull_ms if process_queue is not None else None,
            consume_ms=process_queue.consume_ms if process_queue is not None else None,
            incidents=tuple(
                _open_incident(cluster, group, one, evidence[one.code](step, q))
                for one in state.incidents.values()
                if one.queue == queue
            ),
            steps=tuple(self._steps.get((state.key, queue), ())),
        )

    def _state(self, cluster: str, group: str) -> GroupState:
        state = self._shard.timeline.find(cluster, group)
        if state is None:
            raise self._not_known(f"group {group!r} of cluster {cluster!r}", cluster, group)
        return state

    def _not_known(self, subject: str, cluster: str, group: str = "") -> UnknownSubjectError:
        known_at = self._shard.known_at(cluster, group)
        if known_at is None:
            return UnknownSubjectError(f"no event of {subject} has been folded")
        return NotYetError(subject, known_at)

    def _queue(self, cluster: str, group: str, queue: MessageQueue) -> tuple[GroupState, QueueState]:
        state = self._state(cluster, group)
        if queue not in state.queues:
            raise UnknownSubjectError(f"group {group!r} has no queue {queue}")
        return state, state.queues[queue]

    def _noted(self, rows: list[AnyRow]) -> list[AnyRow]:
        for row in rows:
            if isinstance(row, _Step) and row.topic is not None and row.broker is not None and row.queue_id is not None:
                queue = MessageQueue(row.topic, row.broker, row.queue_id)
                self._steps[f"{row.cluster}/{row.group}", queue].append(row)
        return rows


def _open_incident(cluster: str, group: str, incident: IncidentState, evidence: Evidence | None = None) -> OpenIncident:
    return OpenIncident(
        cluster,
        group,
        incident.code,
        incident.subject,
        incident.sub_cause,
        incident.severity,
        incident.opened_at,
        evidence or {},
    )
