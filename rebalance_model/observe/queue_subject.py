"""A queue in hand: what rules and rows ask about one queue of a group, found once."""

from rebalance_model.client.process_queue import ProcessQueue
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.state import (
    BrokerView,
    ClientView,
    HookQueueView,
    HookView,
    ProcessQueueView,
    QueueState,
)
from rebalance_model.observe.step import GroupStep


class OwnersQueue(ProcessQueue, kw_only=True, gc=False):
    """The process queue of a queue's believed owner, with stamps on the timeline: each the latest one possible.

    Read it as of `lock_as_of` and `as_of`: what an answer shows does not grow older before the next one.
    """

    client: ClientView
    answer: ProcessQueueView | None
    """The queue in the owner's last answer."""
    as_of: int
    """When its pull and its consumption were as it shows: now, or when the answer came; epoch milliseconds."""
    lock_as_of: int
    """The same of its lock, whose stamp may be the broker's."""
    lock_is_exact: bool

    @property
    def lock_ms(self) -> int | None:
        """Return the minimum time since the owner renewed its lock; None: unknown."""
        return _before(self.lock_as_of, self.last_lock_timestamp)

    @property
    def pull_ms(self) -> int | None:
        """Return the minimum time since the owner pulled; None: unknown."""
        return _before(self.as_of, self.last_pull_timestamp)

    @property
    def consume_ms(self) -> int | None:
        """Return the minimum time since the owner's listener received a message or returned; None: unknown."""
        return _before(self.as_of, self.last_consume_timestamp)


def _before(now: int, stamp: int | None) -> int | None:
    return now - stamp if stamp is not None else None


class QueueSubject:
    """One queue of a group at one step; valid while the step changes neither its owner nor its broker's hook."""

    __slots__ = ("hook", "mq", "of_owner", "owner", "queue", "seen", "view")

    def __init__(self, step: GroupStep, mq: MessageQueue) -> None:
        """Find what the group's state has about the queue; raise KeyError if the group does not have it."""
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
        self.of_owner: tuple[OwnersQueue | None] | None = None
        """Its owner's process queue, once it was asked for (`group.owners_queue.owners_queue`)."""

    def __str__(self) -> str:
        """Return the name of the queue in incidents: ``topic@broker:queue id``."""
        return str(self.mq)
