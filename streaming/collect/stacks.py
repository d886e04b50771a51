"""The stacks of a client's listener: which client is asked for them, and how its thread dump is read.

A listener that has not finished a message for long is asked once for what it does (307 with jstackEnable). The client
then lists every thread (org.apache.rocketmq.common.UtilAll.jstack): a line with its name, id and state, and a line for
each frame that begins with the name again. Kept are the threads that consume, each from the top down to the consume
service that calls the listener.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from streaming.base.limits import STACK_FRAME_CHARACTERS, STACK_FRAMES, STACK_THREADS

Member: TypeAlias = tuple[str, str, str]
"""Cluster, group and client id."""

_AGAIN_MS = 600_000
"""A listener that goes on for long is asked again after this time."""
_THREAD = re.compile(r"(?P<name>.*?) *TID: \d+ STATE: (?P<state>[A-Z_]+)\s*")
_CONSUMES = re.compile(r"\.ConsumeMessage\w+Service\$\w*ConsumeRequest\.run\(")


class Listeners:
    """Since when the listener of each member has finished nothing, by the collector's clock."""

    def __init__(self, after_ms: int) -> None:
        """Watch the members.

        Args:
            after_ms: milliseconds without a finished message after which a listener is asked; 0: never.
        """
        self._after_ms = after_ms
        self._since: dict[Member, dict[tuple[str, str, int], tuple[int, int]]] = {}
        self._asked: dict[Member, int] = {}

    def is_due(self, member: Member, now: int) -> bool:
        """Return whether a member is to be asked for its stacks.

        Args:
            member: the member.
            now: the time of the request, epoch milliseconds.
        """
        if not self._after_ms or now - self._asked.get(member, 0) < _AGAIN_MS:
            return False
        return any(now - since >= self._after_ms for _, since in self._since.get(member, {}).values())

    def note(self, member: Member, queues: Iterable[dict[str, Any]], now: int, *, asked: bool) -> None:
        """Take a member's answer.

        Args:
            member: the member.
            queues: its process queues, as the fields of ProcessQueueInfo.
            now: the time of the answer, epoch milliseconds.
            asked: whether it was asked for its stacks.
        """
        if not self._after_ms:
            return
        if asked:
            self._asked[member] = now
        before, self._since[member] = self._since.get(member, {}), {}
        for row in queues:
            if row["dropped"] or not row.get("cached_count", 0) + row.get("transaction_count", 0):
                continue
            mq, consumed = tuple(row["mq"].values()), row["consume_time"]
            same = mq in before and before[mq][0] == consumed
            self._since[member][mq] = before[mq] if same else (consumed, now)

    def keep(self, members: set[Member]) -> None:
        """Forget all members but these."""
        for known in (self._since, self._asked):
            for member in known.keys() - members:
                del known[member]


def listener_stacks(dump: str) -> list[dict[str, Any]]:
    """Return the threads that consume: `name`, `state` and `frames` of each, as the fields of ThreadStack."""
    return [stack for block in re.split(r"\r?\n\r?\n", dump) for stack in _stack(block)][:STACK_THREADS]


def _stack(block: str) -> Iterator[dict[str, Any]]:
    first, *lines = block.strip("\r\n").splitlines() or [""]
    thread = _THREAD.fullmatch(first)
    if thread is None:
        return
    name = thread["name"]
    frames = [line.removeprefix(name).strip() for line in lines]
    service = next((place for place, frame in enumerate(frames) if _CONSUMES.search(frame)), None)
    if service is not None:
        kept = [frame[:STACK_FRAME_CHARACTERS] for frame in frames[: service + 1][:STACK_FRAMES]]
        yield {"name": name[:STACK_FRAME_CHARACTERS], "state": thread["state"], "frames": kept}
