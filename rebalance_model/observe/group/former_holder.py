"""Record how far a client had consumed a queue when it lost it: the reference for what the next holder reads again."""

from rebalance_model.entities import MessageQueue, bounded
from rebalance_model.observe.group import rebalances
from rebalance_model.observe.state import FormerHolder, HookQueueView
from rebalance_model.observe.step import GroupStep

_MEANT = ("OPERATOR_RESET", "RESET_TO_MIN")
"""Causes of a regression that the holder itself made: earlier commits no longer count."""


def keep(step: GroupStep, mq: MessageQueue, hook_view: HookQueueView, *, unlocked: bool = False) -> None:
    """Record how far the holder has come when it loses the queue, re-creates its process queue, or its broker restarts.

    A holder that has not pulled has consumed nothing: the record of the holder before it stays. One that has
    ``unlocked`` an ordered queue has committed what it consumed.
    """
    if hook_view.holder is None:
        return
    sign = step.now if unlocked else hook_view.last_sign
    hook_view.lost_by, hook_view.lost_by_sign = hook_view.holder, sign
    if hook_view.former is not None and hook_view.start_offset < 0:
        return
    rebalances.add_reread(step, mq)
    commit, pulled, consumed = _highest_commit(hook_view), hook_view.pull_offset, -1
    if unlocked:
        pulled = consumed = commit
    elif pulled >= 0:
        pulled = max(commit, pulled + step.facts.pull_batch(hook_view.holder))
        began = hook_view.start_commit if hook_view.start_commit >= 0 else hook_view.start_offset
        if commit >= began >= 0 and hook_view.commit_time > hook_view.holder_since > 0:
            since = min(max(0, step.now - hook_view.commit_time), step.policy.persist_consumer_offset_interval)
            rate = since * (commit - began) // (hook_view.commit_time - hook_view.holder_since)
            consumed = bounded(commit + rate)
    hook_view.former = FormerHolder(hook_view.holder, commit, pulled, consumed, step.now, hook_view.channel)


def _highest_commit(hook_view: HookQueueView) -> int:
    """Return the highest offset committed by or for the holder; a client that lost the queue may commit below it."""
    fallen = hook_view.regression
    mark = fallen.mark if fallen is not None and fallen.cause not in _MEANT else -1
    return max(hook_view.commit_offset, hook_view.commit_at_restart, mark)
