"""Spark's daemon of Python workers, of which the first two are killed while they start.

One before it has sent its process id to the JVM, one right after it, which no kill from outside can be made to meet.
"""

import os
import signal
from pathlib import Path

from pyspark import daemon

FOLDER = "DYING_DAEMON_FOLDER"
write_int = daemon.write_int


def die_once(moment: str) -> None:
    try:
        (Path(os.environ[FOLDER]) / f"died-{moment}").touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def write_int_and_die(value: int, stream) -> None:
    is_of_worker = value == os.getpid()
    if is_of_worker:
        die_once("before")
    write_int(value, stream)
    if is_of_worker:
        stream.flush()
        die_once("after")


if __name__ == "__main__":
    daemon.write_int = write_int_and_die
    daemon.manager()
