"""A program as a child process: its lines and its end are put into a queue."""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import IO, NamedTuple, TypeAlias

from streaming.base.errors import UserError

_REST_SECONDS = 2.0
"""How long the last lines are waited for after the end: a grandchild may keep the pipe open for longer."""


class Program(NamedTuple):
    """A command with the name under which it is shown."""

    name: str
    command: Sequence[str]
    grace_seconds: float | None = None
    """How long it may take to its end; None: as long as the supervisor lets every program."""
    writes: bool = True
    """Whether others read what it writes: it ends before them. Those that write nothing end together."""


class Line(NamedTuple):
    """A line that a child printed, without its end."""

    name: str
    text: str


class ChildEnd(NamedTuple):
    """The end of a child."""

    name: str
    code: int
    """The exit code; negative: the number of the signal that killed it."""


class StopRequest(NamedTuple):
    """The request to stop everything."""


Event: TypeAlias = Line | ChildEnd | StopRequest


class Child:
    """A running child, in a session of its own: Ctrl-C in the terminal reaches the supervisor alone."""

    def __init__(self, program: Program, events: SimpleQueue[Event]) -> None:
        """Start the program.

        Raises:
            UserError: it can't be started.
        """
        self._name, self._events = program.name, events
        try:
            self._process = subprocess.Popen(
                program.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(f"{program.command[0]} can't be started ({error.strerror}).") from None
        assert self._process.stdout is not None
        reader = Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        reader.start()
        Thread(target=self._wait, args=(reader,), daemon=True).start()

    def stop(self) -> None:
        """Ask the process to end, by the end of its standard input (see `parent`)."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def kill(self) -> None:
        """Kill the process with everything of its session."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _read(self, output: IO[bytes]) -> None:
        with output:
            for line in output:
                self._events.put(Line(self._name, line.decode("utf-8", "replace").rstrip("\r\n")))

    def _wait(self, reader: Thread) -> None:
        code = self._process.wait()
        reader.join(_REST_SECONDS)
        self.stop()
        self._events.put(ChildEnd(self._name, code))
