"""Read answers within a budget of processor time: for each answer, for each subject, and for a whole round.

One answer has `limits.ANSWER_SECONDS` (`fastjson.Deadline`). The clients of a group may be many, and answer what takes
that long: so the answers about one subject share a part of the interval. A subject is a group's clients, what brokers
know of a group, or else a topic or a server. Beyond the budget of a round only those subjects are read on that took
little. A large answer is read in a thread, so that the event loop goes on.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from rebalance_model.observe.events import UNREADABLE
from streaming.base.limits import ANSWER_AT_ONCE_BYTES, GROUP_READING_SHARE, ROUND_READING_SHARE
from streaming.collect.client import RpcFailedError
from streaming.collect.fastjson import FastjsonError

T = TypeVar("T")

_LITTLE_SECONDS = 0.1


class UnreadableError(RpcFailedError):
    """An answer came, and can't be read."""

    def __init__(self, remark: str) -> None:
        super().__init__(UNREADABLE, remark)


class Reading:
    """The processor time that reading answers has taken in this round."""

    def __init__(self, interval_seconds: float) -> None:
        self._subject_max = max(1.0, interval_seconds * GROUP_READING_SHARE)
        self._round_max = max(1.0, interval_seconds * ROUND_READING_SHARE)
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._thread = ThreadPoolExecutor(1, "read-answer")

    def begin_round(self) -> None:
        """Begin another round."""
        self._spent.clear()

    async def read(self, subject: str, what: Callable[[bytes], T], body: bytes) -> T:
        """Read an answer.

        Args:
            subject: what it is about, whose budget it takes.
            what: returns the content of a body.
            body: the answer.

        Raises:
            UnreadableError: it can't be read, or the time for it is over.
        """
        self._check(subject)
        if len(body) <= ANSWER_AT_ONCE_BYTES:
            return self._timed(subject, what, body)
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._timed, subject, what, body)

    def _check(self, subject: str) -> None:
        spent = self._spent[subject]
        if spent > self._subject_max:
            msg = f"reading the answers about {subject} takes more than {self._subject_max:.1f} s in this round"
            raise UnreadableError(msg)
        if spent > _LITTLE_SECONDS and sum(self._spent.values()) > self._round_max:
            msg = f"reading all answers takes more than {self._round_max:.1f} s in this round"
            raise UnreadableError(msg)

    def _timed(self, subject: str, what: Callable[[bytes], T], body: bytes) -> T:
        began = time.thread_time()
        try:
            return what(body)
        except FastjsonError as error:
            raise UnreadableError(str(error)) from None
        except Exception as error:  # an answer may be anything: what reads it must not end the collector
            raise UnreadableError(repr(error)) from error
        finally:
            self._spent[subject] += time.thread_time() - began
