"""When a program that ended is started again: after growing pauses, and not at all if it keeps failing."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RestartPolicy:
    """The pauses between starts, and how many failures are too many; milliseconds."""

    first_ms: int = 1_000
    """The pause after a failure; it doubles with each further one."""
    longest_ms: int = 60_000
    settled_ms: int = 300_000
    """After running for this long a program gets the first pause again."""
    failures_max: int = 5
    """With so many failures within `within_ms` a program is not started again."""
    within_ms: int = 600_000


class Restarts:
    """The failures of one program."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._pause_ms = policy.first_ms
        self._failures: list[int] = []

    def failed(self, started: int, now: int) -> int | None:
        """Record a failure and return the pause until the next start; None if the program keeps failing.

        Args:
            started: when it was started, milliseconds of any clock that does not go back.
            now: when it ended, by the same clock.
        """
        policy = self._policy
        self._failures = [time for time in self._failures if time > now - policy.within_ms] + [now]
        if len(self._failures) >= policy.failures_max:
            return None
        if now - started >= policy.settled_ms:
            self._pause_ms = policy.first_ms
        pause_ms, self._pause_ms = self._pause_ms, min(2 * self._pause_ms, policy.longest_ms)
        return pause_ms
