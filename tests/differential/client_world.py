"""The brokers of a client in the differential tests, whose answers a script sets.

The model calls it through the protocols of `simulation.rocketmq.client.host`, the real client through a RemotingClient
that converts its frames to the same calls (client_java.py). Both leave the same journal: requests, messages and timers.
"""

from typing import Any

Json = Any
Queue = tuple[str, str, int]

REFUSED, DOWN, NOT_FOUND = "refused", "down", "not found"
"""Instead of an answer: the broker refuses, does not respond, or has no such offset."""


class AnswerError(Exception):
    """A request without an answer; `how` is one of the three above."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


def name(queue: Queue) -> str:
    """Return a queue's name in the journal."""
    return "/".join(map(str, queue))


class World:
    """Brokers `a` and `b`, their next answers, and the journal."""

    def __init__(self) -> None:
        self.journal: list[list[Json]] = []
        self.consumer_ids: dict[str, Json] = {}
        self.assignments: dict[str, Json] = {}
        self.granted: dict[str, Json] = {}
        self.unlocked: dict[str, str] = {}
        self.committed: dict[Queue, Json] = {}
        self.max_offsets: dict[Queue, Json] = {}
        self.searched: dict[Queue, Json] = {}
        self.send_back: str = "ok"
        self.listener: list[dict[str, Json]] = []

    def take_journal(self) -> list[list[Json]]:
        """Return the entries since the last call, sorted by queue: the order among queues is that of a hash table."""
        journal, self.journal = self.journal, []
        return sorted(journal, key=lambda entry: entry[1])

    def note(self, what: str, subject: str, *details: Json) -> None:
        self.journal.append([what, subject, *details])

    def find_consumer_id_list(self, topic: str) -> list[str]:
        return list(_answer(self.consumer_ids.get(topic, ["c1"])))

    def query_assignment(self, topic: str, strategy: str, model: str) -> list[Json] | None:
        self.note("assignment?", topic, strategy, model)
        return _answer(self.assignments.get(topic, REFUSED))

    def lock(self, broker: str, queues: list[Queue]) -> list[Queue]:
        self.note("lock", *sorted(map(name, queues)))
        granted = _answer(self.granted.get(broker, "all"))
        return queues if granted == "all" else [queue for queue in queues if queue[2] in granted]

    def unlock(self, broker: str, queues: list[Queue], one_way: bool) -> None:
        self.note("unlock", *sorted(map(name, queues)), one_way)
        if not one_way:
            _answer(self.unlocked.get(broker, "ok"))

    def query_offset(self, queue: Queue) -> int:
        self.note("offset?", name(queue))
        return _answer(self.committed.get(queue, NOT_FOUND))

    def commit_offset(self, queue: Queue, offset: int) -> None:
        self.note("commit", name(queue), offset)
        self.committed[queue] = offset

    def max_offset(self, queue: Queue) -> int:
        self.note("max?", name(queue))
        return _answer(self.max_offsets.get(queue, 100))

    def search_offset(self, queue: Queue, timestamp: int) -> int:
        self.note("search?", name(queue), timestamp)
        return _answer(self.searched.get(queue, 50))

    def sent_back(self, what: str, queue: Queue, offset: int, detail: int) -> None:
        self.note(what, name(queue), offset, detail)
        _answer(self.send_back)

    def listen(self, queue: Queue, offsets: list[int]) -> dict[str, Json]:
        """Return the next answer of the user's listener."""
        self.note("consume", name(queue), offsets)
        return self.listener.pop(0) if self.listener else {"status": "SUCCESS"}


def _answer(answer: Json) -> Json:
    if answer in (REFUSED, DOWN, NOT_FOUND):
        raise AnswerError(answer)
    return answer
