"""Write random scripts of operations on a consumer, for the model and for Java (client_script.py)."""

import random
from typing import Any

from simulation.rocketmq.client.consumer_config import ConsumeFromWhere
from tests.differential.client_script import QUEUES, TOPICS, Json
from tests.differential.client_world import DOWN, NOT_FOUND, REFUSED, Queue

WHERE = [str(where) for where in ConsumeFromWhere]


def write_script(seed: int, length: int) -> dict[str, Any]:
    """Return a script: the consumer subscribes and rebalances, then random operations follow."""
    chance = random.Random(seed)
    orderly = chance.random() < 0.5
    config = {
        "orderly": orderly,
        "message_model": "CLUSTERING" if chance.random() < 0.85 else "BROADCASTING",
        "consume_from_where": chance.choice(WHERE),
        "client_rebalance": chance.random() < 0.75,
        "consume_message_batch_max_size": chance.choice([1, 1, 2, 5]),
        "max_reconsume_times": chance.choice([-1, 0, 1]),
        "pull_interval": chance.choice([0, 0, 10]),
        "pull_threshold_for_queue": chance.choice([1000, 3]),
        "pull_threshold_size_for_queue": chance.choice([100, 1]),
        "pull_threshold_for_topic": chance.choice([-1, 1000, 1]),
        "pull_threshold_size_for_topic": chance.choice([-1, 100]),
        "consume_concurrently_max_span": chance.choice([2000, 3]),
        "suspend_current_queue_time_millis": chance.choice([1000, 1, 40_000]),
    }
    writer = _Writer(chance, orderly=orderly)
    first: list[list[Any]] = [["subscribe", topic] for topic in TOPICS]
    first += [["route", topic, [key for key in QUEUES if key[0] == topic]] for topic in TOPICS]
    first += [writer.assigned(topic) for topic in TOPICS]
    return {"config": config, "ops": [*first, ["rebalance"], *writer.operations(length)]}


class _Writer:
    """Writes random operations, weighted as in a real client."""

    def __init__(self, chance: random.Random, *, orderly: bool) -> None:
        self._chance = chance
        self._orderly = orderly

    def operations(self, length: int) -> list[list[Any]]:
        operations: list[list[Any]] = []
        while len(operations) < length:
            kind = self._chance.choices([self._ordered_answer, self._other, self._own, self._message], [4, 3, 5, 4])[0]
            operations += self._delivery() if self._chance.random() < 0.3 else [kind()]
        return operations

    def _delivery(self) -> list[list[Any]]:
        """Return a pull and the consumption of its messages, perhaps with an operation between them."""
        choose, key, start = self._chance.choice, self._queue(), self._chance.randrange(20)
        offsets = [start + step for step in range(choose([1, 2, 6]))]
        between = [[], [], [["advance", choose([1, 5])]], [self._other()], [["busy", key, True]], [["clean"]]]
        listener = ["order", "listener", None, [self._listener_answer() for _ in range(choose([1, 2, 5]))]]
        answers = [
            *[["answer", key, "FOUND", offsets[-1] + 1, offsets]] * 6,
            ["answer", key, choose(["OFFSET_ILLEGAL", "NO_NEW_MSG", "NO_MATCHED_MSG"]), start, []],
            ["answer", key, "FOUND", start, []],
            ["fail", key, self._chance.random() < 0.5],
        ]
        late = [["order", "send_back", None, choose(["ok", REFUSED])], ["advance", 130], ["clean"]]
        return [
            *([listener] if self._chance.random() < 0.7 else []),
            *([["order", "send_back", None, REFUSED]] if self._chance.random() < 0.2 else []),
            ["pull", key],
            *choose(between),
            choose(answers),
            *choose(between),
            *[["run_task", choose([-1, -1, *range(10)])] for _ in range(choose([1, 2, 4]))],
            *(late if self._chance.random() < 0.15 else []),
        ]

    def assigned(self, topic: str) -> list[Any]:
        some = [[key, self._mode()] for key in QUEUES if key[0] == topic and self._chance.random() < 0.7]
        return ["order", "assignments", topic, some]

    def _mode(self) -> str:
        return "PULL" if self._chance.random() < 0.7 else "POP"

    def _queue(self) -> Queue:
        return self._chance.choice(QUEUES[:4] if self._chance.random() < 0.8 else QUEUES)

    def _topic(self) -> str:
        return self._chance.choice(TOPICS)

    def _ordered_answer(self) -> list[Any]:
        choose = self._chance.choice
        offset = choose([0, 7, 30, -5, DOWN, REFUSED, NOT_FOUND])
        return choose(
            [
                ["order", "consumer_ids", self._topic(), self._members()],
                ["order", "consumer_ids", self._topic(), self._members()],
                choose(
                    [
                        self.assigned(self._topic()),
                        ["order", "assignments", self._topic(), choose([None, DOWN, [[None, "PULL"]]])],
                    ]
                ),
                ["order", "granted", choose("ab"), choose(["all", "all", [], [0], REFUSED, DOWN])],
                ["order", "committed", self._queue(), offset],
                ["order", choose(["max_offsets", "searched"]), self._queue(), choose([3, -1, DOWN, REFUSED])],
                ["order", "unlocked", choose("ab"), choose(["ok", REFUSED])],
                ["order", "send_back", None, choose(["ok", "ok", REFUSED])],
                ["order", "listener", None, [self._listener_answer() for _ in range(choose([1, 2, 5]))]],
            ]
        )

    def _members(self) -> Json:
        return self._chance.choice([["c1"], ["c0", "c1"], ["c1", "c0", "c2"], ["c0"], ["c1", "c1"], [], REFUSED, DOWN])

    def _listener_answer(self) -> dict[str, Json]:
        choose = self._chance.choice
        kinds = ["SUCCESS", "SUCCESS", "SUSPEND_CURRENT_QUEUE_A_MOMENT", None]
        answer: dict[str, Json] = {"status": choose([*kinds, "COMMIT", "ROLLBACK"])}
        for setting, values in {
            "auto_commit": [False],
            "suspend_current_queue_time_millis": [5, 2000, 60_000],
            "ack_index": [-1, 0, 1],
            "drop": [True],
            "clear": [True],
            "unlock": [True],
            "expire": [True],
        }.items():
            if self._chance.random() < 0.15:
                answer[setting] = choose(values)
        return answer

    def _other(self) -> list[Any]:
        choose, topic = self._chance.choice, self._topic()
        queues = [key for key in QUEUES if key[0] == topic]
        return choose(
            [
                ["advance", choose([1, 3, 5, 18, 130])],
                ["advance", choose([1, 3])],
                ["route", topic, choose([None, [], queues, queues, queues[:3], queues[1:]])],
                ["subscribe", topic],
                ["unsubscribe", topic],
                ["pause", self._chance.random() < 0.3],
                ["run_state", self._chance.random() < 0.8],
                ["busy", self._queue(), self._chance.random() < 0.6],
            ]
        )

    def _own(self) -> list[Any]:
        choose = self._chance.choice
        kinds = ["READ_FROM_MEMORY", "READ_FROM_STORE", "MEMORY_FIRST_THEN_STORE"]
        return choose(
            [
                *[["rebalance"]] * 6,
                ["lock_all"],
                choose([["unlock_all"], ["truncate"], ["remove", self._queue()]]),
                ["lock", self._queue()],
                ["compute", self._queue()],
                ["progress", self._queue(), choose([0, 5, 20]), self._chance.random() < 0.5],
                choose([["freeze", self._queue(), 9], ["persist", self._queue()], ["persist_all"]]),
                ["read", self._queue(), choose(kinds)],
            ]
        )

    def _message(self) -> list[Any]:
        choose, start = self._chance.choice, self._chance.randrange(20)
        offsets = [start + step for step in range(choose([0, 1, 2, 6]))]
        status = choose(["FOUND", "FOUND", "NO_NEW_MSG", "NO_MATCHED_MSG", "OFFSET_ILLEGAL"])
        return choose(
            [
                ["put", self._queue(), offsets, choose([1, 100, 3 * 1024 * 1024])],
                *[["pull", self._queue()]] * 3,
                *[["answer", self._queue(), status, start + 6, offsets if status == "FOUND" else []]] * 3,
                ["fail", self._queue(), self._chance.random() < 0.3],
                *[["run_task", self._chance.randrange(10)]] * 4,
                ["clean"],
            ]
        )
