"""Record a commit that jumps forward: messages that nobody read, and that no consumer will get.

EXPIRED: the store deletes messages by age (fileReservedTime) whether they were read or not. A client that asks for one
that is gone is answered PULL_OFFSET_MOVED (21), drops the queue, commits the offset that the broker names
(DefaultMQPushConsumerImpl, OFFSET_ILLEGAL), and takes it again: before 5.0 after ten seconds, since then at once. A
broker that resets offsets itself answers the same: it is a reset if the hook has seen a tool ask for one. Since 5.0 a
broker answers pulls after its hooks have run, so a hook sees no code: a commit beyond what was pulled, right after a
pull and right before the queue is taken again, shows the answer; a short way beyond, where it is made twice at once, as
that client does (`commits`). By polls: the commit has passed an oldest stored
message that was beyond what the group had read (`expiring`).

JUMPED: the offset was moved. By a hook: a client that has queried the stored offset begins beyond every commit that was
seen; or it commits beyond what it pulled, and takes the queue again (MQClientInstance.resetOffset). A commit beyond
what the master served is not enough: a slave may have served it. By polls: the commit is far beyond what was pulled,
and the client has dropped the queue.

WHILE_EMPTY: by polls, the commit of a group of push consumers advanced once while none was listed. It counts when a
member is listed again: commits that continue without one are those of clients that no broker lists.
"""

import msgspec

from rebalance_model.broker.broker_config import SUCCESS
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import InvokeBrokerToResetOffset, OffsetInfo
from rebalance_model.observe.group import expiring, proxied
from rebalance_model.observe.state import PUSH, HookQueueView, HookView, MovedOffset, OffsetReset, QueueState, Skipped
from rebalance_model.observe.step import GroupStep

PULLED_WITHIN = 30_000
"""A client whose offset was moved had pulled the queue at its master until shortly before; milliseconds."""
PAUSE = 5_000
"""A client that is to move its offset drops the queue, and commits ten seconds later; milliseconds."""
AT_ONCE = 1_000
"""A client of 5.x whose offset is not in the log commits another one, and takes the queue again, within this time after
its pull; milliseconds."""
BATCHES = 2
"""A client may have received this many batches since the last pull that is reported: an answer comes before it."""


RESETS_MAX = 64
"""The topics of which the last reset is kept."""
UNKNOWN_PULLERS_MAX = 64
"""The channels of unknown clients that are kept, those that pulled last."""
RESET_WITHIN = 600_000
"""A reset shows in commits within this time; milliseconds. Of a group that was stopped, when it commits again."""


def note_reset(hook: HookView, event: InvokeBrokerToResetOffset) -> None:
    """Record which tool lets the broker move offsets."""
    if event.code != SUCCESS:
        return
    hook.resets.pop(event.topic, None)
    hook.resets[event.topic] = OffsetReset(event.time, event.channel, event.queue_id)
    if len(hook.resets) > RESETS_MAX:
        del hook.resets[next(iter(hook.resets))]


def reset_by(step: GroupStep, mq: MessageQueue) -> str:
    """Return the channel of the tool that let the broker move the queue's offset lately; empty: none is known."""
    hook, queue = step.hook_of(mq.broker), step.state.queues[mq]
    reset = hook.resets.get(mq.topic) if hook is not None else None
    if reset is None or reset.queue_id not in (-1, mq.queue_id):
        return ""
    committed_at = queue.hook_view.commit_time if queue.hook_view is not None else 0
    return reset.channel if step.now - reset.at <= RESET_WITHIN or committed_at <= reset.at else ""


def consumed_to(step: GroupStep, hook: HookView, client_id: str, hook_view: HookQueueView) -> int:
    """Return up to where a queue was consumed when a client queries its stored offset; -1: unknown."""
    client, moved = step.state.clients.get(client_id), hook_view.moved
    is_known = moved is None or max(hook.covered_since, hook.complete_at) <= moved.since
    if moved is not None and (not is_known or moved.channel in hook.unknown_pullers):
        hook_view.moved = None  # a client that is not known may have made that commit
        return -1
    if client is None or client.consume_type != PUSH or not 0 < hook.covered_since <= hook_view.commit_time:
        return -1
    return max(hook_view.commit_offset, hook_view.pull_offset) if hook_view.commit_offset >= 0 else -1


def note_first_pull(step: GroupStep, mq: MessageQueue, hook_view: HookQueueView, first: int, start: int) -> None:
    """Process the first pull after a query: it is at the stored offset, which is the last commit unless it was moved.

    Args:
        step: The step.
        mq: The queue.
        hook_view: Its view.
        first: Up to where it was consumed at the query.
        start: The offset of the pull.
    """
    moved, commit = hook_view.moved, hook_view.commit_offset
    hook_view.moved = None
    reached, by = max(first, commit), ""
    if moved is not None and moved.start == commit:
        reached, by = moved.first, moved.channel
    if reached < start and not _is_recorded(step, mq, start):
        _record(step, mq, Skipped(reached, start, step.now, "JUMPED", by))


def note_unknown_puller(hook: HookView, channel: str, time: int) -> None:
    """Record a pull on a channel that belongs to no client: of one whose heartbeats are refused, or not known yet."""
    hook.unknown_pullers.pop(channel, None)
    hook.unknown_pullers[channel] = time
    if len(hook.unknown_pullers) > UNKNOWN_PULLERS_MAX:
        del hook.unknown_pullers[next(iter(hook.unknown_pullers))]


def note_foreign(hook_view: HookQueueView, offset: int, channel: str) -> None:
    """Process a commit, not applied yet, on a channel that belongs to no client: a tool moves the offset.

    It takes effect when a client queries the offset. One that pulls on it is a client that is not known yet.
    """
    reached = max(hook_view.commit_offset, hook_view.pull_offset)
    if hook_view.commit_offset >= 0 and offset > reached and channel != hook_view.channel:
        hook_view.moved = MovedOffset(reached, offset, hook_view.commit_time, channel)


def note_corrected(step: GroupStep, mq: MessageQueue, first: int, commit: int) -> None:
    """Process a commit right after a pull that was answered that its offset is not in the log."""
    if not _is_recorded(step, mq, commit):
        _record(step, mq, Skipped(first, commit, step.now, "EXPIRED"))


def note_taken(step: GroupStep, mq: MessageQueue, hook: HookView, hook_view: HookQueueView) -> None:
    """Process that a client queries the offset of a queue that it has committed beyond what it pulled."""
    pulled, commit = hook_view.pull_offset, hook_view.commit_offset
    quiet = hook_view.commit_time - hook_view.pull_time
    at_once = quiet >= 0 and step.now - hook_view.pull_time <= AT_ONCE
    covered = 0 < hook.covered_since <= hook_view.pull_time
    facts, client_id, is_moved = step.facts, hook_view.holder, at_once or quiet >= PAUSE
    far = BATCHES * facts.pull_batch(client_id) if is_moved and covered else facts.pull_threshold(client_id)
    is_far = 0 <= pulled < commit - far
    if is_far and step.now - hook_view.pull_time <= PULLED_WITHIN and not _is_recorded(step, mq, commit):
        _record(step, mq, Skipped(pulled, commit, step.now, "EXPIRED" if at_once else "JUMPED"))


def note_answer(step: GroupStep, queue: QueueState, info: OffsetInfo, before: int) -> None:
    """Process an advanced commit in an answer, which is not applied to the queue yet; ``before`` it was at.

    From 5.0 on pullOffset is never below the commit, and shows nothing if it equals it: a new owner may have read all.
    """
    commit = info.consumer_offset
    if not step.state.members:
        if _is_left_alone(step, queue, info):
            _record(step, info.mq, Skipped(max(before, queue.pull_offset), commit, step.now, "WHILE_EMPTY"))
        elif queue.skipped is not None and queue.skipped.why == "WHILE_EMPTY":
            queue.skipped = None  # clients that are not listed go on
        return
    pulled = max(queue.pull_offset, info.pull_offset if info.pull_offset < commit else -1)
    if before > queue.pull_offset or not 0 <= info.pull_offset <= commit or step.facts.is_mute:
        return
    is_far = commit > pulled + step.facts.pull_threshold(queue.owner or queue.former_owner)
    is_dropped = queue.dropped_by is not None if info.pull_offset == commit else _is_dropped(step, queue, info.mq)
    if is_far and is_dropped and not _is_recorded(step, info.mq, commit):
        _record(step, info.mq, Skipped(pulled, commit, step.now, "JUMPED"))


def note_expired(step: GroupStep, queue: QueueState, info: OffsetInfo) -> None:
    """Process an advanced commit in an answer, which is not applied yet: is it beyond messages that were deleted?"""
    oldest, deleted = queue.oldest, expiring.deleted_unread(queue, step.now)
    if oldest is None or not deleted or info.consumer_offset < oldest.offset or not step.state.members:
        return
    step.changed("EXPIRING")  # the collector may not ask about a group that has continued
    if not _is_recorded(step, info.mq, oldest.offset):
        _record(step, info.mq, Skipped(oldest.offset - deleted, oldest.offset, step.now, "EXPIRED"))


def _is_left_alone(step: GroupStep, queue: QueueState, info: OffsetInfo) -> bool:
    """Return whether no client can have made a commit, as far as polls show: its push consumers had left before."""
    state = step.state
    settled = state.no_members_since + step.policy.persist_consumer_offset_interval
    seen, advanced_at = queue.hook_view, queue.advanced_at
    if seen is not None and seen.commit_offset == queue.commit_offset:
        advanced_at = min(advanced_at, seen.commit_time)  # an answer shows it up to a poll interval later
    if not 0 < settled <= queue.stats_at or advanced_at > settled or not queue.commit_known:
        return False
    if state.consume_type != PUSH or step.facts.broadcasts or state.proxied_left_at or proxied.is_listed(state):
        return False
    by_hook = seen is not None and seen.commit_offset >= info.consumer_offset
    return not by_hook and not _is_recorded(step, info.mq, info.consumer_offset)


def _is_dropped(step: GroupStep, queue: QueueState, mq: MessageQueue) -> bool:
    """Return whether the last answer of the queue's client shows that it has dropped it; also if nobody has it."""
    owner = step.state.clients.get(queue.owner or "")
    held = owner.queues.get(mq) if owner is not None else None
    return held is None or held.dropped


def _is_recorded(step: GroupStep, mq: MessageQueue, start: int) -> bool:
    known = step.state.queues[mq].skipped
    return known is not None and known.start >= start and known.why != "WHILE_EMPTY"


def _record(step: GroupStep, mq: MessageQueue, skipped: Skipped) -> None:
    if mq.is_retry or mq.topic in step.facts.popped or skipped.start <= skipped.first:
        return
    if not skipped.by and (tool := reset_by(step, mq)):
        why = "JUMPED" if skipped.why == "EXPIRED" else skipped.why
        skipped = msgspec.structs.replace(skipped, why=why, by=tool)
    queue = step.state.queues[mq]
    queue.skipped = _with_former(queue.skipped, skipped, step.now - step.policy.group_memory)
    step.changed("SKIPPED")


def _with_former(former: Skipped | None, skipped: Skipped, since: int) -> Skipped:
    """Return a jump with the former ones of its kind: messages of a slow reader expire again and again."""
    if former is None or (former.why, former.by) != (skipped.why, skipped.by) or former.at <= since:
        return skipped
    first = min(max(skipped.first, former.start), skipped.start)
    before = former.before + former.start - former.first
    return msgspec.structs.replace(skipped, first=first, at=former.at, before=before)
