"""How far a queue is consumed, by its broker's own word: what waits, what went backwards, what is read again.

A commit lower than the one before it is a regression, and its cause follows from who made it and when:

- FAILOVER: the mark that it falls from was set before the broker's restart, which brought older offsets back.
- STALE_OWNER: it comes from a client that has not the queue, and still believes so; or that has it again, and goes on
  where it once was, without asking where to begin.
- REREAD: the client that has just taken the queue began where its former owner had last committed, and that one has
  committed since: what lies between is read twice, at most what one persist interval brings.
- RESET_TO_MIN, OPERATOR_RESET: the owner itself went back, to 0 or to somewhere. Its pulls carry commits beside those
  that it makes every 5 s, and two of them may overtake each other; so this counts from the second commit on.

It is forgiven when a later commit passes the mark. Stamps are the broker's. A pull is told with its second's sum, so a
commit that it carried may be told after a younger one: it is left out, it says nothing of now.
"""

from typing import NamedTuple

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import PullMessage
from rebalance_model.observe.group import rebalances
from rebalance_model.observe.state import FormerHolder, HookQueue, Regression, Reread
from rebalance_model.observe.turn import Turn

OVERTAKEN_WITHIN = 1_000
"""Two commits of one client closer together may have overtaken each other; milliseconds."""
_SERVED = (None, 0, 19)
"""Codes of a pull that was served: later, at once, PULL_NOT_FOUND."""
_MEANT = ("OPERATOR_RESET", "RESET_TO_MIN")
"""Causes of a regression that the holder itself made: what was committed before counts no more."""


class Commit(NamedTuple):
    """One commit: of a call of its own, or carried by a pull."""

    offset: int
    time: int
    client_id: str | None
    """Whose the channel is; None: it has not said."""
    channel: str
    carried: bool = False
    """Whether a pull carried it: told with the sum of a second's pulls, the first of which may be younger."""


def leave(turn: Turn, mq: MessageQueue, told: HookQueue, *, said: bool = False) -> None:
    """Keep how far the holder has come: it loses the queue, makes a new process queue, or its broker restarts.

    A holder that has not pulled has consumed nothing: then what is known of the one before stands.

    Args:
        turn: the turn.
        mq: the queue.
        told: what is known of it.
        said: the holder of an ordered queue has unlocked it: before that it commits what it has consumed.
    """
    if told.holder is None or (told.former is not None and told.start_offset < 0):
        return
    rebalances.add_reread(turn, mq)
    commit, pulled, consumed = _highest_commit(told), told.pull_offset, -1
    if said:
        pulled = consumed = commit
    elif pulled >= 0:
        pulled = max(commit, pulled + turn.policy.pull_batch_size)
        began = told.start_commit if told.start_commit >= 0 else told.start_offset
        if commit >= began >= 0 and told.commit_time > told.holder_since > 0:
            since = min(max(0, turn.now - told.commit_time), turn.policy.persist_consumer_offset_interval)
            consumed = commit + since * (commit - began) // (told.commit_time - told.holder_since)
    sign = turn.now if said else told.last_sign
    told.former = FormerHolder(told.holder, commit, pulled, consumed, sign, turn.now, told.channel)


def take(told: HookQueue, client_id: str | None, now: int) -> None:
    """The queue has another holder."""
    told.holder, told.holder_since = client_id, now
    told.start_offset, told.start_commit, told.pulled_again = -1, told.commit_offset, False
    told.last_sign, told.begun_at, told.channel = 0, 0, ""


def begin(turn: Turn, mq: MessageQueue, told: HookQueue, at: int) -> None:
    """The holder was granted the lock or (concurrent) pulls: from its first time on it has begun."""
    told.last_sign = max(told.last_sign, at)
    if not told.begun_at:
        told.begun_at = at
        rebalances.note_begun(turn, mq, at, is_exact=True)


def note_restart(turn: Turn, mq: MessageQueue, told: HookQueue) -> None:
    """The broker has restarted: its offsets are those that it had stored last; not known until the next commit."""
    leave(turn, mq, told)
    told.commit_at_restart = max(told.commit_offset, told.commit_at_restart)
    told.commit_offset = told.pull_offset = told.start_offset = -1
    told.pulled_again, told.waiting_since, told.begun_at = False, 0, 0


def note_former(turn: Turn, mq: MessageQueue, client_id: str | None, event: PullMessage) -> None:
    """Take the sum of the last pulls of who had the queue before: it comes up to a second later.

    Its channel may be closed by then, and nobody's any more.
    """
    told = turn.hook_queue(mq)
    former = told.former
    if former is None or not _is_former(told, client_id, event.channel) or not is_served(event):
        return
    if former.pulled >= 0:
        former.pulled = max(former.pulled, event.last_offset + turn.policy.pull_batch_size)
    if event.first_time <= former.lost_at:
        former.last_sign = max(former.last_sign, min(event.last_time, former.lost_at))
        rebalances.note_last_sign(turn, mq, former)


def is_served(event: PullMessage) -> bool:
    """Whether the broker answers the pull with what it asks for, at once or later."""
    return event.code in _SERVED


def note_commit(turn: Turn, mq: MessageQueue, commit: Commit) -> None:
    """Take a commit, whoever made it."""
    told, (offset, time, client_id, _, carried) = turn.hook_queue(mq), commit
    if time < told.commit_time:
        return
    before, before_time = told.commit_offset, told.commit_time
    told.commit_offset, told.commit_time = offset, time
    if offset > before:
        told.advanced_at = time
    _note_waiting(told, time, advanced=offset > before)
    _note_regression(turn, told, commit, max(before, told.commit_at_restart), before_time)
    reread = told.reread
    if reread is not None and offset >= reread.mark and _is_reader(told, reread, client_id) and not carried:
        told.reread = None
    if _shows_reread(told, commit, before) and _has_just_moved(turn, told, time):
        _note_reread(turn, mq, told, for_move=True)
    told.committer = client_id
    if client_id is not None and client_id == told.holder:
        told.last_sign = max(told.last_sign, time)
    if told.former is not None and _is_former(told, client_id, commit.channel):
        told.former.commit = max(told.former.commit, offset)
    if told.regression is not None or told.reread is not None or turn.is_unsettled(mq):
        turn.queues_to_judge[mq] = None


def note_pull(turn: Turn, mq: MessageQueue, told: HookQueue, event: PullMessage) -> None:
    """Take a pull of the queue's holder."""
    former, lowest = told.pull_offset, min(event.first_offset, event.last_offset)
    told.pull_time, told.pull_offset, told.channel = event.last_time, event.last_offset, event.channel
    again = event.last_offset == (event.first_offset if event.count > 1 else former) and told.start_offset >= 0
    told.pulled_again = again and event.code in _SERVED
    _note_waiting(told, event.last_time, advanced=False)
    if told.start_offset < 0 or lowest < former:
        first, told.start_offset = told.start_offset < 0, lowest
        _note_reread(turn, mq, told, for_move=first)
        turn.queues_to_judge[mq] = None
    elif former <= told.start_offset < told.pull_offset and told.committer != told.holder:
        _note_reread(
            turn, mq, told, for_move=True
        )  # it was given messages, and its former owner has committed them by now
        turn.queues_to_judge[mq] = None
    elif turn.is_unsettled(mq):
        turn.queues_to_judge[mq] = None


def _note_waiting(told: HookQueue, time: int, *, advanced: bool) -> None:
    """An heir pulls first where the commit stands, whatever waits: that alone is no proof that nothing does."""
    behind = 0 <= told.commit_offset < told.pull_offset
    if advanced:
        told.waiting_since = time if behind else 0
    elif behind:
        told.waiting_since = told.waiting_since or time
    elif told.pulled_again:
        told.waiting_since = 0


def _note_regression(turn: Turn, told: HookQueue, commit: Commit, before: int, before_time: int) -> None:
    fallen = told.regression
    if commit.offset >= (fallen.mark if fallen is not None else before):
        told.regression, told.commit_at_restart = None, -1
    elif fallen is None:
        cause = _cause(turn, told, commit, before_time)
        at_once = cause not in ("OPERATOR_RESET", "RESET_TO_MIN")
        worth = _worth(told, before, before_time, before - commit.offset)
        told.regression = Regression(before, commit.offset, commit.time, cause, commit.channel, at_once, worth)
    else:
        fallen.to = min(fallen.to, commit.offset)
        fallen.shown = fallen.shown or commit.time - fallen.at > OVERTAKEN_WITHIN


def _cause(turn: Turn, told: HookQueue, commit: Commit, before_time: int) -> str:
    if told.commit_at_restart >= 0:
        return "FAILOVER"
    if commit.client_id is None or commit.client_id != (told.holder or told.committer):
        return "STALE_OWNER"
    if told.committer != commit.client_id:
        if before_time >= told.holder_since and _has_just_moved(turn, told, commit.time):
            return "REREAD"
        if told.asked_at < before_time:
            return "STALE_OWNER"
    return "RESET_TO_MIN" if commit.offset == 0 else "OPERATOR_RESET"


def _has_just_moved(turn: Turn, told: HookQueue, now: int) -> bool:
    """Whether its former owner may not have learnt yet that the queue has moved."""
    policy = turn.policy
    return now - told.holder_since <= policy.rebalance_wait_interval + policy.persist_consumer_offset_interval


def _worth(told: HookQueue, mark: int, marked_at: int, messages: int) -> int | None:
    """How long those messages took, at the pace at which they were consumed, milliseconds."""
    consumed, since = mark - told.start_commit, told.holder_since
    if told.start_commit < 0 or consumed <= 0 or not 0 < since < marked_at:
        return None
    return messages * (marked_at - since) // consumed


def _is_reader(told: HookQueue, reread: Reread, client_id: str | None) -> bool:
    """Whether it is for this client to say that the messages have been read again."""
    return client_id in (reread.client_id, None) or reread.client_id != told.holder


def _shows_reread(told: HookQueue, commit: Commit, before: int) -> bool:
    """Whether the holder has had messages that its former owner has committed: the commit is of either of them.

    A holder that gives the queue back before any message came for it, and tells nobody so, has read none.
    """
    start = told.start_offset
    if start < 0:
        return False
    if commit.client_id == told.holder:
        return told.regression is not None and told.committer != told.holder and commit.offset > start
    return commit.offset > before and told.pull_offset > start


def _note_reread(turn: Turn, mq: MessageQueue, told: HookQueue, *, for_move: bool) -> None:
    """The holder reads from `start_offset`: is that below what had been committed?

    Args:
        turn: the turn.
        mq: the queue.
        told: what is known of it.
        for_move: whether it reads there because it has just got the queue, not because it went back.
    """
    fallen, start = told.regression, told.start_offset
    mark = max(told.commit_offset, told.commit_at_restart, fallen.mark if fallen is not None else -1)
    if mark <= start or told.holder is None:
        return
    if fallen is not None and fallen.worth_ms is not None:
        worth: int | None = fallen.worth_ms * (mark - start) // (fallen.mark - fallen.to)
    else:
        worth = _worth(told, mark, told.commit_time, mark - start)
    if told.reread is None or told.reread.client_id != told.holder:
        charged = turn.state.queues[mq].rebalance_id if for_move else ""
        told.reread = Reread(start, mark, told.holder, charged, worth)
    else:
        told.reread = Reread(min(start, told.reread.start), mark, told.holder, told.reread.rebalance_id, worth)


def _highest_commit(told: HookQueue) -> int:
    """The highest offset committed by or for the holder, whatever a client that lost the queue commits below it."""
    fallen = told.regression
    mark = fallen.mark if fallen is not None and fallen.cause not in _MEANT else -1
    return max(told.commit_offset, told.commit_at_restart, mark)


def _is_former(told: HookQueue, client_id: str | None, channel: str) -> bool:
    """Whether a call is of who had the queue before this holder."""
    former = told.former
    if former is None or former.client_id == told.holder:
        return False
    return client_id == former.client_id if client_id is not None else channel == former.channel
