"""One turn of the machine: the state in hand, the time and cause of what is concluded, and the conclusions."""

from typing import TYPE_CHECKING, NamedTuple, TypedDict

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import AnyEffect, AssignmentChange
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import BrokerView, GroupState, HookQueue, HookView, QueueState

if TYPE_CHECKING:
    from rebalance_model.observe.verdicts.ages import Ages

CORRECTIONS_MAX = 64
LARGE, LARGE_LOOKS_EVERY = 256, 1_000
"""All of a group is judged when a look is due: a group of so many queues has one in so many milliseconds at most."""


class Moment(NamedTuple):
    """When something is concluded, and from what; times are epoch milliseconds."""

    now: int
    """On the timeline."""
    cause: str
    """The event that shows it, ``source_id|key|seq``; empty: time alone."""
    known_at: int
    """The log's highest stamp folded so far."""


class Common(TypedDict):
    """What a group's rows have in common; see `effects`."""

    cluster: str
    group: str
    time: int
    known_at: int
    seq: int
    cause: str


class Turn:
    """Collects the effects of one event, or of one moment at which something is due."""

    def __init__(self, state: GroupState, policy: Policy, moment: Moment) -> None:
        self.state = state
        self.policy = policy
        self.moment = moment
        self.now = moment.now
        self.effects: list[AnyEffect] = []
        self.touched: dict[MessageQueue, None] = {}
        """Queues whose state may have changed materially; a dictionary keeps their order."""
        self.queues_to_judge: dict[MessageQueue, None] = {}
        self.clients_to_judge: dict[str, None] = {}
        self.brokers_to_judge: dict[str, None] = {}
        self.group_to_judge = False
        self.judged: MessageQueue | None = None
        """The queue that is being judged: nothing that is known of it changes meanwhile."""
        self.ages: tuple[Ages | None] | None = None
        """Of that queue, if any rule has asked for them (`Ages.of`)."""

    def schedule_check(self, at: int) -> None:
        """Have everything judged again at that time, or before; a large group's up to a second later."""
        at = max(at, self.now + 1)
        if len(self.state.queues) >= LARGE:
            at = -(-at // LARGE_LOOKS_EVERY) * LARGE_LOOKS_EVERY
        if not self.state.next_check or at < self.state.next_check:
            self.state.next_check = at

    def queue(self, mq: MessageQueue) -> QueueState:
        """The queue's state, made on first sight; it is now touched."""
        self.touched[mq] = None
        found = self.state.queues.get(mq)
        if found is None:
            found = self.state.queues[mq] = QueueState()
        return found

    def hook_queue(self, mq: MessageQueue) -> HookQueue:
        """What hooks told of the queue, made on first sight."""
        queue = self.state.queues.get(mq) or self.queue(mq)
        if queue.hook is None:
            queue.hook = HookQueue()
        return queue.hook

    def live_hook(self, view: BrokerView | None) -> HookView | None:
        """The broker's hook, unless it is silent or late."""
        hook = view.hook if view is not None else None
        return hook if hook is not None and hook.source not in self.state.silent else None

    def next_row(self) -> Common:
        """What the group's next row has in common with every other."""
        self.state.rows += 1
        return {
            "cluster": self.state.cluster,
            "group": self.state.group,
            "time": self.now,
            "known_at": self.moment.known_at,
            "seq": self.state.rows,
            "cause": self.moment.cause,
        }

    def emit(self, effect: AnyEffect) -> None:
        """Add a conclusion."""
        self.effects.append(effect)

    def correct(self, what: str) -> None:
        """Note what a poll corrected in the view rebuilt from events; the next GroupSnapshot tells it."""
        if len(self.state.corrections) < CORRECTIONS_MAX:
            self.state.corrections += (what,)

    def assignment(self, mq: MessageQueue, client_id: str, *, assigned: bool, evidence: str, rebalance_id: str) -> None:
        """Tell one change of a queue's owner."""
        self.emit(
            AssignmentChange(
                **self.next_row(),
                topic=mq.topic,
                broker=mq.broker,
                queue_id=mq.queue_id,
                client_id=client_id,
                action="ASSIGNED" if assigned else "RELEASED",
                evidence=evidence,
                expected_owner=self.state.queues[mq].expected,
                rebalance_id=rebalance_id,
            )
        )
