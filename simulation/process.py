"""Processes in virtual time: coroutines that can be frozen or killed between any two steps."""

from collections.abc import Awaitable, Generator
from enum import Enum, auto
from functools import partial
from typing import Generic, TypeVar

from simulation.scheduler import Call, Scheduler

T = TypeVar("T")


class Promise(Generic[T]):
    """A value or an error that comes later. Only the first outcome counts."""

    __slots__ = ("_error", "_then", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._error: Exception | None = None
        self._then: Call | None = None

    def resolve(self, value: T) -> None:
        """Set the value."""
        if not self.done:
            self._value = value
            self._finish()

    def reject(self, error: Exception) -> None:
        """Set the error."""
        if not self.done:
            self._error = error
            self._finish()

    def then(self, call: Call) -> None:
        """Run a call when there is an outcome; only one call may wait."""
        self._then = call

    def __await__(self) -> Generator["Promise[T]", None, T]:
        if not self.done:
            yield self
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # T may itself be None, so there is no test for it

    def _finish(self) -> None:
        self.done = True
        then, self._then = self._then, None  # or the waiting call and the promise would keep each other alive
        if then is not None:
            then()


class ProcessState(Enum):
    """The state of a process in the operating system."""

    RUNNING = auto()
    FROZEN = auto()
    """SIGSTOP: its connections stay open, and incoming data waits."""
    DEAD = auto()


class Process:
    """Runs coroutines and calls while the process is alive. Times and delays are microseconds."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.state = ProcessState.RUNNING
        self._waiting: list[Call] = []

    def run(self, call: Call) -> None:
        """Run a call: at once if running, after `thaw` if frozen, never if dead."""
        if self.state is ProcessState.RUNNING:
            call()
        elif self.state is ProcessState.FROZEN:
            self._waiting.append(call)

    def after(self, delay: int, call: Call) -> None:
        """Run a call after a delay; microseconds."""
        self.scheduler.after(delay, partial(self.run, call))

    def spawn(self, task: Awaitable[None]) -> None:
        """Run a coroutine to its first wait, and resume it after each wait."""
        self._step(task.__await__())

    def sleep_until(self, time: int) -> Promise[None]:
        """Wait for a time."""
        promise: Promise[None] = Promise()
        self.scheduler.at(time, partial(self.run, partial(promise.resolve, None)))
        return promise

    def freeze(self) -> None:
        """Stop the process (SIGSTOP)."""
        self.state = ProcessState.FROZEN

    def thaw(self) -> None:
        """Continue the process, and run the calls that arrived in the meantime."""
        self.state = ProcessState.RUNNING
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self.scheduler.after(0, partial(self.run, call))

    def kill(self) -> None:
        """End the process at once, between two steps of its coroutines."""
        self.state = ProcessState.DEAD
        self._waiting.clear()

    def _step(self, running: Generator[Promise[object], None, None]) -> None:
        try:
            promise = next(running)
        except StopIteration:
            return
        promise.then(partial(self.run, partial(self._step, running)))
