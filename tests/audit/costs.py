"""The cost of each hand-over of a queue: its pause, and the messages that were read again.

The pause is the time from the former owner's last activity (its unlock if there is one, else a granted lock, an
answered pull or a commit) to the new owner's granted lock or, for a concurrent queue, its first pull. The number of
messages read again is at least the former owner's committed offset minus the offset of the new owner's first pull, and
at most the former owner's last pulled offset minus that. A former owner that does not know yet that it lost the queue
continues for a while: its activity until the rebalance is settled counts. A broker's restart takes every queue from its
owner, because the locks are lost, and is a hand-over, possibly to the same owner.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import inf

from tests.audit.owners import Activity, Change, GroupOwners, Pull, QueueHistory
from tests.audit.telemetry import Queue

PULL_BATCH_MAX = 32
"""The maximum number of messages of a client's last pull, whose offsets are unknown."""


@dataclass(frozen=True, eq=False)
class HandOver:
    """The move of a queue from a client to another one, or to the same one again."""

    queue: Queue
    former: str
    new_owner: str
    taken: int
    """The time at which the new owner took it, milliseconds."""
    stopped: int | None
    """The time of the former owner's last activity; None: none."""
    resumed: int | None
    """The time at which the new owner certainly had it (see the module's docstring); None: not yet."""
    start: int | None
    """The offset of the new owner's first pull."""
    of_former: Activity
    retaken: float
    """The time at which the former owner took it again: its later activity does not belong to this hand-over."""

    @property
    def pause_ms(self) -> int | None:
        """The time for which no client consumed it."""
        return None if self.stopped is None or self.resumed is None else max(0, self.resumed - self.stopped)

    def read_again(self, settled: int) -> tuple[int, int] | None:
        """Return the minimum and maximum number of messages, by the events up to an instant; None if unknown."""
        commits = [one for one in self.of_former.commits if one.seen <= settled and one.time < self.retaken]
        pulls = [one for one in self.of_former.pulls if one.seen <= settled and one.first_time < self.retaken]
        if self.start is None or not commits or not pulls:
            return None
        least = max(0, max(one.offset for one in commits) - self.start)
        return least, max(least, max(one.last_offset for one in pulls) - self.start)


def hand_overs(group: GroupOwners) -> list[HandOver]:
    """Return all hand-overs of one group, in order of time."""
    costed = [
        _hand_over(group, queue, history, *pair)
        for queue, history in group.queues.items()
        for pair in pairwise(_tenures(group, queue, history))
    ]
    return sorted(costed, key=lambda one: (one.taken, one.queue))


def _tenures(group: GroupOwners, queue: Queue, history: QueueHistory) -> list[Change]:
    """Return who took the queue when; a client that continues after a restart of the broker takes it again."""
    taken = [change for change in history.changes if change.client is not None]
    again = [(change.client, restart) for restart in group.restarts[queue[1]] if (change := _before(history, restart))]
    for client, restart in again:
        begins = _resumes(group.ordered, history.by_client[client or ""], restart, restart)
        after = next((change.time for change in history.changes if change.time >= restart), inf)
        if client is not None and begins is not None and begins < after:
            taken.append(Change(begins, client, ""))
    return sorted([*taken, *history.retaken])


def _before(history: QueueHistory, instant: int) -> Change | None:
    return next((change for change in reversed(history.changes) if change.time < instant), None)


def _resumes(ordered: bool, new_owner: Activity, lost: int, taken: int) -> int | None:
    """Return when a client that takes a queue is granted the lock or, if concurrent, begins its first answered pull."""
    if ordered:
        return new_owner.first_grant(taken)
    first = _first_pull(new_owner, lost, taken, served=True)
    return first.first_time if first is not None else None


def _first_pull(new_owner: Activity, lost: int, taken: int, *, served: bool = False) -> Pull | None:
    """Return the first pull reported after the client took the queue, not from before the queue was lost.

    The pull may itself be the evidence that it took the queue: then the change has the time at which the sum was sent.
    """
    return next(
        (
            pull
            for pull in new_owner.pulls
            if (pull.answered or not served) and (pull.seen == taken or (pull.seen > taken and pull.first_time >= lost))
        ),
        None,
    )


def _hand_over(group: GroupOwners, queue: Queue, history: QueueHistory, before: Change, after: Change) -> HandOver:
    assert before.client is not None
    assert after.client is not None
    former, new_owner = history.by_client[before.client], history.by_client[after.client]
    gone = next((change.time for change in history.changes if change.time > before.time), after.time)
    first_pull = _first_pull(new_owner, min(gone, after.time), after.time)
    resumed = _resumes(group.ordered, new_owner, min(gone, after.time), after.time)
    lost = [time for time in group.restarts[queue[1]] if before.time < time < after.time]
    regained = _resumes(group.ordered, former, lost[-1], lost[-1]) if lost else None
    if lost and (regained is None or regained >= after.time):
        stopped = _stopped(former, before.time, lost[-1])  # its later activity consumes nothing
    else:
        own = before.client == after.client and resumed is not None
        stopped = _stopped(former, before.time, min(after.time, resumed) if own and resumed else after.time)
    start = first_pull.first_offset if first_pull is not None else None
    again = [one.time for one in history.changes if one.time >= after.time and one.client == before.client]
    again += [after.time] if before.client == after.client else []
    return HandOver(
        queue, before.client, after.client, after.time, stopped, resumed, start, former, min(again, default=inf)
    )


def _stopped(former: Activity, since: int, until: int) -> int | None:
    unlocks = [time for time in former.unlocks if since <= time <= until]
    if unlocks:
        return unlocks[-1]
    acts = [time for time in former.grants if time < until]
    acts += [commit.time for commit in former.commits if commit.time < until]
    acts += [pull.last_time for pull in former.pulls if pull.answered and pull.last_time < until]
    return max(acts, default=None)
