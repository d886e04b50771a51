"""Facts of one queue of a group at one step, for all rules and rows."""

from collections.abc import Iterable

import msgspec

from rebalance_model.client import ProcessQueue
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.facts.group_facts import GroupFacts
from rebalance_model.observe.state import BrokerView, ClientView, HookQueueView, HookView, ProcessQueueView, QueueState


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
    """As `pull_as_of`, of its lock, whose stamp may be the broker's."""
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


class QueueFacts(msgspec.Struct, frozen=True, eq=False):
    """One queue of a group at one step; valid while the step changes neither its owner nor its broker's hook."""

    mq: MessageQueue
    queue: QueueState
    seen: HookQueueView | None
    """The view of its broker's hook."""
    view: BrokerView | None
    """The group's view of its broker."""
    hook: HookView | None
    """Its broker's hook; None if it is silent or late, too."""
    owner: ClientView | None
    """The last report of its believed owner."""
    of_owner: dict[str, OwnersQueue] = msgspec.field(default_factory=dict)
    """Its owner's process queue, once it was asked for (`group.owners_queue.owners_queue`)."""

    @staticmethod
    def of(facts: GroupFacts, mq: MessageQueue) -> "QueueFacts":
        """Return what is known of a queue; raise KeyError if the group does not have it."""
        return of_queues(facts, (mq,))[mq]

    @property
    def commit_offset(self) -> int | None:
        """Return the queue's commit: the last one that the broker's hook saw; without a hook, the last one answered."""
        if self.hook is not None and self.seen is not None and self.seen.commit_offset >= 0:
            return self.seen.commit_offset
        return self.queue.position

    def __str__(self) -> str:
        """Return the name of the queue in incidents: ``topic@broker:queue id``."""
        return str(self.mq)


def of_queues(facts: GroupFacts, queues: Iterable[MessageQueue]) -> dict[MessageQueue, QueueFacts]:
    """Return what is known of several queues; raise KeyError if the group does not have one."""
    state, facts_of = facts.state, {}
    for mq in queues:
        queue, view = state.queues[mq], state.views.get(mq.broker)
        hook = view.hook if view is not None else None
        live = hook if hook is not None and hook.source not in state.silent else None
        owner = state.clients.get(queue.owner) if queue.owner is not None else None
        facts_of[mq] = QueueFacts(mq, queue, queue.hook_view, view, live, owner)
    return facts_of
