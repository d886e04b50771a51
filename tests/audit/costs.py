"""What each hand-over of a queue cost: its pause, and the messages that were read again.

The pause runs from what the former owner did last (a granted lock, an answered pull, a commit; its unlock where it says
so) to the heir's granted lock, or of a concurrent queue to its first pull. Read again is at least what was committed by
or for the former owner beyond the heir's first pull, and at most what it had pulled. A former owner that does not know
yet that it lost the queue goes on for a while: what it says until the rebalance is settled counts. A broker that
restarts takes every queue from its owner, for it has forgotten the locks, and hands it over, perhaps to the same one.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import inf

from tests.audit.owners import Activity, Change, GroupOwners, Pull, QueueHistory
from tests.audit.telemetry import Queue

PULL_BATCH_MAX = 32
"""The last pull of a client brings so many messages, at offsets that nothing tells."""


@dataclass(frozen=True, eq=False)
class HandOver:
    """One queue goes from a client to another one, or back to the same."""

    queue: Queue
    former: str
    heir: str
    taken: int
    """When the heir took it, milliseconds."""
    stopped: int | None
    """When the former owner did something with it for the last time."""
    resumed: int | None
    """When the heir had it for sure; None: not yet."""
    start: int | None
    """The offset of the heir's first pull."""
    of_former: Activity
    retaken: float
    """When the former owner took it again: from then on what it does is no part of this."""

    @property
    def pause_ms(self) -> int | None:
        """How long nobody consumed it."""
        return None if self.stopped is None or self.resumed is None else max(0, self.resumed - self.stopped)

    def read_again(self, settled: int) -> tuple[int, int] | None:
        """How many messages at least and at most, by what was seen until an instant; None where that is not known."""
        commits = [one for one in self.of_former.commits if one.seen <= settled and one.time < self.retaken]
        pulls = [one for one in self.of_former.pulls if one.seen <= settled and one.first_time < self.retaken]
        if self.start is None or not commits or not pulls:
            return None
        least = max(0, max(one.offset for one in commits) - self.start)
        return least, max(least, max(one.last_offset for one in pulls) - self.start)


def hand_overs(group: GroupOwners) -> list[HandOver]:
    """All of one group, in order of time."""
    found = [
        _hand_over(group, queue, history, *pair)
        for queue, history in group.queues.items()
        for pair in pairwise(_tenures(group, queue, history))
    ]
    return sorted(found, key=lambda one: (one.taken, one.queue))


def _tenures(group: GroupOwners, queue: Queue, history: QueueHistory) -> list[Change]:
    """Who took the queue when; a client that goes on after a restart of the broker, which forgot it, takes it again."""
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


def _resumes(ordered: bool, heir: Activity, lost: int, taken: int) -> int | None:
    """When a client that takes a queue is granted the lock, or of a concurrent queue is first served a pull."""
    if ordered:
        return heir.first_grant(taken)
    first = _first_pull(heir, lost, taken, served=True)
    return first.first_time if first is not None else None


def _first_pull(heir: Activity, lost: int, taken: int, *, served: bool = False) -> Pull | None:
    """The first that is told after it took the queue, and is none of the time before the queue was lost.

    A pull may itself be what shows that it took the queue: then the change has the time at which the sum was sent.
    """
    return next(
        (
            pull
            for pull in heir.pulls
            if (pull.answered or not served) and (pull.seen == taken or (pull.seen > taken and pull.first_time >= lost))
        ),
        None,
    )


def _hand_over(group: GroupOwners, queue: Queue, history: QueueHistory, before: Change, after: Change) -> HandOver:
    assert before.client is not None
    assert after.client is not None
    former, heir = history.by_client[before.client], history.by_client[after.client]
    gone = next((change.time for change in history.changes if change.time > before.time), after.time)
    first_pull = _first_pull(heir, min(gone, after.time), after.time)
    resumed = _resumes(group.ordered, heir, min(gone, after.time), after.time)
    lost = [time for time in group.restarts[queue[1]] if before.time < time < after.time]
    regained = _resumes(group.ordered, former, lost[-1], lost[-1]) if lost else None
    if lost and (regained is None or regained >= after.time):
        stopped = _stopped(former, before.time, lost[-1])  # what it says after that consumes nothing
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
    said = [time for time in former.unlocks if since <= time <= until]
    if said:
        return said[-1]
    acts = [time for time in former.grants if time < until]
    acts += [commit.time for commit in former.commits if commit.time < until]
    acts += [pull.last_time for pull in former.pulls if pull.answered and pull.last_time < until]
    return max(acts, default=None)
