"""A program as a child process: its lines and its end are put into a queue; a probe says whether it does its work.

Each answers its probe on a Unix socket of its own. A socket's file needs no port that could be in use, and is there
whether or not [health] gives the process a port.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, NamedTuple, TypeAlias

import httpx
import msgspec

from streaming.base.errors import UserError
from streaming.base.health import READY, ProcessHealth, TaskHealth
from streaming.base.times import now_ms

_ANSWER_SECONDS_MAX = 2.0


class ChildrenHealth:
    """The health of several processes, asked for when it is wanted: ready if all of them are."""

    def __init__(self, sockets: Mapping[str, Path], down: Callable[[str], str | None] = lambda _: None) -> None:
        """Know the socket of each process by its name.

        ``down`` returns why a process does not run, or ended when it last did; None: it has not ended.
        """
        self._sockets = sockets
        self._down = down
        self._answered: dict[str, int] = {}
        self._begun = now_ms()

    def now(self) -> ProcessHealth:
        """Ask all processes; return their tasks as ``process: task``, and one for each process without an answer."""
        with ThreadPoolExecutor(len(self._sockets)) as asking:
            tasks = tuple(task for of_one in asking.map(self._tasks, self._sockets) for task in of_one)
        return ProcessHealth(all(one.ready for one in tasks), tasks)

    def _tasks(self, name: str) -> list[TaskHealth]:
        # No TLS: otherwise each question would read all certificate authorities, 20 ms of processor time.
        transport = httpx.HTTPTransport(uds=str(self._sockets[name]), verify=False)
        try:
            with httpx.Client(transport=transport, timeout=_ANSWER_SECONDS_MAX) as client:
                answer = client.get(f"http://{name}{READY}").content
        except httpx.TimeoutException:
            return [self._silent(name, f"{name} has not answered within {_ANSWER_SECONDS_MAX:g} s")]
        except httpx.TransportError:
            return [self._silent(name, self._down(name) or f"{name} does not answer: it is starting")]
        self._answered[name] = now_ms()
        tasks = msgspec.json.decode(answer, type=ProcessHealth).tasks
        return [msgspec.structs.replace(task, task=f"{name}: {task.task}") for task in tasks]

    def _silent(self, name: str, reason: str) -> TaskHealth:
        last = self._answered.get(name)
        age_ms = now_ms() - (self._begun if last is None else last)
        return TaskHealth(name, ready=False, time=last, age_ms=age_ms, reason=reason)


_REST_SECONDS = 2.0
"""The time for which the last lines are waited for after the end: a grandchild may keep the pipe open for longer."""


class Program(NamedTuple):
    """A command with the name under which it is shown."""

    name: str
    command: Sequence[str]
    grace_seconds: float | None = None
    """The longest time that it may take to its end; None: as long as the supervisor lets every program."""


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
