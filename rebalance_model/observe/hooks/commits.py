"""Record a queue's commits by its broker's hook: waiting messages, commits that go back, messages read again.

A commit lower than the one before it is a regression. Its cause follows from who made it and when:

- FAILOVER: the mark (the commit before it) was set before the broker's restart, which restored older offsets.
- STALE_OWNER: it comes from a client that lost the queue and has not noticed; or that has it again, and continues at
  its former position without querying the offset.
- REREAD: the client that has just taken the queue began at its former owner's last commit, and the former owner has
  committed since: the messages in between are read twice, at most those of one persist interval.
- NEWEST_FELL: the owner's pull was answered with OFFSET_MOVED, and it went back: the log ends before its commit. Or its
  pulls were answered with TOPIC_NOT_EXIST: the topic is a new one, whose reader still carries its former commit. A hook
  of a 5.x broker sees no OFFSET_MOVED: there two commits at once, right after a pull, show it (`_is_corrected`).
- RESET_TO_MIN, OPERATOR_RESET: the owner itself went back, to 0 or to another offset. Its pulls carry commits beside
  those that it makes every 5 s, and two of them may overtake each other; so this counts from the second commit on.

The regression ends when a later commit passes the mark. Stamps are the broker's. A second's pulls are reported
together, so a commit that one of them carried may be reported after a younger commit: it is left out.
"""

import msgspec

from rebalance_model.entities import RETRY_TOPIC_PREFIX, MessageQueue, bounded
from rebalance_model.observe.events import PullMessage
from rebalance_model.observe.group import jumps, ownership, rebalances, skipped
from rebalance_model.observe.state import HookQueueView, Regression, Reread
from rebalance_model.observe.step import GroupStep

OVERTAKEN_WITHIN = 1_000
"""Two commits of one client closer together than this may have overtaken each other; milliseconds."""
CORRECTED_WITHIN = 60_000
"""A client goes back to an offset that exists within this time after such an answer; milliseconds."""
REPEATED_WITHIN = 100
"""A client that corrects its offset commits it twice within this time; milliseconds."""
NEWEST_FELL = "NEWEST_FELL"
"""The cause of a regression: the queue's newest offset fell below the commit (the topic was created again)."""
_SERVED = (None, 0, 19)
"""Response codes of a pull that was served: later, at once, PULL_NOT_FOUND."""


class Commit(msgspec.Struct, frozen=True, gc=False):
    """One commit: from its own call, or carried by a pull."""

    offset: int
    time: int
    client_id: str | None
    """The client of the channel; None: unknown."""
    channel: str
    carried: bool = False
    """True if a pull carried it: a second's pulls are reported together, and the first of them may be younger."""


def take(hook_view: HookQueueView, client_id: str | None, now: int) -> None:
    """Record that the queue has another holder."""
    hook_view.holder, hook_view.holder_since = client_id, now
    hook_view.start_offset, hook_view.start_commit, hook_view.pulled_again = -1, hook_view.commit_offset, False
    hook_view.last_sign, hook_view.begun_at, hook_view.channel, hook_view.consumed_to = 0, 0, "", -1


def begin(step: GroupStep, mq: MessageQueue, hook_view: HookQueueView, at: int) -> None:
    """Record that the holder was granted the lock or (concurrent) pulled: it has begun at the first of these."""
    hook_view.last_sign = max(hook_view.last_sign, at)
    if not hook_view.begun_at:
        hook_view.begun_at = at
        rebalances.note_begun(step, mq, at, is_exact=True)


def note_restart(step: GroupStep, mq: MessageQueue, hook_view: HookQueueView) -> None:
    """Record that the broker has restarted: its offsets are those stored last, and unknown until the next commit."""
    ownership.keep(step, mq, hook_view)
    hook_view.commit_at_restart = max(hook_view.commit_offset, hook_view.commit_at_restart)
    hook_view.commit_offset = hook_view.pull_offset = hook_view.start_offset = -1
    hook_view.pulled_again, hook_view.begun_at = False, 0
    hook_view.waiting_since = hook_view.behind_since = 0


def note_former(step: GroupStep, mq: MessageQueue, client_id: str | None, event: PullMessage) -> None:
    """Process the sum of the last pulls of the queue's former holder: it comes up to a second later.

    Its channel may be closed by then, and belong to no client.
    """
    hook_view = step.hook_view(mq)
    former = hook_view.former
    if former is None or not _is_former(hook_view, client_id, event.channel) or not is_served(event):
        return
    if former.pulled >= 0:
        former.pulled = max(former.pulled, event.last_offset + step.facts.pull_batch(former.client_id))
    if event.first_time <= former.lost_at:
        sign = min(event.last_time, former.lost_at)
        if hook_view.lost_by == former.client_id:
            hook_view.lost_by_sign = max(hook_view.lost_by_sign, sign)
        rebalances.note_last_sign(step, mq, former.client_id, sign)


def is_served(event: PullMessage) -> bool:
    """Return whether the broker served the pull, at once or later."""
    return event.code in _SERVED


def note_commit(step: GroupStep, mq: MessageQueue, hook_view: HookQueueView, commit: Commit) -> None:
    """Record a commit of any client."""
    offset, time, client_id = commit.offset, commit.time, commit.client_id
    if time < hook_view.commit_time:
        return
    before, before_time, is_holders = hook_view.commit_offset, hook_view.commit_time, client_id == hook_view.holder
    if hook_view.voided_at or client_id is None or offset == before:
        _note_jump(step, mq, hook_view, commit)
    hook_view.commit_offset, hook_view.commit_time = offset, time
    if offset > before:
        _note_advance(step, mq, hook_view, commit)
    _note_waiting(hook_view, time, advanced=offset > before)
    mark = max(before, hook_view.commit_at_restart)
    if hook_view.regression is not None or offset < mark:
        _note_regression(step, hook_view, commit, mark, before_time)
    else:
        hook_view.commit_at_restart = -1
    reread = hook_view.reread
    if reread is not None and offset >= reread.mark and _is_reader(hook_view, reread, client_id) and not commit.carried:
        hook_view.reread = None
    may_show = hook_view.regression is not None or not is_holders
    if may_show and _shows_reread(hook_view, commit, before) and _has_just_moved(step, hook_view, time):
        _note_reread(step, mq, hook_view, for_move=True)
    hook_view.committer = client_id
    if client_id is not None and is_holders and time > hook_view.last_sign:
        hook_view.last_sign = time
    if hook_view.former is not None and _is_former(hook_view, client_id, commit.channel):
        hook_view.former.commit = max(hook_view.former.commit, offset)
    if hook_view.regression is not None or hook_view.reread is not None or step.is_unsettled(mq):
        step.queues_to_judge[mq] = None


def _note_jump(step: GroupStep, mq: MessageQueue, hook_view: HookQueueView, commit: Commit) -> None:
    """Record a commit, not applied yet, beyond what was pulled."""
    before, offset, pulled = hook_view.commit_offset, commit.offset, hook_view.pull_offset
    if hook_view.voided_at and 0 <= before < offset > pulled >= 0 and _is_void(hook_view, commit.time):
        jumps.note_corrected(step, mq, max(pulled, before), offset)
    elif before == offset != pulled and _is_corrected(hook_view, commit):
        fallen = hook_view.regression
        is_fall = fallen is not None and fallen.cause in ownership.MEANT and fallen.at == hook_view.commit_time
        if is_fall and not jumps.reset_by(step, mq):
            hook_view.voided_at = commit.time
        elif offset > pulled and not step.state.orderly:  # one that gives up an ordered queue commits twice, too
            jumps.note_corrected(step, mq, pulled, offset)
    elif commit.client_id is None and not commit.carried:
        jumps.note_foreign(hook_view, offset, commit.channel)


def _note_advance(step: GroupStep, mq: MessageQueue, hook_view: HookQueueView, commit: Commit) -> None:
    hook_view.advanced_at = commit.time
    newest = step.state.queues[mq].broker_offset
    hook_view.behind_since = commit.time if newest is not None and newest > commit.offset else 0
    if mq.topic.startswith(RETRY_TOPIC_PREFIX):
        skipped.note(step, mq, commit.offset)


def note_pull(step: GroupStep, mq: MessageQueue, hook_view: HookQueueView, event: PullMessage) -> None:
    """Record a pull of the queue's holder."""
    former, lowest = hook_view.pull_offset, min(event.first_offset, event.last_offset)
    hook_view.pull_time, hook_view.pull_offset, hook_view.channel = event.last_time, event.last_offset, event.channel
    again = event.last_offset == (event.first_offset if event.count > 1 else former) and hook_view.start_offset >= 0
    hook_view.pulled_again = again and event.code in _SERVED
    _note_waiting(hook_view, event.last_time, advanced=False)
    if hook_view.start_offset < 0 or lowest < former:
        first, hook_view.start_offset = hook_view.start_offset < 0, lowest
        if first and hook_view.consumed_to >= 0:
            _note_begun(step, mq, hook_view, lowest)
        skipped.note_pull(step, mq, lowest)
        _note_reread(step, mq, hook_view, for_move=first)
        step.queues_to_judge[mq] = None
    elif former <= hook_view.start_offset < hook_view.pull_offset and hook_view.committer != hook_view.holder:
        _note_reread(
            step, mq, hook_view, for_move=True
        )  # it received messages, and its former owner has committed them by now
        step.queues_to_judge[mq] = None
    elif step.is_unsettled(mq):
        step.queues_to_judge[mq] = None


def _note_begun(step: GroupStep, mq: MessageQueue, hook_view: HookQueueView, start: int) -> None:
    """Record what the holder leaves out, at its first pull after it queried the offset."""
    first, hook_view.consumed_to = hook_view.consumed_to, -1
    if hook_view.not_found_at == hook_view.asked_at:
        skipped.note_first_pull(step, mq, first, start)
    else:
        jumps.note_first_pull(step, mq, hook_view, first, start)


def _note_waiting(hook_view: HookQueueView, time: int, *, advanced: bool) -> None:
    """Record whether messages wait; a new owner first pulls at the commit in any case, so that alone proves nothing."""
    behind = 0 <= hook_view.commit_offset < hook_view.pull_offset
    if advanced:
        hook_view.waiting_since = time if behind else 0
    elif behind:
        hook_view.waiting_since = hook_view.waiting_since or time
    elif hook_view.pulled_again:
        hook_view.waiting_since = 0


def _note_regression(step: GroupStep, hook_view: HookQueueView, commit: Commit, before: int, before_time: int) -> None:
    fallen = hook_view.regression
    mark = fallen.mark if fallen is not None else before
    if commit.offset >= mark:
        hook_view.regression, hook_view.commit_at_restart = None, -1
    elif _is_void(hook_view, commit.time) and (fallen is None or hook_view.voided_at == commit.time):
        hook_view.commit_at_restart, hook_view.former, hook_view.reread = -1, None, None
        hook_view.pull_offset = commit.offset
        hook_view.waiting_since = hook_view.behind_since = 0  # what waited is gone
        hook_view.regression = Regression(
            mark, commit.offset, commit.time, NEWEST_FELL, commit.channel, counts=True, consume_time_ms=None
        )
    elif fallen is None:
        cause = _cause(step, hook_view, commit, before_time)
        at_once = cause not in ownership.MEANT
        ms = _consume_time(hook_view, before, before_time, before - commit.offset)
        hook_view.regression = Regression(before, commit.offset, commit.time, cause, commit.channel, at_once, ms)
    else:
        fallen.to = min(fallen.to, commit.offset)
        fallen.counts = fallen.counts or commit.time - fallen.at > OVERTAKEN_WITHIN


def _is_corrected(hook_view: HookQueueView, commit: Commit) -> bool:
    """Return whether the holder commits an offset for the second time at once, right after a pull.

    So does a client whose pull was answered that its offset is not in the log (DefaultMQPushConsumerImpl,
    OFFSET_ILLEGAL): it persists the offset of that answer, and again as it removes the process queue. One that a tool
    lets reset its offset waits for ten seconds after its last pull (MQClientInstance.resetOffset).
    """
    if commit.carried or commit.client_id is None or hook_view.pull_offset < 0:
        return False
    is_holder = commit.client_id == hook_view.holder == hook_view.committer
    is_at_once = commit.time - hook_view.commit_time <= REPEATED_WITHIN
    is_after_pull = hook_view.pull_time < hook_view.commit_time  # else that pull carried it, and overtook another
    return is_holder and is_at_once and is_after_pull and commit.time - hook_view.pull_time <= jumps.AT_ONCE


def _is_void(hook_view: HookQueueView, now: int) -> bool:
    """Return whether what was committed is not in this log, by the answer to a pull shortly before."""
    return hook_view.voided_at > 0 and now - hook_view.voided_at <= CORRECTED_WITHIN


def _cause(step: GroupStep, hook_view: HookQueueView, commit: Commit, before_time: int) -> str:
    if hook_view.commit_at_restart >= 0:
        return "FAILOVER"
    if commit.client_id is None or commit.client_id != (hook_view.holder or hook_view.committer):
        return "STALE_OWNER"
    if hook_view.committer != commit.client_id:
        if before_time >= hook_view.holder_since and _has_just_moved(step, hook_view, commit.time):
            return "REREAD"
        if hook_view.asked_at < before_time:
            return "STALE_OWNER"
    return "RESET_TO_MIN" if commit.offset == 0 else "OPERATOR_RESET"


def _has_just_moved(step: GroupStep, hook_view: HookQueueView, now: int) -> bool:
    """Return whether its former owner may not yet know that the queue has moved."""
    policy = step.policy
    return now - hook_view.holder_since <= policy.rebalance_wait_interval + policy.persist_consumer_offset_interval


def _consume_time(hook_view: HookQueueView, mark: int, marked_at: int, messages: int) -> int | None:
    """Return how long those messages took at their rate of consumption, milliseconds; None: unknown."""
    consumed, since = mark - hook_view.start_commit, hook_view.holder_since
    if hook_view.start_commit < 0 or consumed <= 0 or not 0 < since < marked_at:
        return None
    return bounded(messages * (marked_at - since) // consumed)


def _is_reader(hook_view: HookQueueView, reread: Reread, client_id: str | None) -> bool:
    """Return whether a commit of this client can show that the messages have been read again."""
    return client_id in (reread.client_id, None) or reread.client_id != hook_view.holder


def _shows_reread(hook_view: HookQueueView, commit: Commit, before: int) -> bool:
    """Return whether the holder received messages that its former owner has committed; the commit is by either of them.

    A holder that returns the queue before it received any message, without a call, has read none.
    """
    start = hook_view.start_offset
    if start < 0:
        return False
    if commit.client_id == hook_view.holder:
        return hook_view.regression is not None and hook_view.committer != hook_view.holder and commit.offset > start
    return commit.offset > before and hook_view.pull_offset > start


def _note_reread(step: GroupStep, mq: MessageQueue, hook_view: HookQueueView, *, for_move: bool) -> None:
    """Record a reread if the holder reads from `start_offset` below what had been committed.

    It is ``for_move`` if the holder has just taken the queue, and did not go back.
    """
    fallen, start = hook_view.regression, hook_view.start_offset
    if _is_void(hook_view, hook_view.pull_time) or (fallen is not None and fallen.cause == NEWEST_FELL):
        return  # what was committed before is not in this log
    mark = max(hook_view.commit_offset, hook_view.commit_at_restart, fallen.mark if fallen is not None else -1)
    if mark <= start or hook_view.holder is None:
        return
    if fallen is not None and fallen.consume_time_ms is not None:
        consume_time: int | None = bounded(fallen.consume_time_ms * (mark - start) // (fallen.mark - fallen.to))
    else:
        consume_time = _consume_time(hook_view, mark, hook_view.commit_time, mark - start)
    if hook_view.reread is None or hook_view.reread.client_id != hook_view.holder:
        charged = step.state.queues[mq].rebalance_id if for_move else ""
        hook_view.reread = Reread(start, mark, hook_view.holder, charged, consume_time)
    else:
        hook_view.reread = Reread(
            min(start, hook_view.reread.start), mark, hook_view.holder, hook_view.reread.rebalance_id, consume_time
        )


def _is_former(hook_view: HookQueueView, client_id: str | None, channel: str) -> bool:
    """Return whether a call is from the queue's former holder."""
    former = hook_view.former
    if former is None or former.client_id == hook_view.holder:
        return False
    return client_id == former.client_id if client_id is not None else channel == former.channel
