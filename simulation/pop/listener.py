"""The listener of consumers that pop, and its faults: it hangs, is slow, refuses a message, or acknowledges none."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from simulation.blocked_calls import BlockedCalls
from simulation.listener import ANY
from simulation.popped import Origin, PoppedMessage
from simulation.process import Process

Task = Callable[[], Awaitable[None]]


@dataclass
class GroupCode:
    """The code that all applications of a group share: a message that one of them refuses is refused by each."""

    poisons: bool = False
    """True if the next message is one to refuse."""
    queue: int = ANY
    """The queue of the message."""
    poisoned: set[Origin] = field(default_factory=set)

    def refuses(self, message: PoppedMessage) -> bool:
        """Return whether the message is to be refused."""
        origin = message.origin
        if self.poisons and message.reconsume_times == 0 and self.queue in (ANY, origin.queue.queue_id):
            self.poisons = False
            self.poisoned.add(origin)
        return origin in self.poisoned

    def poison(self, queue_id: int) -> None:
        """Refuse the next message, of one queue or of all (`ANY`)."""
        self.poisons, self.queue = True, queue_id

    def behave(self) -> None:
        """Refuse nothing any more."""
        self.poisons = False
        self.poisoned.clear()


class PopListener:
    """The listener of one client, and the threads that call it."""

    def __init__(self, process: Process, work: int, threads: int, code: GroupCode) -> None:
        self.code = code
        self.acknowledges = True
        self.hangs = False
        self.work = work
        """Microseconds for a message."""
        self._process = process
        self._usual_work = work
        self._free = threads
        self._backlog: list[Task] = []
        self._blocked = BlockedCalls(process)

    def hang(self) -> None:
        """Block from the next message on."""
        self.hangs = True

    def behave(self) -> None:
        """Work normally again; release blocked calls."""
        self.hangs, self.acknowledges, self.work = False, True, self._usual_work
        self.code.behave()
        self._blocked.release()

    def submit(self, task: Task) -> None:
        """Run a task on a thread, when one is free."""
        self._backlog.append(task)
        self._start()

    async def accepts(self, message: PoppedMessage) -> bool:
        """Return whether the message is consumed, once the listener has finished."""
        if self.hangs:
            await self._blocked.wait()
        await self._process.sleep_until(self._process.scheduler.now + self.work)
        return not self.code.refuses(message)

    def _start(self) -> None:
        while self._free and self._backlog:
            self._free -= 1
            self._process.spawn(self._run(self._backlog.pop(0)))

    async def _run(self, task: Task) -> None:
        await task()
        self._free += 1
        self._process.after(0, self._start)  # not within it, or a long backlog would be one deep call
