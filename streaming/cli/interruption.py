"""Wait for the tables, and end at Ctrl-C or SIGTERM: a command ends its work, at the latest after a grace period.

A signal handler of Python runs in the main thread, which may be busy or wait for Kafka. So the handler does nothing,
and Python writes the signal's number into a pipe, from whichever thread has got it; a thread of its own reads it, tells
the workers, and ends the process if that takes too long. (Setting an event in the handler would interrupt whatever
the main thread is doing, even while it holds the event's own lock. Blocking the signals and waiting for them does not
work either: a library's thread that was started before and does not block them would end the process.)
"""

import asyncio
import os
import select
import signal
import time
from collections.abc import Callable, Coroutine
from functools import partial
from threading import Event as Flag
from threading import Thread
from typing import Any, Self

import structlog

from streaming.base.health import Task
from streaming.base.place import Place

_LOOK_SECONDS = 1.0


def wait_for_tables(exist: Callable[[], bool], tables: Place, task: Task, stopping: Flag | None = None) -> None:
    """Wait until the tables exist, or the process is to end; and say so if that is not now.

    Args:
        exist: whether those that are needed exist.
        tables: their folder, for the message.
        task: what can't be done meanwhile.
        stopping: set when the process is to end; None: a signal ends it by itself.
    """
    if exist():
        return
    task.failed("there are no tables yet")
    structlog.get_logger().info(f"waiting for the tables in {tables}, which `rebalance-watch run` creates")
    while not exist() and not pause(_LOOK_SECONDS, stopping):
        pass


def pause(seconds: float, stopping: Flag | None = None) -> bool:
    """Wait for some seconds, or until the process is to end; return whether it is."""
    if stopping is not None:
        return stopping.wait(seconds)
    time.sleep(seconds)
    return False


GRACE_SECONDS = 8.0
"""The longest time that a collector may take to its end; with the rest of its process less than 10 s."""
_WARN_SECONDS_MAX = 1.0
"""Standard error may be a pipe that nobody reads."""


class Interruption:
    """The first SIGINT or SIGTERM; a second one ends the process at once."""

    def __init__(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """Prepare; the signals are taken over by entering the context, in the main thread."""
        self.flag = Flag()
        """Set by the first signal."""
        self._grace_seconds = grace_seconds
        self._number = 0
        self._tell: Callable[[], object] | None = None
        self._reader, self._writer = -1, -1
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer)
        for number in (signal.SIGINT, signal.SIGTERM):
            self._former[number] = signal.signal(number, lambda *_: None)
        Thread(target=self._wait, name="interruption", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self.flag.is_set():  # else the grace period goes on: the end of the interpreter may hang, too
            signal.set_wakeup_fd(-1)
            for number, former in self._former.items():
                signal.signal(number, former)
            os.close(self._writer)

    def at_most(self, seconds: float) -> float:
        """Return how long a last step may take: without limit if there was no signal."""
        return seconds if self.flag.is_set() else float("inf")

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in a loop whose signal handlers are called by this; until it has one, a signal cancels it."""
        with asyncio.Runner(loop_factory=partial(_Loop, self)) as runner:
            loop = runner.get_loop()

            async def cancellable() -> None:
                task = asyncio.current_task(loop)
                assert task is not None
                self.call(partial(loop.call_soon_threadsafe, task.cancel))
                await main

            try:
                runner.run(cancellable())
            except asyncio.CancelledError:
                raise SystemExit(128 + self._number) from None
            finally:
                self.call(None)

    def call(self, tell: Callable[[], object] | None) -> None:
        """Call this at the first signal, in another thread; at once if it has come already."""
        self._tell = tell
        if tell is not None and self.flag.is_set():
            tell()

    def _wait(self) -> None:
        first = os.read(self._reader, 1)
        if not first:  # the end of the context
            os.close(self._reader)
            return
        [self._number] = first
        self.flag.set()
        if (tell := self._tell) is not None:
            tell()
        if not select.select([self._reader], [], [], self._grace_seconds)[0]:
            warning = f"not ended {self._grace_seconds:g} s after a signal: ending without what is not written yet"
            warn = Thread(target=structlog.get_logger().warning, args=(warning,), daemon=True)
            warn.start()
            warn.join(_WARN_SECONDS_MAX)
        os._exit(128 + self._number)


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that leaves the signals to `Interruption`."""

    def __init__(self, interruption: Interruption) -> None:
        super().__init__()
        self._interruption = interruption

    def add_signal_handler(self, _sig: int, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        self._interruption.call(partial(self.call_soon_threadsafe, callback, *args))

    def remove_signal_handler(self, _sig: int) -> bool:
        self._interruption.call(None)
        return True
