"""The truth of the simulated cluster, unlike telemetry. Times are epoch milliseconds of true time."""

import msgspec

from rebalance_model.entities import MessageQueue


class Record(msgspec.Struct, kw_only=True, tag_field="record"):
    """A condition with its duration; `end` is None if it still holds at the scenario's end."""

    begin: int
    end: int | None = None


class Owned(Record, kw_only=True, tag="OWNED"):
    """A client had a process queue of this queue."""

    group: str
    client_id: str
    queue: MessageQueue


class Locked(Record, kw_only=True, tag="LOCKED"):
    """A broker's lock entry named the client. An entry that has expired stays until another client takes it."""

    group: str
    client_id: str
    queue: MessageQueue


class Consumed(Record, kw_only=True, tag="CONSUMED"):
    """A client's listener accepted these messages, one after the other."""

    group: str
    client_id: str
    queue: MessageQueue
    first_offset: int
    last_offset: int


class Fault(Record, kw_only=True, tag="FAULT"):
    """A step of the scenario that was applied to the cluster."""

    kind: str
    subject: str


AnyRecord = Owned | Locked | Consumed | Fault


class Truth:
    """Records what happens."""

    def __init__(self) -> None:
        self.records: list[AnyRecord] = []
        self._owned: dict[tuple[str, str, MessageQueue], list[Owned]] = {}
        """One of each; of two processes that share a client id, perhaps two."""
        self._locked: dict[tuple[str, MessageQueue], Locked] = {}
        self._consumed: dict[tuple[str, str, MessageQueue], Consumed] = {}

    def owns(self, now: int, group: str, client_id: str, queue: MessageQueue) -> None:
        """Record that a client adds a queue."""
        owned = Owned(begin=now, group=group, client_id=client_id, queue=queue)
        self._owned.setdefault((group, client_id, queue), []).append(owned)
        self.records.append(owned)

    def disowns(self, now: int, group: str, client_id: str, queue: MessageQueue) -> None:
        """Record that a client drops a queue, or ends."""
        owned = self._owned[group, client_id, queue]
        owned.pop(0).end = now
        if not owned:
            del self._owned[group, client_id, queue]
        self._consumed.pop((group, client_id, queue), None)

    def owners(self, group: str) -> dict[MessageQueue, list[str]]:
        """Return the current owners of each queue."""
        owners: dict[MessageQueue, list[str]] = {}
        for (of_group, client_id, queue), owned in self._owned.items():
            if of_group == group:
                owners.setdefault(queue, []).extend(client_id for _ in owned)
        return owners

    def locks(self, now: int, group: str, client_id: str, queue: MessageQueue) -> None:
        """Record that a broker has granted or renewed a lock."""
        lock = self._locked.get((group, queue))
        if lock is None or lock.client_id != client_id:
            self.unlocks(now, group, queue)
            self._locked[group, queue] = lock = Locked(begin=now, group=group, client_id=client_id, queue=queue)
            self.records.append(lock)

    def unlocks(self, now: int, group: str, queue: MessageQueue) -> None:
        """Record that a broker has removed a lock."""
        known = self._locked.pop((group, queue), None)
        if known is not None:
            known.end = now

    def unlocks_all(self, now: int, broker: str) -> None:
        """Record that a broker has lost its locks."""
        for group, queue in [key for key in self._locked if key[1].broker == broker]:
            self.unlocks(now, group, queue)

    def consumes(self, who: tuple[str, str], queue: MessageQueue, offsets: range, times: tuple[int, int]) -> None:
        """Record messages that a client of a group has accepted, with the times of the first and the last."""
        begin, end = times
        stretch = self._consumed.get((*who, queue))
        if stretch is None or stretch.last_offset + 1 != offsets.start:
            group, client_id = who
            stretch = Consumed(
                begin=begin, group=group, client_id=client_id, queue=queue, first_offset=offsets.start, last_offset=0
            )
            self._consumed[*who, queue] = stretch
            self.records.append(stretch)
        stretch.last_offset, stretch.end = offsets.stop - 1, end

    def fault(self, now: int, kind: str, subject: str) -> Fault:
        """Record a step of the scenario; the function that undoes it sets the end."""
        fault = Fault(begin=now, kind=kind, subject=subject)
        self.records.append(fault)
        return fault
