"""Read answers within a budget of processor time: for each answer, each subject, each server, and for a whole round.

One answer has `limits.ANSWER_SECONDS` (`fastjson.Deadline`). The clients of a group may be many, and answer what takes
that long: so the answers about one subject share a part of the interval. A subject is a group's clients, what brokers
know of a group, or else a topic or a server. All servers and all subjects share the budget of a round: what one of them
takes beyond its share is its debt, and while it has one only its small answers are read (deficit round robin). A large
answer is read in a thread, so that the event loop is not blocked.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from streaming.base.limits import (
    ANSWER_AT_ONCE_BYTES,
    ANSWER_SECONDS,
    GROUP_READING_SHARE,
    READING_QUEUE_SECONDS,
    ROUND_READING_SHARE,
)
from streaming.collect.client import UnreadableError
from streaming.collect.fastjson import FastjsonError
from streaming.collect.frames import LARGE_BYTES

T = TypeVar("T")

_LITTLE_SECONDS = 0.1
_BYTES_A_SECOND = 10_000_000
"""Approximate speed of reading an answer's text."""


class _Accounts:
    """The seconds that each one has taken in this round, and owes from former ones."""

    def __init__(self) -> None:
        self.taken: defaultdict[str, float] = defaultdict(float)
        self._debts: dict[str, float] = {}
        self._claims: set[str] = set()

    def begin_round(self, budget: float, *, is_short: bool) -> None:
        """Give each that wanted more than a little an equal share; none owes anything if there was enough."""
        share = budget / max(1, len(self._claims))
        taken = {name: self._debts.get(name, 0.0) + self.taken[name] for name in self._claims}
        owed = self._debts | taken if is_short else {}
        self._debts = {name: debt - share for name, debt in owed.items() if debt > share}
        self._claims.clear()
        self.taken.clear()

    def claim(self, name: str) -> bool:
        """Note that one wants more than a little; return whether it owes nothing."""
        self._claims.add(name)
        return name not in self._debts


class Reading:
    """The processor time that reading answers has taken in this round."""

    def __init__(self, interval_seconds: float) -> None:
        self._subject_max = max(1.0, interval_seconds * GROUP_READING_SHARE)
        self._round_max = max(1.0, interval_seconds * ROUND_READING_SHARE)
        self._subjects, self._servers = _Accounts(), _Accounts()
        self._taken = 0.0
        self._queued = 0.0
        """Seconds that the answers take which wait for the thread, about."""
        self._thread = ThreadPoolExecutor(1, "read-answer")

    def begin_round(self) -> None:
        """Begin another round."""
        for accounts in (self._subjects, self._servers):
            accounts.begin_round(self._round_max, is_short=self._taken > self._round_max)
        self._taken = 0.0

    def close(self) -> None:
        """Read no further answers."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def read(self, server: str, subject: str, what: Callable[[bytes], T], body: bytes) -> T:
        """Read a server's answer, which takes the budget of its subject, too.

        Raises:
            UnreadableError: it can't be read, or the time for it is over.
        """
        size = len(body)
        self._check(server, subject, size)
        if size <= ANSWER_AT_ONCE_BYTES:
            return self._timed(server, subject, what, body)
        seconds = min(ANSWER_SECONDS, size / _BYTES_A_SECOND)
        if size > LARGE_BYTES and self._queued > READING_QUEUE_SECONDS:
            raise UnreadableError("too many large answers wait to be read")
        self._queued += seconds
        try:
            run = asyncio.get_running_loop().run_in_executor
            return await run(self._thread, self._timed, server, subject, what, body)
        finally:
            self._queued -= seconds

    def _check(self, server: str, subject: str, size: int) -> None:
        taken = self._subjects.taken[subject]
        if taken > self._subject_max:
            msg = f"reading the answers about {subject} takes more than {self._subject_max:.1f} s in this round"
            raise UnreadableError(msg)
        is_little = size <= ANSWER_AT_ONCE_BYTES and taken <= _LITTLE_SECONDS
        if is_little and self._taken <= self._round_max:
            return
        if is_little:
            share = self._round_max / max(1, len(self._servers.taken))
            if self._servers.taken[server] <= share:
                return
        elif self._servers.claim(server) & self._subjects.claim(subject) and self._taken <= self._round_max:
            return
        raise UnreadableError(f"reading all answers takes more than {self._round_max:.1f} s in this round")

    def _timed(self, server: str, subject: str, what: Callable[[bytes], T], body: bytes) -> T:
        began = time.thread_time()
        try:
            return what(body)
        except FastjsonError as error:
            raise UnreadableError(str(error)) from None
        except Exception as error:  # an answer may be anything: what reads it must not end the collector
            raise UnreadableError(repr(error)) from error
        finally:
            taken = time.thread_time() - began
            self._taken += taken
            self._servers.taken[server] += taken
            self._subjects.taken[subject] += taken
