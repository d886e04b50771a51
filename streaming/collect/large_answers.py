"""Which answers are large: they are asked for one at a time, so that no other answer of the same server waits for many.

A server answers in one connection, one frame after the other, and a hundred frames of 10 MB take it and the network
seconds. So who has given a large answer is asked after the others, for one at a time, at a limited pace.
"""

import time
from typing import NamedTuple

from streaming.base.limits import LARGE_ANSWERS_BYTES_A_SECOND, LARGE_ANSWERS_KEPT

_KEPT_SECONDS = 600.0
"""A small answer does not end it at once: large ones may be given every other time."""


class AnswerSource(NamedTuple):
    """What an answer is about: a group at a server, or one of its clients."""

    address: str
    group: str
    client: str = ""


class LargeAnswers:
    """The sources that have lately given a large answer."""

    def __init__(self) -> None:
        self._last: dict[AnswerSource, float] = {}
        """When each has given the last one."""
        self._busy_until: dict[str, float] = {}
        """By address, until when its last large answers keep a server busy, at the pace that is asked of it."""

    def note(self, source: AnswerSource, size: int) -> None:
        """Note a large answer."""
        now = time.monotonic()
        self._last.pop(source, None)
        self._last[source] = now
        busy_until = max(now, self._busy_until.get(source.address, 0.0))
        self._busy_until[source.address] = busy_until + size / LARGE_ANSWERS_BYTES_A_SECOND
        if len(self._last) > LARGE_ANSWERS_KEPT:
            del self._last[next(iter(self._last))]
        if len(self._busy_until) > LARGE_ANSWERS_KEPT:
            self._busy_until.clear()

    def is_large(self, source: AnswerSource) -> bool:
        """Return whether a source has lately given a large answer."""
        at = self._last.get(source) if self._last else None
        if at is not None and time.monotonic() - at > _KEPT_SECONDS:
            del self._last[source]
        return source in self._last

    def pause(self, address: str) -> float:
        """Return for how many seconds more a server is busy with large answers, at the pace that is asked of it."""
        return self._busy_until.get(address, 0.0) - time.monotonic()
