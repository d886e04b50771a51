"""The processes of a running job, to kill them: its JVM and its Python workers."""

import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from streaming.pipeline.spark_properties import WORKER_DAEMON
from tests.live.commands import Command
from tests.support.processes import command_of, descendants, parents
from tests.support.waiting import until

SECONDS_MAX = 400


def kill_jvm(job: Command) -> bool:
    """Kill the JVM of the job (SIGKILL); return whether it had one."""
    jvms = [pid for pid in descendants(job.pid) if b"".join(command_of(pid)[:1]).endswith(b"/java")]
    for jvm in jvms:
        os.kill(jvm, signal.SIGKILL)
    return bool(jvms)


def kill_workers(job: Command, seconds: float) -> int:
    """Kill all Python workers of the job, wherever they are, and wait until it has ended a batch since.

    Return how often the job was started again because it had ended: on a busy machine it may lose them many times.
    """
    ended, again, deadline = job.said_now().count(" batch "), 0, time.monotonic() + seconds
    killed = False
    while not killed or job.said_now().count(" batch ") <= ended:
        assert time.monotonic() < deadline, job.said_now()
        for worker in () if killed else workers_of(job.pid):
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
                killed = True
        if not job.is_running:
            job.start()
            again += 1
            ended = 0
        time.sleep(0.1)
    return again


def kill_busy_worker(job: Command) -> None:
    """Kill the workers until a query loses one, and wait for the end of its next batch.

    One that waits for work is replaced without notice.
    """
    before = _lost(job)
    while _lost(job) == before:
        _wait_until(job, lambda: workers_of(job.pid) or _lost(job) != before)
        for worker in workers_of(job.pid):
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        time.sleep(0.5)
    query = _lost(job)[-1]
    ended = job.said_now().count(f"{query} batch")
    _wait_until(job, lambda: job.said_now().count(f"{query} batch") > ended)


def _lost(job: Command) -> list[str]:
    """The names of the queries that were started again for a killed worker."""
    return re.findall(r"the (\w+) query lost a Python worker", job.said_now())


def workers_of(pid: int) -> list[int]:
    """The Python workers below a process: forked by a daemon, which has the same command line."""
    parent_of = parents()
    daemons = {one for one in descendants(pid) if WORKER_DAEMON.encode() in command_of(one)}
    return [one for one in daemons if parent_of.get(one) in daemons]


def _wait_until(job: Command, holds: Callable[[], object]) -> None:
    def condition() -> object:
        assert job.is_running, job.said_now()
        return holds()

    until(condition, SECONDS_MAX, job.said_now)
