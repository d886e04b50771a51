"""The supervisor: runs programs together, starts again what ends, and ends all at once.

One thread decides; each child's lines and end reach it through one queue, and so does the request to stop.

A program that ended is started again after growing pauses, and after a long one while it keeps failing. What has once
run well and only waits for a server does not keep failing: it is tried each minute until that is back.
"""

import signal
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from streaming.base.errors import UserError
from streaming.base.times import monotonic_ms
from streaming.supervise.child import Child, ChildEnd, Event, Line, Program, StopRequest


@dataclass(frozen=True)
class RestartPolicy:
    """The pauses between starts, and how many failures are too many; milliseconds."""

    first_ms: int = 1_000
    """The pause after a failure; it doubles with each further one."""
    longest_ms: int = 60_000
    settled_ms: int = 300_000
    """After running for this long a program gets the first pause again."""
    failures_max: int = 5
    """Failures within `within_ms` after which a program counts as failing, until it has settled."""
    within_ms: int = 600_000
    failing_ms: int = 300_000
    """The pause of a program that keeps failing for another reason than a server that does not answer."""


class Restarts:
    """The failures of one program."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._pause_ms = policy.first_ms
        self._failures: list[int] = []
        self._has_settled = False
        self.keeps_failing = False
        """True if it has failed too often, and has not settled since."""

    def failed(self, started: int, now: int, *, server_is_away: bool = False) -> int:
        """Record a failure and return the pause until the next start, milliseconds.

        ``started`` and ``now`` are milliseconds of any clock that does not go back.
        """
        policy = self._policy
        if now - started >= policy.settled_ms:
            self._pause_ms, self._has_settled, self.keeps_failing = policy.first_ms, True, False
        if not (server_is_away and self._has_settled):
            self._failures = [time for time in self._failures if time > now - policy.within_ms] + [now]
            self.keeps_failing |= len(self._failures) >= policy.failures_max
        if self.keeps_failing and not server_is_away:
            return policy.failing_ms
        pause_ms, self._pause_ms = self._pause_ms, min(2 * self._pause_ms, policy.longest_ms)
        return pause_ms


USAGE_CODE = 2
"""The exit code of a command with a wrong option or setting, for which a new start is of no use."""
GRACE_SECONDS = 30.0
"""The longest time that a program may take to its end, unless it has a time of its own: the job up to 7 s if a batch
hangs."""
AWAY_CODE = 4
"""The exit code of a command that a server did not answer."""
_LINES_KEPT = 20
_LINES_TOLD = 3

Say = Callable[[str, str], None]
"""Prints a line of a program: its name and the text."""
ErrorOf = Callable[[str], str | None]
"""Returns the error that a line reports, None if it reports none."""


def error_of(line: str) -> str | None:
    """Return the sentence after ``error: ``."""
    return line.removeprefix("error: ") if line.startswith("error: ") else None


class Supervisor:
    """Runs programs until `stop`, or until one of them says that a setting is wrong."""

    def __init__(
        self,
        programs: Sequence[Program],
        say: Say,
        policy: RestartPolicy = RestartPolicy(),
        *,
        error_of: ErrorOf = error_of,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        """Prepare the programs, in the order in which they are started."""
        self._programs = {program.name: program for program in programs}
        self._say, self._error_of = say, error_of
        self._grace_seconds = grace_seconds
        self._events: SimpleQueue[Event] = SimpleQueue()  # its put may be called in a signal handler
        self._restarts = {name: Restarts(policy) for name in self._programs}
        self._policy = policy
        self._due = dict.fromkeys(self._programs, 0)
        """When each program that does not run is started, milliseconds of the monotonic clock."""
        self._started: dict[str, int] = {}
        self._children: dict[str, Child] = {}
        self._last_lines = {name: deque[str](maxlen=_LINES_KEPT) for name in self._programs}
        self._down: dict[str, str] = {}
        """Why each program does not run, or ended when it last did; written by one thread, read by others."""

    def stop(self) -> None:
        """Stop everything; a second call kills what is left. Safe in a signal handler."""
        self._events.put(StopRequest())

    def down(self, name: str) -> str | None:
        """Return why a program does not run, or ended when it last did; None: it has not ended."""
        return self._down.get(name)

    def run(self) -> None:
        """Run the programs until `stop`; no child is left over, however this ends.

        Raises:
            UserError: a program has a wrong option or setting, or one kept failing when all were stopped.
        """
        try:
            while True:
                self._start_due()
                event = self._next(min(self._due.values(), default=None))
                if isinstance(event, StopRequest):
                    failing = self._failing()
                    break
                if isinstance(event, ChildEnd):
                    self._restart(event)
        finally:
            self._end()
        if failing:
            raise UserError(" ".join(failing))

    def _start_due(self) -> None:
        now = monotonic_ms()
        for name in [name for name, due in self._due.items() if due <= now]:
            del self._due[name]
            self._last_lines[name].clear()
            self._started[name] = now
            self._children[name] = Child(self._programs[name], self._events)

    def _next(self, until: int | None) -> Event | None:
        """Return the next event, after a line of a program was printed; None at ``until`` at the latest."""
        try:
            event = self._events.get(timeout=None if until is None else max(0, until - monotonic_ms()) / 1000)
        except Empty:
            return None
        if isinstance(event, Line):
            self._last_lines[event.name].append(event.text)
            self._say(event.name, event.text)
        elif isinstance(event, ChildEnd):
            del self._children[event.name]
        return event

    def _restart(self, ended: ChildEnd) -> None:
        """Schedule the next start of a program that ended; raise if one of its settings is wrong."""
        name, now, restarts = ended.name, monotonic_ms(), self._restarts[ended.name]
        if ended.code == USAGE_CODE:
            raise UserError(f"{name} can't run: {self._reason(name)}")
        pause_ms = restarts.failed(self._started[name], now, server_is_away=ended.code == AWAY_CODE)
        how, again = _how(ended.code), f"starting it again in {pause_ms / 1000:g} s"
        self._due[name] = now + pause_ms
        if not restarts.keeps_failing:
            self._down[name] = f"{name} {how}"
            self._say(name, f"{how}; {again}")
            return
        times, minutes = self._policy.failures_max, self._policy.within_ms / 60_000
        why = f"ended {times} times within {minutes:g} minutes; the last time it {how}: {self._reason(name)}"
        self._down[name] = f"{name} {why}"
        self._say(name, f"{why} The others run on; {again}")

    def _failing(self) -> list[str]:
        """Return a sentence about each program that keeps failing, and does not run well now."""
        settled_before = monotonic_ms() - self._policy.settled_ms
        return [
            self._down[name]
            for name, restarts in self._restarts.items()
            if restarts.keeps_failing and not (name in self._children and self._started[name] <= settled_before)
        ]

    def _reason(self, name: str) -> str:
        """Return the last error that a program printed, otherwise its last lines."""
        lines = self._last_lines[name]
        errors = [error for line in lines if (error := self._error_of(line)) is not None]
        return errors[-1] if errors else " / ".join([*lines][-_LINES_TOLD:]) or "it printed nothing."

    def _end(self) -> None:
        """End all programs at the same time: none needs another one for its end, and what comes later is still read."""
        graces = {name: self._programs[name].grace_seconds or self._grace_seconds for name in self._children}
        for child in self._children.values():
            child.stop()
        deadlines = {name: monotonic_ms() + round(seconds * 1000) for name, seconds in graces.items()}
        while self._children:
            name = min(self._children, key=deadlines.__getitem__)
            if isinstance(self._next(deadlines[name]), StopRequest):
                for child in self._children.values():
                    child.kill()
            elif monotonic_ms() >= deadlines[name]:
                self._say(name, f"has not ended within {graces[name]:g} s and is killed")
                self._children[name].kill()
                deadlines[name] += round(graces[name] * 1000)


def _how(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
