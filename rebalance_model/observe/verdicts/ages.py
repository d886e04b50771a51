"""How old the stamps of a queue's owner are, at least.

Where the broker's hook tells, the lock's age is exact: by the broker's clock, from the last renewal that it granted.

By polls: while a client goes on answering, its ages are those of its last answer: they do not grow between answers. Of
a client that is silent (two questions in a row unanswered, though its broker answers) nothing is known since its last
answer: it may have renewed and pulled until it was first asked in vain, so its ages are counted from then, by the
collector's clock. (detection.md carries the last ages forward; in the capture of the demo a client that renewed its
locks between its last answer and its freeze was called expired for the broker 20 s too early by that.) Its pulls, where
the hook tells of them, count all the same: a broker may ask it over a dead channel while it goes on over another.
"""

import msgspec

from rebalance_model.broker.rebalance_lock_manager import LockEntry
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.polls.process_queue_view import ProcessQueueView
from rebalance_model.observe.state import ClientView, GroupState
from rebalance_model.observe.turn import Turn


class Ages(msgspec.Struct, frozen=True, gc=False):
    """Ages in milliseconds, each a lower bound; None where nothing is known."""

    client: ClientView
    queue: ProcessQueueView | None
    """What the owner last answered of the queue."""
    lock: int | None
    """Since the owner renewed its lock."""
    lock_is_exact: bool
    goes_on: bool
    """Whether the lock goes on ageing without another event."""
    pull: int | None
    """Since the owner pulled."""
    consume: int | None
    """Since the owner's listener was given a message or returned."""

    @classmethod
    def of(cls, turn: Turn, mq: MessageQueue) -> "Ages | None":
        """The ages for the queue's believed owner; None where nobody is."""
        if turn.judged is not mq:
            return cls._of(turn, mq)
        if turn.ages is None:
            turn.ages = (cls._of(turn, mq),)
        return turn.ages[0]

    @classmethod
    def _of(cls, turn: Turn, mq: MessageQueue) -> "Ages | None":
        state = turn.state
        known = state.queues.get(mq)
        client = state.clients.get(known.owner) if known is not None and known.owner is not None else None
        if known is None or client is None:
            return None
        since = known.hook.observed_at if known.hook is not None else 0
        queue = client.queues.get(mq) if client.asked_at_answer >= since else None  # else of a former process queue
        exact = _hook_age(turn, mq, known.owner)
        lock, pull, consume = _polled(client, queue, turn.now)
        if pull is None or client.silent:
            told = told_pull(turn, mq)
            pull = told if told is not None else pull
        if exact is not None:
            return cls(client, queue, exact, lock_is_exact=True, goes_on=True, pull=pull, consume=consume)
        return cls(client, queue, lock, lock_is_exact=False, goes_on=client.silent, pull=pull, consume=consume)


def hook_lock(state: GroupState, mq: MessageQueue) -> LockEntry | None:
    """The broker's lock of the queue, as its hook told; an expired one stays in the table, as in the broker's."""
    view = state.views.get(mq.broker)
    return view.hook.locks.get(mq) if view is not None and view.hook is not None else None


def _hook_age(turn: Turn, mq: MessageQueue, owner: str | None) -> int | None:
    """The lock's age; None also where a renewal may have been lost on its way to us."""
    entry, told_of = hook_lock(turn.state, mq), turn.state.queues[mq].hook
    if entry is None or entry.client_id != owner or told_of is None or told_of.holder != owner:
        return None  # a hook that tells late shows a lock that its holder had before
    hook = turn.live_hook(turn.state.views.get(mq.broker))
    if hook is None:
        return None
    now, told = turn.now, entry.last_update_timestamp
    known_at = hook.covered_since + turn.policy.client_lock_max_live_time
    if told < hook.covered_since and now <= known_at:
        turn.schedule_check(known_at + 1)
        return None
    return max(0, now - told)


def told_pull(turn: Turn, mq: MessageQueue) -> int | None:
    """Since the owner last pulled, or took the queue, by the broker's clock."""
    queue = turn.state.queues[mq]
    told, hook = queue.hook, turn.live_hook(turn.state.views.get(mq.broker))
    if hook is None or told is None or told.holder != queue.owner or not told.holder_since:
        return None
    return max(0, turn.now - max(told.pull_time, told.holder_since, hook.covered_since))


def _polled(
    client: ClientView, queue: ProcessQueueView | None, now: int
) -> tuple[int, int, int] | tuple[None, None, None]:
    if queue is None:
        return None, None, None
    if client.silent:
        silence = max(0, now - client.unanswered_since)
        return silence, silence, silence
    client_now, asked = client.client_now, client.asked_at_answer
    return queue.lock.age(client_now, asked), queue.pull.age(client_now, asked), queue.consume.age(client_now, asked)
