"""Facts of one queue of a group at one step, for all rules and rows: each the best that all sources say of it."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from rebalance_model.broker.rebalance_lock_manager import LockEntry
from rebalance_model.client import ProcessQueue
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.facts.group_facts import UNWATCHED, GroupFacts
from rebalance_model.observe.state import BrokerView, ClientView, HookQueueView, HookView, ProcessQueueView, QueueState

Source: TypeAlias = Literal["ANSWERS", "CALLS"]
"""ANSWERS: of brokers and clients to a collector. CALLS: of clients at a broker with a hook."""


class Known(msgspec.Struct, frozen=True, gc=False):
    """A number that is known of a queue."""

    value: int
    at: int
    """When it was so; epoch milliseconds."""
    source: Source


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


class QueueFacts(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One queue of a group at one step; valid while the step changes neither its owner nor its broker's hook."""

    mq: MessageQueue
    queue: QueueState
    group: GroupFacts
    seen: HookQueueView | None
    """The calls about it, though they may no longer be seen."""
    calls: HookQueueView | None
    """The calls about it until now; None: none was seen, or its broker's hook is silent or late."""
    watched_since: int
    """Since when no call about it is missed, so that a silence counts; epoch ms. `UNWATCHED`: calls are not seen."""
    view: BrokerView | None
    """The group's view of its broker."""
    hook: HookView | None
    """Its broker's hook; None if it is silent or late, too. For what it shows there are facts, which rules read."""
    owner: ClientView | None
    """The last report of its believed owner."""
    of_owner: dict[str, OwnersQueue] = msgspec.field(default_factory=dict)
    """Its owner's process queue, once it was asked for (`group.owners_queue.owners_queue`)."""

    @staticmethod
    def of(facts: GroupFacts, mq: MessageQueue) -> "QueueFacts":
        """Return what is known of a queue; raise KeyError if the group does not have it."""
        state, queue = facts.state, facts.state.queues[mq]
        view, seen = state.views.get(mq.broker), queue.hook_view
        hook = view.hook if view is not None else None
        live = hook if hook is not None and hook.source not in state.silent else None
        calls, since = (seen, live.covered_since) if live is not None else (None, UNWATCHED)
        owner = state.clients.get(queue.owner) if queue.owner is not None else None
        return QueueFacts(mq, queue, facts, seen, calls, since, view, live, owner)

    @property
    def owners_calls(self) -> HookQueueView | None:
        """Return what calls show of it since its owner took it; None: another client has taken it, or unknown."""
        return self.calls if self.calls is not None and self.calls.holder == self.queue.owner else None

    @property
    def owner_pulled_at(self) -> int | None:
        """Return when the owner last pulled, or took the queue, by its calls, at the latest; epoch ms."""
        seen = self.calls
        if seen is None or seen.holder != self.queue.owner or not seen.holder_since:
            return None
        return min(self.group.now, max(seen.pull_time, seen.holder_since, self.watched_since))

    @property
    def owner_called_at(self) -> int | None:
        """Return when the owner last sent a heartbeat, renewed its lock or pulled, by its calls; epoch ms."""
        owner, hook = self.queue.owner, self.hook
        if owner is None or hook is None or self.calls is None:
            return None
        heartbeats, lock = hook.heartbeats.get(owner), hook.locks.get(self.mq)
        return max(
            heartbeats.last if heartbeats is not None else 0,
            lock.last_update_timestamp if lock is not None and lock.client_id == owner else 0,
            self.calls.pull_time if self.calls.holder == owner else 0,
        )

    @property
    def is_owner_hidden(self) -> bool:
        """Return whether its owner is unknown, not absent: some members say no queues, and calls are not seen."""
        return self.hook is None and bool(self.group.mute)

    @property
    def lock(self) -> LockEntry | None:
        """Return its lock at its broker, of any client; None: no client was granted it, or that is unknown."""
        return self.hook.locks.get(self.mq) if self.hook is not None else None

    @property
    def is_concurrent(self) -> bool:
        """Return whether it is consumed concurrently, as members report; or may be, where none does.

        Calls would show each request for a lock. Where nothing shows it, the commit alone tells that messages wait.
        """
        orderly = self.group.state.orderly
        if orderly is not None or not self.group.is_polled or (self.group.is_mute and self.hook is None):
            return not orderly
        watched_ms = self.group.now - self.watched_since
        return watched_ms > self.group.policy.client_lock_max_live_time and not self.group.is_fifo(self.mq)

    @property
    def commit(self) -> Known | None:
        """Return its commit: the last one that was called, where calls are seen; else the last one answered."""
        if self.calls is not None and self.calls.commit_offset >= 0:
            return Known(self.calls.commit_offset, self.calls.commit_time, "CALLS")
        position = self.queue.position
        return Known(position, self.queue.stats_at, "ANSWERS") if position is not None else None

    @property
    def lag(self) -> Known | None:
        """Return how many messages wait; by calls at least so many, if one has committed since the last answer."""
        queue, calls, commit, newest = self.queue, self.calls, self.commit, self.queue.broker_offset
        is_older = commit is None or commit.at <= queue.stats_at or commit.value == queue.position
        if newest is None or calls is None or commit is None or is_older:
            return Known(queue.lag, queue.stats_at, "ANSWERS") if queue.lag is not None else None
        return Known(max(0, max(newest, calls.pull_offset) - commit.value), commit.at, "CALLS")

    def __str__(self) -> str:
        """Return the name of the queue in incidents: ``topic@broker:queue id``."""
        return str(self.mq)


def of_queues(facts: GroupFacts, queues: Iterable[MessageQueue]) -> dict[MessageQueue, QueueFacts]:
    """Return what is known of several queues; raise KeyError if the group does not have one."""
    return {mq: QueueFacts.of(facts, mq) for mq in queues}


def with_calls(
    facts: GroupFacts, queues: Iterable[MessageQueue]
) -> list[tuple[MessageQueue, QueueState, HookQueueView | None]]:
    """Return queues with their states, and the calls about each, though they may no longer be seen."""
    known = facts.state.queues
    return [(mq, queue := known[mq], queue.hook_view) for mq in queues]


def is_locked(mq: MessageQueue, queue: QueueState, owner: ClientView | None, view: BrokerView | None) -> bool | None:
    """Return whether an ordered queue's owner has its lock, by its answer or its call, whichever is younger."""
    if owner is None:
        return None
    entry = view.hook.locks.get(mq) if view is not None and view.hook is not None else None
    answer = owner.queues.get(mq) if owner.readable and not (owner.unanswered and owner.silent) else None
    granted = entry is not None and entry.client_id == queue.owner
    if answer is not None and (entry is None or not granted or entry.last_update_timestamp <= owner.answered):
        return answer.locked if owner.orderly else None
    return granted if entry is not None else None
