"""One turn of the machine: the state in hand, the time and cause of what is concluded, and the conclusions."""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import AnyEffect, AssignmentChange
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import GroupState, QueueState


class Turn:
    """Collects the effects of one event, or of one deadline."""

    def __init__(self, state: GroupState, policy: Policy, *, time: int, cause: str) -> None:
        self.state = state
        self.policy = policy
        self.time = time
        self.cause = cause
        self.effects: list[AnyEffect] = []
        self.touched: dict[MessageQueue, None] = {}
        """Queues whose state may have changed materially; a dictionary keeps their order."""
        self.aged: dict[MessageQueue, None] = {}
        """Queues whose owner, or what it last said of them, may have changed."""

    def queue(self, mq: MessageQueue) -> QueueState:
        """The queue's state, made on first sight; it is now touched."""
        self.touched[mq] = None
        found = self.state.queues.get(mq)
        if found is None:
            found = self.state.queues[mq] = QueueState()
        return found

    def next_seq(self) -> int:
        """The number of the group's next row."""
        self.state.rows += 1
        return self.state.rows

    def emit(self, effect: AnyEffect) -> None:
        """Add a conclusion."""
        self.effects.append(effect)

    def assignment(self, mq: MessageQueue, client_id: str, *, assigned: bool, evidence: str, rebalance_id: str) -> None:
        """Tell one change of a queue's owner."""
        self.emit(
            AssignmentChange(
                cluster=self.state.cluster,
                group=self.state.group,
                time=self.time,
                seq=self.next_seq(),
                cause=self.cause,
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
