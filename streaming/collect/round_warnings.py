"""Warnings that would come again in each round: each is printed once, and few in a round."""

from typing import Any

_KEPT = 1_000
"""Different warnings that are known; beyond that all are forgotten, and may come again."""
_IN_A_ROUND = 20


class RoundWarnings:
    """Prints each warning once: their texts may come from anybody, so there may be any number of them."""

    def __init__(self, log: Any) -> None:
        """Print to a structlog logger."""
        self._log = log
        self._printed: set[str] = set()
        self._in_round = 0

    def begin_round(self) -> None:
        """Begin another round, and say how many warnings of the last one were not printed."""
        if (more := self._in_round - _IN_A_ROUND) > 0:
            self._log.warning("further warnings of this round were not printed", number=more)
        self._in_round = 0

    def warn(self, event: str, *, exc_info: BaseException | None = None, **values: object) -> None:
        """Print a warning, unless an equal one was.

        Args:
            event: what happened.
            exc_info: the exception behind it, for its traceback at level debug; it does not count.
            values: more about it.
        """
        key = f"{event} {values}"
        if key in self._printed:
            return
        if len(self._printed) >= _KEPT:
            self._printed.clear()
        self._printed.add(key)
        if self.say(event, **values) and exc_info is not None:
            self._log.debug(event, exc_info=exc_info)

    def say(self, event: str, **values: object) -> bool:
        """Print a warning, unless there were too many in this round; return whether it was printed."""
        self._in_round += 1
        if self._in_round > _IN_A_ROUND:
            return False
        self._log.warning(event, **values)
        return True
