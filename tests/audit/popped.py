"""Popped queues: what of each is in flight, message by message.

Messages are handed out in the order of their offsets. So an ack or a change of a message shows that all before it were
popped by then, and an answer of a broker (CONSUME_STATS) that all below its commit or pull offset were. Of a message
the audit keeps by when it was popped at the latest, and drops it when it is acked or refused, or has come back. It is
in flight for its invisible time; for 5 s after that it is in the retry topic or not yet, so what is known is a lower
bound. What a proxy renews for its client, and what is in order, stays longer.

A queue counts from its first ack or change on, or from the first answer about it after its topic was popped; what was
in flight then is unknown until all of it must be over. Resets
of offsets, and brokers that restart, are not evaluated: a recording that has them can't be audited.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from tests.audit.telemetry import Event, Place, Queue, queue_of

COMES_BACK_MS = 5_000
RENEWALS_MS = (60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000)
RENEWED_BEFORE_END_MS = 10_500
CLIENT_REMEMBERED_MS = 3_600_000


class Lag(NamedTuple):
    """Lag and what is in flight of a popped queue at an instant; None: unknown."""

    lag: int | None
    at_least: bool
    in_flight: int | None
    in_flight_since: int | None


class _Queue:
    """One popped queue, from its first ack or change on."""

    def __init__(self) -> None:
        self.invisible_ms, self.in_order, self.filtered = 0, False, False
        self.popped_by: dict[int, tuple[int, int]] = {}
        """By offset, when a message in flight was popped at the latest, and when it has come back."""
        self.kept: dict[int, tuple[int, int, int]] = {}
        """By offset, when a message that is kept for longer was first and last popped, and until when it is kept."""
        self.next: int | None = None
        """The offset after the highest one that was popped."""
        self.known_from: int | None = None

    def pop(self, event: Event) -> None:
        self.invisible_ms, self.in_order = event["invisible_ms"], event.get("order", False)
        self.filtered = event.get("filtered", False)

    def begin(self, now: int) -> None:
        if self.known_from is None:
            self.known_from = now + self.invisible_ms + COMES_BACK_MS

    def popped(self, until: int, at: int, invisible_ms: int) -> None:
        """Messages below an offset were popped at a time or before."""
        for offset in range(self.next if self.next is not None else until, until):
            self.popped_by[offset] = at, at + invisible_ms + COMES_BACK_MS
        self.next = max(until, self.next or 0)

    def ack(self, event: Event) -> None:
        """Acks of a second: the lowest of them was popped first."""
        first_pop, last_pop = (min(event[name], event.time) for name in ("pop_time_min", "pop_time_max"))
        self.in_order = event.get("order", False)
        self.invisible_ms = self.invisible_ms or event["invisible_ms"]
        self.begin(event.time)
        lowest = event["ranges"][0][0]
        for first, last in event["ranges"]:
            self.popped(first, first_pop if first == lowest else last_pop, event["invisible_ms"])
            self.next = max(self.next or 0, last + 1)
            for offset in range(first, last + 1):
                self.popped_by.pop(offset, None)
                held = self.kept.get(offset)
                if held is not None and (held[1] <= event["pop_time_max"] or not self.in_order):
                    del self.kept[offset]
        for offset, (since, over) in self.popped_by.items():
            at = first_pop if offset < lowest else last_pop
            if offset < last and since > at:
                self.popped_by[offset] = at, at + (over - since)

    def change(self, event: Event) -> None:
        at, offset, now = min(event["pop_time"], event.time), event["offset"], event.time
        self.in_order = event.get("order", False)
        self.begin(now)
        self.popped(offset, at, event["invisible_ms"])
        self.next = max(self.next or 0, offset + 1)
        self.popped_by.pop(offset, None)
        hold = self.kept.pop(offset, None)
        is_late = at + event["invisible_ms"] - now <= RENEWED_BEFORE_END_MS
        if self.in_order or (event["changed_ms"] in RENEWALS_MS and is_late):
            newest = at if self.in_order else now
            self.kept[offset] = hold[0] if hold else at, newest, now + event["changed_ms"]

    def answer(self, now: int, commit: int, pull: int) -> None:
        if self.in_order:
            self.popped_by = {offset: one for offset, one in self.popped_by.items() if offset >= commit}
            self.kept = {offset: one for offset, one in self.kept.items() if offset >= commit}
            self.next = max(self.next or 0, commit, pull)
        else:
            self.popped(max(commit, pull), now, self.invisible_ms)

    def in_flight(self, now: int) -> tuple[int | None, int | None, bool]:
        """Return how many messages are in flight, since when at least, and whether there may be more."""
        if self.filtered:
            return None, None, True
        unacked = [(at, over) for at, over in self.popped_by.values() if over >= now]
        waiting = [at for at, over in unacked if over - COMES_BACK_MS >= now]
        waiting += [first for first, _, until in self.kept.values() if self.in_order or until >= now]
        come_back = any(over - COMES_BACK_MS < now for _, over in unacked)
        come_back = come_back or any(until < now <= until + COMES_BACK_MS for _, _, until in self.kept.values())
        return len(waiting), min(waiting, default=None), self.in_order or come_back or now < (self.known_from or 0)


class _Evaluation:
    """One queue of a group, event by event."""

    def __init__(self, place: Place, queue: Queue) -> None:
        self._group, self._queue = place[1], queue
        self._pop: Event | None = None
        self._found: _Queue | None = None
        self._of_clients: dict[str, tuple[int, set[str]]] = {}
        self._answer: tuple[int, int, int] | None = None
        """Newest offset, commit and pull offset, if the last event is an answer about the queue."""

    def without_answer(self) -> "_Evaluation":
        """Return this evaluation at an instant that is later than its last event."""
        self._answer = None
        return self

    def take(self, event: Event) -> None:
        """Process the next event of the group."""
        self._answer = None
        {
            "CONSUMER_RUNNING_INFO": self._client,
            "CONSUME_STATS": self._offsets,
            "POP_MESSAGE": self._popped,
            "ACK_MESSAGE": self._called,
            "CHANGE_MESSAGE_INVISIBLETIME": self._called,
        }[event.type](event)

    def _client(self, event: Event) -> None:
        if "error" not in event.fields:
            names = {one["topic"] for one in event.get("pop_queues", ()) if not one.get("dropped")}
            self._of_clients[event["client_id"]] = event.time, names

    def _offsets(self, event: Event) -> None:
        for row in event.get("queues", ()):
            if queue_of(row["mq"]) == self._queue:
                commit, pull = row["consumer_offset"], row.get("pull_offset", -1)
                self._answer = row["broker_offset"], commit, pull
                if self._found is None and self._pop is not None:
                    self._begin(event)
                if self._found is not None:
                    self._found.answer(event.time, commit, pull)

    def _popped(self, event: Event) -> None:
        topic, broker, _ = self._queue
        retries = (f"%RETRY%{self._group}{separator}{event['topic']}" for separator in "_+")
        if event.get("broker") == broker and topic in (event["topic"], *retries) and not event.get("code"):
            self._pop = event
            if self._found is not None:
                self._found.pop(event)

    def _called(self, event: Event) -> None:
        if queue_of(event.fields) != self._queue or event.get("code"):
            return
        if self._found is None:
            self._found = _Queue()
            if self._pop is not None:
                self._found.pop(self._pop)
        (self._found.ack if event.type == "ACK_MESSAGE" else self._found.change)(event)

    def _begin(self, event: Event) -> None:
        self._found = _Queue()
        self._found.pop(self._pop)
        self._found.begin(event.time)

    def lag(self, instant: int) -> Lag | None:
        """Return what is known at an instant; None: nobody pops the queue, as far as is known."""
        answer, ready = self._answer, None
        if answer is not None and max(answer[1:]) >= 0:
            ready = max(0, answer[0] - max(answer[1:]))
        if self._found is None:
            recent = [names for at, names in self._of_clients.values() if instant - at < CLIENT_REMEMBERED_MS]
            is_popped = any(self._queue[0] in names for names in recent)
            return Lag(ready, at_least=True, in_flight=None, in_flight_since=None) if is_popped else None
        count, since, more = self._found.in_flight(instant)
        if self._found.in_order and answer is not None:
            return Lag(max(0, answer[0] - answer[1]), at_least=False, in_flight=count, in_flight_since=since)
        known = [one for one in (ready, count) if one is not None]
        return Lag(sum(known) if known else None, len(known) < 2 or more, count, since)


class Popped:
    """The popped queues of a recording."""

    def __init__(self, events: Iterable[Event]) -> None:
        read = sorted((one for one in events if one.type in _READ), key=lambda one: (one.time, one.source_id, one.seq))
        self._events: defaultdict[Place, list[Event]] = defaultdict(list)
        for event in read:
            self._events[event.place].append(event)
        self._queues = self._named(read)

    def at(self, place: Place, queue: Queue, *instants: int) -> list[list[Lag]]:
        """Return what is known of a queue at instants, which rise, by the calls and answers until each.

        A hook reports the calls of a second at one instant, one after the other: it may be after each of them. What is
        ready is known only at the instant of an answer. Nothing: nobody pops the queue, as far as is known.
        """
        evaluated, events = _Evaluation(place, queue), self._events[place]
        answers, index = [], 0
        for instant in instants:
            while index < len(events) and events[index].time < instant:
                evaluated.take(events[index])
                index += 1
            candidates = [evaluated.without_answer().lag(instant)]
            while index < len(events) and events[index].time == instant:
                evaluated.take(events[index])
                candidates.append(evaluated.lag(instant))
                index += 1
            answers.append([one for one in candidates if one is not None])
        return answers

    def queues(self) -> dict[Place, set[Queue]]:
        """Return the popped queues of each group."""
        return self._queues

    @staticmethod
    def _named(events: list[Event]) -> dict[Place, set[Queue]]:
        """Return the queues of each group that are acked, refused or renewed, or whose topic a client says it pops."""
        by_place: defaultdict[Place, set[Queue]] = defaultdict(set)
        topics: defaultdict[Place, set[str]] = defaultdict(set)
        for event in events:
            if event.type in {"ACK_MESSAGE", "CHANGE_MESSAGE_INVISIBLETIME"}:
                by_place[event.place].add(queue_of(event.fields))
            topics[event.place].update(one["topic"] for one in event.get("pop_queues", ()))
        for event in events:
            named = {queue_of(one["mq"]) for one in event.get("queues", ()) if event.type == "CONSUME_STATS"}
            by_place[event.place].update(one for one in named if one[0] in topics[event.place])
        return {place: queues for place, queues in by_place.items() if queues}


_READ = {
    "POP_MESSAGE", "ACK_MESSAGE", "CHANGE_MESSAGE_INVISIBLETIME", "CONSUME_STATS", "CONSUMER_RUNNING_INFO",
}  # fmt: skip
