"""Health of a long-running process: when each of its tasks was last done, and why not since."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from streaming.base.times import now_ms

ALIVE, READY = "/healthz", "/readyz"
"""The paths of the probes."""
PROBE_SOCKET = "REBALANCE_WATCH_PROBE_SOCKET"
"""The variable with the Unix socket on which a supervised process answers its supervisor's probes."""


class TaskHealth(msgspec.Struct, frozen=True):
    """The health of a task."""

    task: str
    ready: bool
    time: int | None
    """When it was last done, epoch milliseconds; None: never since the start."""
    age_ms: int
    """The time since then, or since the start."""
    reason: str = ""
    """Why it is not ready, or what it waits for."""


class ProcessHealth(msgspec.Struct, frozen=True):
    """The health of a process: it is ready if all of its tasks are."""

    ready: bool
    tasks: tuple[TaskHealth, ...]


class Reporter(Protocol):
    """Knows the health of a process, or of several."""

    def now(self) -> ProcessHealth:
        """Return the health now."""
        ...


class Task:
    """A task that a process repeats, such as a round of polls; may be used by several threads."""

    def __init__(self, name: str, age_ms_max: int, clock: Callable[[], int]) -> None:
        self._name = name
        self._age_ms_max = age_ms_max
        self._clock = clock
        self._begun = clock()
        self._last: int | None = None
        self._failure = ""
        self._note = ""

    def done(self, note: str = "") -> None:
        """Record that the task has been done now; the note is shown until it is done again."""
        self._last, self._failure, self._note = self._clock(), "", note

    def failed(self, reason: str) -> None:
        """Record why the task could not be done; it becomes not ready only when it was last done too long ago."""
        self._failure = reason

    def health(self) -> TaskHealth:
        """Return the health of the task now."""
        last, failure = self._last, self._failure
        age = max(0, self._clock() - (self._begun if last is None else last))
        if last is not None and age <= self._age_ms_max:
            return TaskHealth(self._name, ready=True, time=last, age_ms=age, reason=self._note)
        since = "since the start" if last is None else f"for {age // 1000} s (at most {self._age_ms_max // 1000})"
        reason = failure or f"no {self._name} has finished {since}"
        return TaskHealth(self._name, ready=False, time=last, age_ms=age, reason=reason)


class Health:
    """The tasks of a process."""

    def __init__(self, clock: Callable[[], int] = now_ms) -> None:
        self._clock = clock
        self._tasks: list[Task] = []

    def task(self, name: str, age_ms_max: int) -> Task:
        """Add a task that must have been done within this time, in milliseconds."""
        self._tasks.append(Task(name, age_ms_max, self._clock))
        return self._tasks[-1]

    def remove(self, task: Task) -> None:
        """Forget a task that the process does not repeat any more."""
        self._tasks = [one for one in self._tasks if one is not task]

    def now(self) -> ProcessHealth:
        """Return the health of the process now."""
        tasks = tuple(task.health() for task in self._tasks)
        return ProcessHealth(all(one.ready for one in tasks), tasks)
