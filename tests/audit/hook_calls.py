"""The offsets of a queue that a broker's hook has seen by an instant, call by call.

A commit is a call of its own, or comes with a pull that the broker serves; the last pull of a second has its offset. A
newer hook also reports the broker's newest offset with each of them. The lag is exact as of a newest offset that was
reported since the hook's former row. Without one it is a lower bound: what was pulled existed, and so did what was
committed.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from tests.audit.telemetry import Event, Place, Queue, queue_of

SERVED = (None, 0, 19, 20, 21)
"""Codes of a pull that commits: answered later, found, not found, no match, moved; a refused one commits nothing."""


class Seen(NamedTuple):
    """The calls about a queue that a hook has seen; None: nothing yet. Times are epoch milliseconds."""

    newest: int | None = None
    newest_at: int = 0
    commit: int | None = None
    commit_at: int | None = None
    """When the commit last changed."""
    pull: int | None = None
    pull_at: int | None = None
    lock_at: int | None = None
    """When the lock was last granted."""

    def lag(self, since: int) -> tuple[int | None, bool]:
        """Return the lag, and whether it is a lower bound, where the hook's former row was written at ``since``."""
        if self.newest is not None and self.newest_at > since:
            known = self.commit is not None and self.newest >= self.commit
            return (self.newest - self.commit if known and self.commit is not None else None), False
        highest = max((one for one in (self.newest, self.pull) if one is not None), default=None)
        if highest is None or self.commit is None:
            return None, True
        return max(highest, self.commit) - self.commit, True


class HookCalls:
    """The calls that hooks have seen, by queue of each group."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._times: dict[tuple[Place, Queue], list[int]] = defaultdict(list)
        self._seen: dict[tuple[Place, Queue], list[Seen]] = defaultdict(list)
        for event in events:
            if event.source == "hook" and not event.get("broker_id") and (take := _CALLS.get(event.type)) is not None:
                for queue, changes in take(event).items():
                    self._add(event, queue, changes)

    def _add(self, event: Event, queue: Queue, changes: dict[str, int]) -> None:
        key = event.place, queue
        last = self._seen[key][-1] if self._seen[key] else Seen()
        if "commit" in changes and (
            changes["commit"] == last.commit or changes["called_at"] < (last.commit_at or 0)  # overtaken
        ):
            del changes["commit"], changes["commit_at"]
        changes.pop("called_at", None)
        if "pull_at" in changes:
            changes["pull_at"] = max(changes["pull_at"], last.pull_at or 0)
        self._times[key].append(event.time)
        self._seen[key].append(last._replace(**changes))

    def at(self, place: Place, queue: Queue, instant: int) -> list[Seen]:
        """Return what was seen by an instant; several if calls have its time: a row is written between two of them."""
        times, seen = self._times.get((place, queue), []), self._seen.get((place, queue), [])
        first = bisect_left(times, instant)
        return [*(seen[first - 1 : first] if first else [Seen()]), *seen[first : bisect_right(times, instant)]]

    def within(self, place: Place, queue: Queue, since: int, until: int) -> list[Seen]:
        """Return what was seen at some time of a period: by its beginning, and after each call in it."""
        times, seen = self._times.get((place, queue), []), self._seen.get((place, queue), [])
        first = bisect_right(times, since)
        return [*(seen[first - 1 : first] if first else [Seen()]), *seen[first : bisect_right(times, until)]]

    def last_call(self, place: Place, queue: Queue, until: int) -> int | None:
        """Return the time of the last call about a queue by an instant; None: there was none."""
        times = self._times.get((place, queue), [])
        index = bisect_right(times, until)
        return times[index - 1] if index else None


def _commit(event: Event) -> dict[Queue, dict[str, int]]:
    if event.get("code") or event["offset"] < 0:
        return {}
    changes = {"commit": event["offset"], "commit_at": event.time, "called_at": event.time}
    return {queue_of(event.fields): changes | _newest(event)}


def _pull(event: Event) -> dict[Queue, dict[str, int]]:
    changes = {"pull": event["last_offset"], "pull_at": event["last_time"]} | _newest(event)
    if event.get("commit_offset", -1) >= 0 and event.get("code") in SERVED:
        changes |= {"commit": event["commit_offset"], "commit_at": event.time, "called_at": event["last_time"]}
    return {queue_of(event.fields): changes}


def _newest(event: Event) -> dict[str, int]:
    newest = event.get("broker_offset", -1)
    return {"newest": newest, "newest_at": event.time} if newest >= 0 else {}


def _locks(event: Event) -> dict[Queue, dict[str, int]]:
    if event.get("code"):
        return {}
    granted = (queue_of(part) for part in event["granted"])
    return {queue: {"lock_at": event.time} for queue in granted if queue[1] == event["broker"]}


_CALLS = {"UPDATE_CONSUMER_OFFSET": _commit, "PULL_MESSAGE": _pull, "LOCK_BATCH_MQ": _locks}
