"""The child's side: end when the supervisor asks for it, or is gone.

The standard input of a supervised process is a pipe that nobody writes to. The supervisor closes it to end the process,
and the kernel closes it when the supervisor itself is killed: no process is left over. Other signals of a parent's end
(prctl's PDEATHSIG) exist on Linux only, and follow the parent's thread instead of its process.
"""

import os
import select
import signal
import time
from threading import Thread

_READ_BYTES = 4096
_REPEAT_SECONDS = 120.0
"""After this time the process is asked again, which ends most commands at once."""


def stop_with_supervisor() -> None:
    """Send SIGTERM to this process when its standard input ends."""
    Thread(target=_wait, name="supervisor", daemon=True).start()


def _wait() -> None:
    while os.read(0, _READ_BYTES):
        pass
    for output in (1, 2):
        if not _is_read(output):
            _discard(output)
    while True:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_REPEAT_SECONDS)


def _is_read(descriptor: int) -> bool:
    """Return whether a pipe has a reader; anything else has."""
    poller = select.poll()
    poller.register(descriptor, 0)
    return not any(event & select.POLLERR for _, event in poller.poll(0))


def _discard(descriptor: int) -> None:
    """Write to nowhere from now on: a write to a pipe without reader would fail in the middle of the clean end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
