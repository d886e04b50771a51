"""Wait for the tables: a long-running command may be started before the job has created them."""

import time
from collections.abc import Callable
from threading import Event as Flag

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
