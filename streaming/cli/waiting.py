"""Wait for the tables: a long-running command may be started before the job has created them."""

import time
from collections.abc import Callable

import structlog

from streaming.base.health import Task
from streaming.base.place import Place

_LOOK_SECONDS = 1.0


def wait_for_tables(exist: Callable[[], bool], tables: Place, task: Task) -> None:
    """Wait until the tables exist, and say so if that is not now.

    Args:
        exist: whether those that are needed exist.
        tables: their folder, for the message.
        task: what can't be done meanwhile.
    """
    if exist():
        return
    task.failed("there are no tables yet")
    structlog.get_logger().info(f"waiting for the tables in {tables}, which `rebalance-watch run` creates")
    while not exist():
        time.sleep(_LOOK_SECONDS)
