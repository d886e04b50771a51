"""Whether the supervised processes do their work: each answers its probe on a Unix socket of its own.

A socket's file needs no port that could be in use, and is there whether or not [health] gives the process a port.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import msgspec

from streaming.base.health import READY, ProcessHealth, TaskHealth
from streaming.base.times import now_ms

_ANSWER_SECONDS_MAX = 2.0


class ChildrenHealth:
    """The health of several processes, asked for when it is wanted: ready if all of them are."""

    def __init__(self, sockets: Mapping[str, Path], down: Callable[[str], str | None] = lambda _: None) -> None:
        """Know the socket of each process by its name.

        Args:
            sockets: where each process answers.
            down: returns why a process does not run, or ended when it last did; None: it has not ended.
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
