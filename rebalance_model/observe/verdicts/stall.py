"""For how long a queue has waited: by its broker's answers (`offsets`), and by its hook alone.

By the hook, what was pulled and not committed is the least that can wait, and it waits for as long as no commit
advances. Pulled up to the commit, and pulled there again by a living owner: nothing waits. With nobody to pull it is
not known whether anything does.
"""

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.group.expectation import is_subscribed
from rebalance_model.observe.polls.offsets import lag_of
from rebalance_model.observe.state import HookQueue, HookView, QueueState
from rebalance_model.observe.turn import Turn


class Stall(msgspec.Struct, frozen=True, gc=False):
    """How long a queue has waited."""

    ms: int
    """0: nothing waits."""
    lag: int | None
    """Messages that wait, at least; None: not known whether any do, and nobody alive has the queue."""
    moved: bool
    """Whether the commit is seen to have advanced since it began, or nothing to have waited before."""


def of(turn: Turn, mq: MessageQueue, limit: int) -> Stall | None:
    """By whichever shows the longer wait; looked at again when that reaches the limit. None: not known, or no news."""
    queue, told = turn.state.queues[mq], by_hook(turn, mq)
    lag, ms = lag_of(queue), queue.stalled_ms
    if told is not None and ms and _is_as_polled(queue):
        told = msgspec.structs.replace(told, moved=False)  # that it was pulled just now says nothing of what waited
    asked = lag is not None and queue.stats_at == turn.now  # judged at the answer: only then it still stands
    polled = Stall(ms, lag, moved=ms == 0) if asked else None
    if told is None or (told.lag is None and lag is not None and turn.state.is_polled):
        return polled
    if 0 < told.ms <= limit:
        turn.schedule_check(turn.now + limit + 1 - told.ms)
    return told if polled is None or told.ms >= polled.ms else polled


def _is_as_polled(queue: QueueState) -> bool:
    """Whether the hook has told of no commit beyond what the broker last answered."""
    told = queue.hook
    return told is not None and queue.commit_offset is not None and told.commit_offset <= queue.commit_offset


def by_hook(turn: Turn, mq: MessageQueue) -> Stall | None:
    """None: not known."""
    told = turn.state.queues[mq].hook
    hook = turn.live_hook(turn.state.views.get(mq.broker))
    if told is None or hook is None or told.commit_offset < 0:
        return None
    now = turn.now
    if told.waiting_since:
        waited = max(0, now - max(told.waiting_since, hook.covered_since))
        at_least = max(1, told.pull_offset - told.commit_offset)
        return Stall(waited, at_least, moved=told.waiting_since >= hook.covered_since)
    unmoved = now - told.advanced_at
    if unmoved <= turn.policy.stuck_after:
        return Stall(unmoved, None, moved=True)
    sign = last_sign(turn, mq, hook, told)
    if sign is None and turn.state.members and not is_subscribed(turn.state, mq.topic):
        return None  # nobody means to have it: a topic that was given up
    return _unknown_lag(turn, hook, told, sign)


def _unknown_lag(turn: Turn, hook: HookView, told: HookQueue, sign: int | None) -> Stall | None:
    """Of a queue with nothing pulled and not committed; ``sign``: its owner's last one."""
    now, policy = turn.now, turn.policy
    if sign is not None and now - sign <= policy.unresponsive_after:
        if told.pulled_again and told.pull_offset == told.commit_offset:
            return Stall(0, 0, moved=True)
        turn.schedule_check(sign + policy.unresponsive_after + 1)
        return None
    if now - told.advanced_at > policy.moved_within:
        return None
    alone = now - max(told.advanced_at, sign or 0, told.pull_time, told.holder_since, hook.covered_since)
    return Stall(alone, None, moved=False)


def last_sign(turn: Turn, mq: MessageQueue, hook: HookView, told: HookQueue) -> int | None:
    """When the queue's owner last heartbeated, renewed its lock or pulled; None: nobody has it."""
    owner = turn.state.queues[mq].owner
    if owner is None:
        return None
    heard, entry = hook.heartbeats.get(owner), hook.locks.get(mq)
    return max(
        heard.last if heard is not None else 0,
        entry.last_update_timestamp if entry is not None and entry.client_id == owner else 0,
        told.pull_time if told.holder == owner else 0,
    )


def is_unresponsive(turn: Turn, mq: MessageQueue) -> bool:
    """Whether the broker has heard nothing of the queue's owner for `unresponsive_after`, though its hook tells."""
    told = turn.state.queues[mq].hook
    hook = turn.live_hook(turn.state.views.get(mq.broker))
    sign = last_sign(turn, mq, hook, told) if hook is not None and told is not None else None
    if hook is None or sign is None:
        return False
    return turn.now - max(sign, hook.covered_since) > turn.policy.unresponsive_after
