"""Fold the pulls of a second (PULL_MESSAGE): who reads a queue, and how far.

Pulls alone name a holder only if none is known (of an ordered queue: the client that still has its lock), or if the
known one has not pulled for long: two clients pull one queue alternately until both have rebalanced, and the sum of the
former owner's pulls in its last second comes after the new owner's query.
"""

from rebalance_model.broker.broker_config import SUCCESS
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import PullMessage
from rebalance_model.observe.group.ghost_connections import client_of_channel
from rebalance_model.observe.group.member_types import is_outsider
from rebalance_model.observe.hooks import commits, offset_queries, pops, pull_errors, released_queues
from rebalance_model.observe.state import BrokerView, ConcurrentPuller, HookView
from rebalance_model.observe.step import GroupStep

PULL_SILENCE = 30_000
"""A client that has a queue pulls it within this time, unless it is known to hold back; milliseconds."""


def fold_pulls(step: GroupStep, view: BrokerView, hook: HookView, event: PullMessage) -> None:
    """Apply pulls; their commit comes last: it is that of the last of these pulls, which began before it."""
    mq = MessageQueue(event.topic, event.broker, event.queue_id)
    client_id = client_of_channel(view, hook, event.channel)
    if step.state.pops is not None:
        pops.note_pull(step, step.state.pops, event, client_id)
    released_queues.note_read(step, mq)
    hook_view = step.hook_view(mq)
    if hook_view.former is not None:
        commits.note_former(step, mq, client_id, event)
    if hook_view.pull_error is not None or event.code not in (None, SUCCESS):
        pull_errors.note(step, mq, client_id, event)
    client = step.state.clients.get(client_id) if client_id in step.state.members else None
    if client_id is not None and client is not None and not is_outsider(step.state, client):
        _pull_of(step, hook, mq, client_id, event)
    if event.commit_offset >= 0 and event.code in (None, SUCCESS):  # a refused pull commits nothing
        commit = commits.Commit(event.commit_offset, event.last_time, client_id, event.channel, carried=True)
        commits.note_commit(step, mq, commit)


def _pull_of(step: GroupStep, hook: HookView, mq: MessageQueue, client_id: str, event: PullMessage) -> None:
    hook_view = step.hook_view(mq)
    if client_id != hook_view.holder and offset_queries.is_locked(step, hook, mq):
        if hook_view.holder is None and offset_queries.has_living_lock(step, hook, mq, client_id, event.first_time):
            offset_queries.hold(step, hook, client_id, [mq], "PULLED")  # it was cut off, dropped, and has returned
        elif step.state.orderly:
            _check_order(step, _note_concurrent_puller(step, mq, client_id, event))
    elif client_id != hook_view.holder:
        rivals = (
            hook_view.holder is not None and step.state.queues[mq].owner != client_id
        )  # otherwise its own answer shows it
        if rivals and event.last_time - hook_view.pull_time <= PULL_SILENCE:
            _note_concurrent_puller(step, mq, client_id, event)
            return
        offset_queries.hold(step, hook, client_id, [mq], "PULLED")
    if client_id == hook_view.holder:
        commits.note_pull(step, mq, hook_view, event)
        if commits.is_served(event) and (hook_view.begun_at or not _awaits_lock(step, hook, mq, client_id, event)):
            commits.begin(step, mq, hook_view, event.last_time if hook_view.begun_at else event.first_time)


def _awaits_lock(step: GroupStep, hook: HookView, mq: MessageQueue, client_id: str, event: PullMessage) -> bool:
    """Return whether the queue is ordered and a client that has not begun has yet to be granted its lock."""
    if not offset_queries.is_locked(step, hook, mq):
        return False
    return not offset_queries.has_living_lock(step, hook, mq, client_id, event.first_time)


def _note_concurrent_puller(step: GroupStep, mq: MessageQueue, client_id: str, event: PullMessage) -> ConcurrentPuller:
    """Record that two clients pull one queue, as happens briefly at each hand-over."""
    hook_view = step.hook_view(mq)
    puller = hook_view.concurrent_puller
    if puller is None or puller.client_id != client_id or event.first_time - puller.pull_time > PULL_SILENCE:
        puller = hook_view.concurrent_puller = ConcurrentPuller(client_id, event.first_time, event.last_time)
    puller.pull_time = event.last_time
    step.queues_to_judge[mq] = None
    return puller


def _check_order(step: GroupStep, puller: ConcurrentPuller) -> None:
    """Check whether the group is still ordered: not if one client keeps pulling and none renews its locks (20 s)."""
    lives = step.policy.client_lock_max_live_time
    hooks = [view.hook for view in step.state.views.values() if view.hook is not None]
    renewed = (not entry.is_expired(step.now, lives) for hook in hooks for entry in hook.locks.values())
    if puller.pull_time - puller.since > lives and not any(renewed):
        _end_order(step)


def _end_order(step: GroupStep) -> None:
    """Switch the group to concurrent: owners were derived from locks so far, and are derived from pulls now."""
    step.state.orderly = None
    step.changed("ORDER")
    step.queues_to_judge |= dict.fromkeys(step.state.queues)
    for view in step.state.views.values():
        if view.hook is not None:
            view.hook.locks = {}
    for mq, queue in step.state.queues.items():
        hook = step.hook_of(mq.broker)
        if hook is not None and queue.hook_view is not None and queue.hook_view.concurrent_puller is not None:
            puller, queue.hook_view.concurrent_puller = queue.hook_view.concurrent_puller, None
            offset_queries.hold(step, hook, puller.client_id, [mq], "PULLED")
