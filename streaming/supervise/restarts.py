"""When a program that ended is started again: after growing pauses, and after a long one while it keeps failing.

What has once run well and only waits for a server does not keep failing: it is tried each minute until that is back.
"""

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
    """With so many failures within `within_ms` a program keeps failing, until it has settled."""
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
        """Whether it has failed too often, and has not settled since."""

    def failed(self, started: int, now: int, *, server_is_away: bool = False) -> int:
        """Record a failure and return the pause until the next start, milliseconds.

        Args:
            started: when it was started, milliseconds of any clock that does not go back.
            now: when it ended, by the same clock.
            server_is_away: whether it ended because a server did not answer.
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
