"""The real ProcessQueue of RocketMQ 5.4.0, driven by the same scripts as the model (process_queue_script.py)."""

from functools import partial
from typing import Any

import jpype

from tests.differential.process_queue_script import STEP
from tests.differential.standing_clock import StandingClock, now

_STAMPS = ("lastLockTimestamp", "lastPullTimestamp", "lastConsumeTimestamp")


def get(owner: Any, name: str) -> Any:
    """Return the value of a private field."""
    field = owner.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(owner)


def age(stamp: int) -> int:
    """Return the age of a timestamp in steps; the comparison itself takes less than a second."""
    return round((now() - stamp) / STEP)


def make_older(queue: Any, past: int) -> None:
    """Let milliseconds pass for a process queue."""
    for stamp in _STAMPS:
        name = stamp[0].upper() + stamp[1:]
        getattr(queue, "set" + name)(getattr(queue, "get" + name)() - past)


def message(offset: int, body: int | None, max_offset: int | None) -> Any:
    made = jpype.JClass("org.apache.rocketmq.common.message.MessageExt")()
    made.setQueueOffset(offset)
    if body is not None:
        made.setBody(jpype.JArray(jpype.JByte)(body))
    if max_offset is not None:
        jpype.JClass("org.apache.rocketmq.common.message.MessageAccessor").putProperty(
            made, "MAX_OFFSET", str(max_offset)
        )
    return made


class JavaProcessQueue:
    """The real queue, driven by a script."""

    def __init__(self, pool: list[Any]) -> None:
        self.pool = [message(*each) for each in pool]
        self.queue = jpype.JClass("org.apache.rocketmq.client.impl.consumer.ProcessQueue")()
        self.clock = StandingClock(partial(make_older, self.queue))

    def advance(self, steps: int) -> None:
        make_older(self.queue, steps * STEP)

    def put(self, places: list[int]) -> bool:
        return self.queue.putMessage(self._messages(places))

    def remove(self, places: list[int]) -> int:
        return self.queue.removeMessage(self._messages(places))

    def take(self, count: int) -> Any:
        try:
            return [self._place(message) for message in self.queue.takeMessages(count)]
        except jpype.JClass("java.lang.IllegalArgumentException") as error:
            return str(error.getMessage())

    def commit(self) -> Any:
        try:
            return self.queue.commit()
        except jpype.JClass("java.util.NoSuchElementException"):
            return "nothing consuming"

    def rollback(self) -> None:
        self.queue.rollback()

    def again(self, places: list[int]) -> None:
        self.queue.makeMessageToConsumeAgain(self._messages(places))

    def clear(self) -> None:
        self.queue.clear()

    def contains(self, place: int) -> bool:
        return self.queue.containsMessage(self.pool[place])

    def lock(self, locked: bool) -> None:
        self.queue.setLocked(locked)
        self.queue.setLastLockTimestamp(now())

    def pull(self) -> None:
        self.queue.setLastPullTimestamp(now())

    def drop(self) -> None:
        self.queue.setDropped(True)
        self.queue.incTryUnlockTimes()

    def state(self) -> Any:
        queue, info = self.queue, jpype.JClass("org.apache.rocketmq.remoting.protocol.body.ProcessQueueInfo")()
        queue.fillProcessQueueInfo(info)
        trees = (queue.getMsgTreeMap(), get(queue, "consumingMsgOrderlyTreeMap"))
        return {
            "trees": [[[int(e.getKey()), self._place(e.getValue())] for e in tree.entrySet()] for tree in trees],
            "counters": [
                queue.getMsgCount().get(),
                queue.getMsgSize().get(),
                int(get(queue, "queueOffsetMax")),
                queue.getMsgAccCnt(),
                bool(get(queue, "consuming")),
            ],
            "span": queue.getMaxSpan(),
            "waiting": queue.hasTempMessage(),
            "expired": [queue.isLockExpired(), queue.isPullExpired()],
            "cached": [info.getCachedMsgMinOffset(), info.getCachedMsgMaxOffset(), info.getCachedMsgCount()],
            "mib": info.getCachedMsgSizeInMiB(),
            "taken": [
                info.getTransactionMsgMinOffset(),
                info.getTransactionMsgMaxOffset(),
                info.getTransactionMsgCount(),
            ],
            "flags": [info.isLocked(), info.isDroped(), info.getTryUnlockTimes()],
            "ages": [
                age(stamp)
                for stamp in (
                    info.getLastLockTimestamp(),
                    info.getLastPullTimestamp(),
                    info.getLastConsumeTimestamp(),
                )
            ],
        }

    def _messages(self, places: list[int]) -> Any:
        made = jpype.JClass("java.util.ArrayList")()
        for place in places:
            made.add(self.pool[place])
        return made

    def _place(self, message: Any) -> int:
        return next(place for place, each in enumerate(self.pool) if each is message or each.equals(message))
