"""The owners of each queue by polls alone: every member whose last answer contains the queue, not dropped.

Answers are snapshots taken at different instants, so two members, or none, may report a queue at one instant. At each
instant a queue has a set of claims, and an owner is correct if it is in such a set within one interval.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.audit.telemetry import Event, Place, Queue, Series, queue_of

NOT_ONLINE = "not online"
"""The broker's error for a client that it does not know; other errors do not concern the client's queues."""


@dataclass
class GroupClaims:
    """Folds one group's answers."""

    queues: dict[Queue, Series[frozenset[str]]] = field(default_factory=lambda: defaultdict(Series))
    intervals: list[int] = field(default_factory=list)
    """The times between consecutive answers of a client, milliseconds."""
    _listed: dict[str, set[str]] = field(default_factory=dict)
    _held: dict[str, set[Queue]] = field(default_factory=dict)
    _last: dict[str, int] = field(default_factory=dict)

    def fold(self, event: Event) -> None:
        """Fold one answer."""
        error = event.get("error")
        if event.type == "CONSUMER_CONNECTION" and error is None:
            self._listed[event["broker"]] = {part["client_id"] for part in event["connections"]}
        elif event.type == "CONSUMER_RUNNING_INFO" and error is None:
            client = event["client_id"]
            self._held[client] = {queue_of(part["mq"]) for part in event["queues"] if not part["dropped"]}
            self.intervals.append(event.time - self._last.get(client, event.time))
            self._last[client] = event.time
        elif event.type == "CONSUMER_RUNNING_INFO" and NOT_ONLINE in error.get("remark", ""):
            self._held.pop(event["client_id"], None)
        else:
            return
        self._note(event.time)

    def _note(self, now: int) -> None:
        members = set().union(*self._listed.values())
        claims: dict[Queue, set[str]] = {queue: set() for queue in self.queues}
        for client in members & self._held.keys():
            for queue in self._held[client]:
                claims.setdefault(queue, set()).add(client)
        for queue, clients in claims.items():
            known = self.queues[queue].at(now)
            if known is None or known.value != clients:
                self.queues[queue].add(now, frozenset(clients))


def claims(events: Iterable[Event]) -> dict[Place, GroupClaims]:
    """Fold every group's answers."""
    groups: dict[Place, GroupClaims] = defaultdict(GroupClaims)
    for event in events:
        if event.source == "poll" and event.place[1]:
            groups[event.place].fold(event)
    return dict(groups)
