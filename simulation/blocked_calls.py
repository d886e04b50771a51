"""Calls of a simulated listener that hang, until all of them are released."""

from functools import partial

from simulation.process import Process, Promise


class BlockedCalls:
    """The calls that hang in one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._promises: list[Promise[None]] = []

    async def wait(self) -> None:
        """Hang until the release."""
        promise: Promise[None] = Promise()
        self._promises.append(promise)
        await promise

    def release(self) -> None:
        """Let each of them continue in its process, in the order in which they began to hang."""
        promises, self._promises = self._promises, []
        for promise in promises:
            self._process.run(partial(promise.resolve, None))
