"""Scripts of random operations on one process queue, and the model's answers to them.

The form is that of broker_script.py: a script is JSON, the model's and Java's queue have a method for each operation,
and both return plain values. A message is named by its index in the script's pool.
"""

import random
from typing import Any

from simulation.rocketmq.client.cached_messages import CachingProcessQueue, Message, NothingConsumingError

STEP = 7_000
"""A step of time; milliseconds. Java's clock is the real one, so no sum of steps is within a second of a timeout."""
MIB = 1024 * 1024
BODIES = (None, 0, 1, 100, MIB - 1, MIB, 3 * MIB // 2)
COUNTERS = ("msg_count", "msg_size", "queue_offset_max", "msg_acc_cnt", "consuming")


class ModelProcessQueue:
    """The model's queue, driven by a script."""

    def __init__(self, pool: list[Any]) -> None:
        self.now = 10**12
        self.pool = [Message(offset, body or 0, max_offset) for offset, body, max_offset in pool]
        self.queue = CachingProcessQueue.created(self.now)

    def advance(self, steps: int) -> None:
        self.now += steps * STEP

    def put(self, places: list[int]) -> bool:
        return self.queue.put_message(self._messages(places))

    def remove(self, places: list[int]) -> int:
        return self.queue.remove_message(self._messages(places), self.now)

    def take(self, count: int) -> Any:
        try:
            return [self.pool.index(message) for message in self.queue.take_messages(count, self.now)]
        except ValueError as error:
            return str(error)

    def commit(self) -> Any:
        try:
            return self.queue.commit()
        except NothingConsumingError:
            return "nothing consuming"

    def rollback(self) -> None:
        self.queue.rollback()

    def again(self, places: list[int]) -> None:
        self.queue.make_message_to_consume_again(self._messages(places))

    def clear(self) -> None:
        self.queue.clear()

    def contains(self, place: int) -> bool:
        return self.queue.contains_message(self.pool[place])

    def lock(self, locked: bool) -> None:
        self.queue.locked = locked
        self.queue.last_lock_timestamp = self.now

    def pull(self) -> None:
        self.queue.last_pull_timestamp = self.now

    def drop(self) -> None:
        self.queue.dropped = True
        self.queue.try_unlock_times += 1

    def state(self) -> Any:
        queue, info = self.queue, self.queue.info()
        held = (queue.msg_tree_map, queue.consuming_msg_orderly_tree_map)
        return {
            "trees": [[[message.queue_offset, self.pool.index(message)] for message in tree] for tree in held],
            "counters": [getattr(queue, name) for name in COUNTERS],
            "span": queue.max_span,
            "waiting": queue.has_temp_message,
            "expired": [queue.is_lock_expired(self.now), queue.is_pull_expired(self.now)],
            "cached": [info.cached_msg_min_offset, info.cached_msg_max_offset, info.cached_msg_count],
            "mib": info.cached_msg_size_in_mib,
            "taken": [info.transaction_msg_min_offset, info.transaction_msg_max_offset, info.transaction_msg_count],
            "flags": [info.locked, info.dropped, info.try_unlock_times],
            "ages": [
                (self.now - stamp) // STEP
                for stamp in (info.last_lock_timestamp, info.last_pull_timestamp, info.last_consume_timestamp)
            ],
        }

    def _messages(self, places: list[int]) -> list[Message]:
        return [self.pool[place] for place in places]


def trace(queue: Any, operations: list[list[Any]]) -> list[Any]:
    """Return each operation's answer, and its changes of the state."""
    steps: list[Any] = []
    before: dict[str, Any] = {}
    for method, *args in operations:
        answer = getattr(queue, method)(*args)
        after = queue.state()
        steps.append([answer, {key: value for key, value in after.items() if before.get(key) != value}])
        before = after
    return steps


def write_script(seed: int, length: int) -> dict[str, Any]:
    """Return operations in which offsets repeat, go back and are out of order, besides the usual order."""
    chance = random.Random(seed)
    offsets = [chance.randrange(12) for _ in range(20)] if seed % 2 else sorted(chance.sample(range(40), 20))
    pool = [
        [offset, chance.choice(BODIES), chance.choice([None, offset - 1, offset, offset + 5])] for offset in offsets
    ]
    operations: list[list[Any]] = []
    for _ in range(length):
        some = chance.sample(range(20), chance.choice([0, 1, 1, 2, 4]))
        operations.append(
            chance.choice(
                [
                    ["put", some],
                    ["put", sorted(some)],
                    ["remove", some],
                    ["take", chance.choice([0, 1, 1, 2, 3, 30])],
                    ["commit"],
                    ["again", some],
                    ["rollback"],
                    ["contains", chance.randrange(20)],
                    ["advance", chance.choice([1, 3, 5, 20])],
                    ["pull"],
                    ["lock", chance.random() < 0.8],
                    chance.choice([["clear"], ["take", -1], ["drop"]]),
                ]
            )
        )
    return {"pool": pool, "ops": operations}
