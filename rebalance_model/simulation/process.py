"""Processes in virtual time: coroutines that can be frozen, and killed, between any two of their steps."""

from collections.abc import Awaitable, Generator
from enum import Enum, auto
from functools import partial
from typing import Generic, TypeVar

from rebalance_model.simulation.scheduler import Call, Scheduler

T = TypeVar("T")


class Promise(Generic[T]):
    """A value that comes later, or an error. The first outcome counts."""

    __slots__ = ("_error", "_then", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._error: Exception | None = None
        self._then: Call | None = None

    def resolve(self, value: T) -> None:
        """Here it is."""
        if not self.done:
            self._value = value
            self._finish()

    def reject(self, error: Exception) -> None:
        """It won't come."""
        if not self.done:
            self._error = error
            self._finish()

    def then(self, call: Call) -> None:
        """Run this when there is an outcome; one may wait."""
        self._then = call

    def __await__(self) -> Generator["Promise[T]", None, T]:
        if not self.done:
            yield self
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # T may itself be None, so there is no test for it

    def _finish(self) -> None:
        self.done = True
        then, self._then = self._then, None  # or who waits and what is waited for would hold each other for ever
        if then is not None:
            then()


class Life(Enum):
    """What an operating system makes of a process."""

    RUNNING = auto()
    FROZEN = auto()
    """SIGSTOP: its connections stay, what comes in waits."""
    DEAD = auto()


class Process:
    """Runs coroutines, and whatever else is to run in it, as long as it lives."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.life = Life.RUNNING
        self._waiting: list[Call] = []

    def run(self, call: Call) -> None:
        """Run a call; of a frozen process when it goes on, of a dead one never."""
        if self.life is Life.RUNNING:
            call()
        elif self.life is Life.FROZEN:
            self._waiting.append(call)

    def after(self, delay: int, call: Call) -> None:
        """Run a call after a delay; microseconds."""
        self.scheduler.after(delay, partial(self.run, call))

    def spawn(self, task: Awaitable[None]) -> None:
        """Run a coroutine up to its first wait, and on whenever that is over."""
        self._step(task.__await__())

    def sleep_until(self, time: int) -> Promise[None]:
        """Wait for a time."""
        promise: Promise[None] = Promise()
        self.scheduler.at(time, partial(self.run, partial(promise.resolve, None)))
        return promise

    def freeze(self) -> None:
        """Stop."""
        self.life = Life.FROZEN

    def thaw(self) -> None:
        """Go on, with all that has come in meanwhile."""
        self.life = Life.RUNNING
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self.scheduler.after(0, partial(self.run, call))

    def kill(self) -> None:
        """End, in the middle of whatever it was doing."""
        self.life = Life.DEAD
        self._waiting.clear()

    def _step(self, running: Generator[Promise[object], None, None]) -> None:
        try:
            promise = next(running)
        except StopIteration:
            return
        promise.then(partial(self.run, partial(self._step, running)))
