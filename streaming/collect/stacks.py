"""The stacks of a client's listener: which client is asked for them, and how its thread dump is read.

A listener that has not finished a message for long is asked each time for what it does (307 with jstackEnable). The
client then lists every thread. Kept are those that consume, each from the top down to what calls the listener. Java's
client (UtilAll.jstack) writes a line with the thread's name, id and state, and a line for each frame that begins with
the name again. Go's (push_consumer.go: GetConsumerRunningInfo) writes its goroutines as Go
itself does (runtime/pprof, debug=2): a line with number and state, and two for each frame, the call and its place.
"""

import re
from collections.abc import Iterable
from itertools import groupby, islice
from typing import TypeAlias

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import ProcessQueueInfo, ThreadStack
from streaming.base.limits import (
    LISTENER_QUEUES,
    LISTENER_QUEUES_OF_ALL,
    STACK_CHARACTERS,
    STACK_FRAME_CHARACTERS,
    STACK_FRAMES,
    STACK_THREADS,
)

Member: TypeAlias = tuple[str, str, str]
"""Cluster, group and client id."""

_REPEAT_MS = 600_000
"""A listener that still runs is asked again after this time."""
_QUEUES_MIN = 10
"""Queues of a client that are watched, however many clients there are."""
_ID = "TID: "
_STATE = " STATE: "
_CONSUMES = re.compile(r"\.ConsumeMessage\w+Service\$\w*ConsumeRequest\.run\(")
_GOROUTINE = "goroutine "
_GO_LISTENER = "/consumer.(*pushConsumer).consumeInner("
"""The frame of Go's client that calls the listener; its goroutine consumes even while it waits for a message."""


class Listeners:
    """The time since which each member's listener has finished nothing, by the collector's clock."""

    def __init__(self, after_ms: int) -> None:
        """Ask a listener after so many milliseconds without a finished message; 0: never."""
        self._after_ms = after_ms
        self._since: dict[Member, dict[MessageQueue, tuple[int | None, int]]] = {}
        self._asked: dict[Member, int] = {}

    def is_due(self, member: Member, now: int) -> bool:
        """Return whether a member is to be asked for its stacks at a time, epoch milliseconds."""
        if not self._after_ms:
            return False
        asked = self._asked.get(member, 0)
        long = [since for _, since in self._since.get(member, {}).values() if now - since >= self._after_ms]
        return bool(long) and (now - asked >= _REPEAT_MS or any(since >= asked for since in long))

    def note(self, member: Member, queues: Iterable[ProcessQueueInfo], now: int, *, asked: bool) -> None:
        """Take a member's answer at a time, epoch milliseconds; ``asked``: it was asked for its stacks."""
        if not self._after_ms:
            return
        if asked:
            self._asked[member] = now
        before, after = self._since.get(member, {}), dict[MessageQueue, tuple[int | None, int]]()
        busy = [queue for queue in queues if not queue.dropped and (queue.cached_count or queue.transaction_count)]
        if len(busy) > (room := self._room()):
            busy = sorted(busy, key=lambda queue: queue.mq not in before)[:room]  # the same as before
        for queue in busy:
            finished = queue.commit_offset if queue.consume_time is None else queue.consume_time
            same = queue.mq in before and before[queue.mq][0] == finished
            after[queue.mq] = before[queue.mq] if same else (finished, now)
        self._since[member] = after

    def _room(self) -> int:
        """Return how many queues of a client are watched: anybody's answer may have any number."""
        return max(_QUEUES_MIN, min(LISTENER_QUEUES, LISTENER_QUEUES_OF_ALL // max(1, len(self._since))))

    def keep(self, members: set[Member]) -> None:
        """Forget all members but these."""
        for known in (self._since, self._asked):
            for member in known.keys() - members:
                del known[member]


def is_whole_dump(dump: str) -> bool:
    """Return whether a client's dump has the threads of its process, and all of them are read."""
    return (_ID in dump or _GOROUTINE in dump) and len(dump) <= STACK_CHARACTERS


def listener_stacks(dump: str) -> list[ThreadStack]:
    """Return the threads that consume, in time that is linear in the text: it may come from anybody."""
    parts = groupby(dump[:STACK_CHARACTERS].splitlines(), key=bool)  # empty lines, and those between them
    threads = (_stack(first, lines) for has_text, (first, *lines) in parts if has_text)
    return list(islice((stack for stack in threads if stack is not None), STACK_THREADS))


def _stack(first: str, lines: list[str]) -> ThreadStack | None:
    if first.startswith(_GOROUTINE):
        return _goroutine(first, lines)
    name, is_thread, rest = first.rpartition(_ID)  # a name of 40 characters or more has no space behind it
    number, has_state, state = rest.partition(_STATE)
    state = state.strip()
    if not (is_thread and has_state and number.isdecimal() and state.replace("_", "").isalpha()):
        return None
    name = name.rstrip(" ")
    frames = [line.removeprefix(name).strip() for line in lines]
    service = next((place for place, frame in enumerate(frames) if _consumes(frame)), None)
    if service is None:
        return None
    kept = tuple(frame[:STACK_FRAME_CHARACTERS] for frame in frames[: service + 1][:STACK_FRAMES])
    return ThreadStack(name=name[:STACK_FRAME_CHARACTERS], state=state[:STACK_FRAME_CHARACTERS], frames=kept)


def _goroutine(first: str, lines: list[str]) -> ThreadStack | None:
    name, has_state, state = first.removesuffix(":").partition(" [")
    caller = next((place for place, line in enumerate(lines) if _GO_LISTENER in line), None)
    if caller is None or not has_state:
        return None
    calls, places = lines[: caller + 1 : 2], lines[1 : caller + 2 : 2]
    frames = [
        f"{call.rpartition('(')[0]}({place.strip().partition(' ')[0]})"  # a place ends with an address
        for call, place in zip(calls[:STACK_FRAMES], places, strict=False)
    ]
    kept = tuple(frame[:STACK_FRAME_CHARACTERS] for frame in frames)
    return ThreadStack(
        name=name[:STACK_FRAME_CHARACTERS], state=state.rstrip("]")[:STACK_FRAME_CHARACTERS], frames=kept
    )


def _consumes(frame: str) -> bool:
    """Return whether it is the frame of the consume service; a longer one is none, and is not searched."""
    return len(frame) <= STACK_FRAME_CHARACTERS and _CONSUMES.search(frame) is not None
