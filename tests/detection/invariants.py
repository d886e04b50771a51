"""Invariants of every seed, beside precision and recall (issue 49).

No group is shown OK while one of its queues has had messages, and its commit has not advanced, for ten minutes. Where
hook or polls alone rightly warn, both together do not show the group OK.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import GroupSnapshot
from tests.detection.conditions import SECOND
from tests.detection.snapshot import Snapshot

STANDS = 600 * SECOND
SETTLED = 2 * SECOND
"""The truth is read once a second."""


@dataclass
class Health:
    """The health of a group over time, by one kind of telemetry."""

    times: list[int] = field(default_factory=list)
    values: list[str] = field(default_factory=list)

    def add(self, now: int, row: GroupSnapshot) -> None:
        """Record a row of the group."""
        self.times.append(now)
        self.values.append(row.health)

    def is_ok(self, now: int) -> bool:
        """Return whether the group was shown OK at a time, and has been for `SETTLED`."""
        index = bisect_right(self.times, now)
        return index > 0 and self.values[index - 1] == "OK" and now - self.times[index - 1] >= SETTLED


@dataclass
class Standing:
    """The queues of a group whose commit does not advance though messages wait, by the truth."""

    since: dict[MessageQueue, tuple[int, int]] = field(default_factory=dict)
    """By queue, its commit, and since when it has stood."""
    long: list[tuple[int, MessageQueue, bool]] = field(default_factory=list)
    """The times of the samples in which a queue had stood for `STANDS`, the queue, and whether it was ever committed:
    a hook knows a queue only by calls."""

    def add(self, snapshot: Snapshot) -> None:
        """Record a sample. Members that broadcast keep their offsets themselves."""
        now = snapshot.now
        for mq in () if snapshot.broadcasts else snapshot.routed:
            commit, before = snapshot.committed(mq), self.since.get(mq)
            if before is None or before[0] != commit or snapshot.lag(mq) <= 0:
                self.since[mq] = commit, now
            elif now - before[1] >= STANDS:
                self.long.append((now, mq, commit >= 0))

    def shown_ok(self, health: Health, telemetry: str) -> list[str]:
        """Return the queues that stand while their group is shown OK."""
        times = ((mq, now) for now, mq, committed in self.long if committed or telemetry != "hook")
        ok = dict.fromkeys(mq for mq, now in times if health.is_ok(now))
        return [f"{mq} stands, and its group is shown OK" for mq in ok]


@dataclass(frozen=True)
class Warned:
    """A right incident, more than an info, by hook or polls alone."""

    name: str
    opened: int
    resolved: int | None


def lost_by_both(warned: Iterable[Warned], health: Health) -> Iterator[str]:
    """Yield the incidents during which the group is shown OK by both sources for a minute, or until the incident ends.

    Another code than that of the one source may say it: both know more of the cause.
    """
    for incident in warned:
        due = incident.opened + 60 * SECOND
        lasts = incident.resolved is None or incident.resolved > due
        if lasts and health.is_ok(due) and health.is_ok(incident.opened + 30 * SECOND):
            yield f"{incident.name}: by both the group is shown OK"
