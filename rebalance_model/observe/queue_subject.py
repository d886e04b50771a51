"""A queue in hand: what rules and rows ask about one queue of a group, found once."""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.state import BrokerView, ClientView, HookQueueView, HookView, QueueState
from rebalance_model.observe.step import Ages, GroupStep


class QueueSubject:
    """One queue of a group at one step; valid while the step changes neither its owner nor its broker's hook."""

    __slots__ = ("ages", "hook", "mq", "owner", "queue", "seen", "view")

    def __init__(self, step: GroupStep, mq: MessageQueue) -> None:
        """Find the parts of the group's state that are about the queue; raise KeyError if the group does not have it.

        Args:
            step: the step.
            mq: the queue.
        """
        state = step.state
        queue, view = state.queues[mq], state.views.get(mq.broker)
        hook = view.hook if view is not None else None
        self.mq = mq
        self.queue: QueueState = queue
        self.seen: HookQueueView | None = queue.hook_view
        """What its broker's hook has seen of it."""
        self.view: BrokerView | None = view
        """The group's view of its broker."""
        self.hook: HookView | None = hook if hook is not None and hook.source not in state.silent else None
        """Its broker's hook; None if it is silent or late, too."""
        self.owner: ClientView | None = state.clients.get(queue.owner) if queue.owner is not None else None
        """What its believed owner has reported."""
        self.ages: tuple[Ages | None] | None = None
        """The ages of its owner's stamps, once they have been asked for (`group.ages.ages_of`)."""

    def __str__(self) -> str:
        """Return the name of the queue in incidents: ``topic@broker:queue id``."""
        return str(self.mq)
