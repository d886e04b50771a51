"""The owner of each queue, by the calls that hooks report, or by these and the clients' own answers.

The owner of an ordered queue is the client to which the broker last granted the lock; of a concurrent queue the client
that last queried its offset (QUERY_CONSUMER_OFFSET), which a client does when it creates a process queue. A client that
unlocks the queue, leaves, or is dropped by the broker is no longer its owner. A pull shows an owner only if no owner is
known, or if the known one has not pulled for 30 s; for an ordered queue only if the client was the last to get the
lock, and the lock is still valid (30 s).

An answer overrides the hooks' calls if it was requested later: an owner that answers without the queue, or has dropped
it, is no longer its owner; a member that answers with a queue without a known owner is its owner (of an ordered queue
only if its lock is valid).
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from tests.audit.members import HEARD_FROM_ALL, Listing
from tests.audit.telemetry import Event, Place, Queue, Series, queue_of

LOCK_LIVES = 30_000
PULL_SILENCE = 30_000

Claim: TypeAlias = Literal["HAS", "WITHOUT_LOCK", "DROPPED"]
"""The state of a process queue in a client's answer; an ordered queue also needs a valid lock."""


class Change(NamedTuple):
    """A change of a queue's owner; None: unassigned."""

    time: int
    client: str | None
    shown_by: str
    """The event that shows it, as in the column `cause` of derived rows; empty if time alone shows it."""


class Pull(NamedTuple):
    """The sum of a client's pulls within a second."""

    seen: int
    """The time at which the sum was sent."""
    first_time: int
    last_time: int
    first_offset: int
    last_offset: int
    answered: bool


class Commit(NamedTuple):
    """An offset that one client committed, by a call of its own or with a pull."""

    seen: int
    time: int
    offset: int


@dataclass
class Activity:
    """The activity of one client on one queue."""

    grants: list[int] = field(default_factory=list)
    unlocks: list[int] = field(default_factory=list)
    pulls: list[Pull] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)

    def last_grant(self, instant: int) -> int | None:
        """Return the time of the last granted lock not after an instant."""
        index = bisect_right(self.grants, instant)
        return self.grants[index - 1] if index else None

    def first_grant(self, since: int) -> int | None:
        """Return the time of the first granted lock not before an instant."""
        index = bisect_left(self.grants, since)
        return self.grants[index] if index < len(self.grants) else None


@dataclass
class QueueHistory:
    """The owners of one queue, and its clients' activity."""

    changes: list[Change] = field(default_factory=list)
    by_client: dict[str, Activity] = field(default_factory=lambda: defaultdict(Activity))
    retaken: list[Change] = field(default_factory=list)
    """The owner created a new process queue: the only evidence that it had released the queue before."""

    @property
    def owner(self) -> str | None:
        """The owner after the last change; None: unassigned."""
        return self.changes[-1].client if self.changes else None

    def owners(self) -> Series[str | None]:
        """Return the owners as a series."""
        series: Series[str | None] = Series()
        for change in self.changes:
            series.add(change.time, change.client)
        return series


@dataclass
class _Answer:
    asked: int
    claims: dict[Queue, Claim]


class GroupOwners:
    """Folds the events of one group, in order of time."""

    def __init__(self) -> None:
        self.queues: dict[Queue, QueueHistory] = defaultdict(QueueHistory)
        self.ordered = False
        self.members: Series[frozenset[str]] = Series()
        self.restarts: dict[str, list[int]] = defaultdict(list)
        """The times of each broker's restarts, in which it lost its locks."""
        self._listings: dict[str, Listing] = defaultdict(Listing)
        self._incarnations: dict[str, str] = {}
        self._channels: dict[tuple[str, str], str] = {}
        self._unnamed: dict[tuple[str, str], dict[Queue, int]] = defaultdict(dict)
        self._members: set[str] = set()
        self._asked: dict[Queue, int] = {}
        self._hook_word: dict[Queue, int] = {}
        self._holders: dict[Queue, str | None] = {}
        self._answers: dict[str, _Answer] = {}

    def has_forgotten(self, queue: Queue, client: str, instant: int) -> bool:
        """Return whether the broker has restarted since it last granted the client the lock."""
        granted = self.queues[queue].by_client[client].last_grant(instant)
        return granted is not None and any(granted < time <= instant for time in self.restarts[queue[1]])

    def fold(self, event: Event) -> None:
        """Fold one event of the group, or a broadcast."""
        self.pass_time(event.time)
        if event.source == "hook":
            if event.get("broker_id"):
                return
            self._note_incarnation(event)
            if (take := _HOOK.get(event.type)) is not None:
                take(self, event)
        elif event.get("error") is None and (take := _POLL.get(event.type)) is not None:
            take(self, event)

    def pass_time(self, now: int) -> None:
        """Process the deadlines before an instant."""
        while True:
            dues = [due for listing in self._listings.values() if (due := listing.next_due()) is not None]
            due = min(dues, default=now)
            if due >= now:
                return
            for listing in self._listings.values():
                listing.expire(due)
            self._follow(due, "")

    def _note_incarnation(self, event: Event) -> None:
        broker = event["broker"]
        known = self._incarnations.setdefault(broker, event.source_id)
        if known != event.source_id:
            self._incarnations[broker] = event.source_id
            self.restarts[broker].append(event.time)
            self._listings[broker].restart(event.time)
            self._channels = {place: c for place, c in self._channels.items() if place[0] != broker}

    # Members

    def _heart_beat(self, event: Event) -> None:
        if not event.get("code"):
            self._listings[event["broker"]].beat(event["channel"], event["client_id"], event.time)
            self._follow(event.time, event.name)
            self._name(event)

    def _unregister(self, event: Event) -> None:
        if not event.get("code"):
            self._listings[event["broker"]].unregister(event["channel"], event["client_id"], event.time)
            self._follow(event.time, event.name)

    def _list(self, event: Event) -> None:
        if event.get("code", 0) in (0, 1):  # 1: the group has no member
            asked = event.get("asked") or event.time
            self._listings[event["broker"]].take_ids(event["consumer_ids"], asked, event.time)
            self._follow(event.time, event.name)

    def _connections(self, event: Event) -> None:
        self._listings[event["broker"]].take_channels(event["connections"], event["asked"], event.time)
        self._follow(event.time, event.name)

    def _follow(self, now: int, shown_by: str) -> None:
        members = set().union(*(listing.clients() for listing in self._listings.values()))
        gone, self._members = self._members - members, members
        self.members.add(now, frozenset(members))
        for queue, history in self.queues.items():
            if self._holders.get(queue) in gone:
                self._holders[queue] = None
            if history.owner in gone:
                self._set(queue, None, now, shown_by)
        for client in gone:
            self._answers.pop(client, None)

    def _name(self, event: Event) -> None:
        """Learn from a call that names its client to whom the channel, and its earlier calls, belong."""
        place = event["broker"], event["channel"]
        self._channels[place] = event["client_id"]
        for queue, asked in self._unnamed.pop(place, {}).items():
            if event.time - asked <= HEARD_FROM_ALL and asked >= self._asked.get(queue, 0):
                self._begin(queue, event["client_id"], asked, event)

    # Calls about queues

    def _lock(self, event: Event) -> None:
        self._name(event)
        if event.get("code"):
            return
        self.ordered = True
        for part in event["granted"]:
            queue = queue_of(part)
            self.queues[queue].by_client[event["client_id"]].grants.append(event.time)
            self._hold(queue, event["client_id"], event)

    def _unlock(self, event: Event) -> None:
        self._name(event)
        for part in event["queues"]:
            queue = queue_of(part)
            self.queues[queue].by_client[event["client_id"]].unlocks.append(event.time)
            if self._holders.get(queue) == event["client_id"]:
                self._hold(queue, None, event)

    def _query(self, event: Event) -> None:
        place, queue = (event["broker"], event["channel"]), queue_of(event.fields)
        client = self._channels.get(place)
        if client is None:
            self._unnamed[place][queue] = event.time
        else:
            self._begin(queue, client, event.time, event)

    def _begin(self, queue: Queue, client: str, asked: int, event: Event) -> None:
        self._asked[queue] = asked
        history = self.queues[queue]
        if not self.ordered:
            if self._holders.get(queue) == client == history.owner and _has_pulled(history, client):
                history.retaken.append(Change(asked, client, event.name))
            self._hold(queue, client, event)

    def _pull(self, event: Event) -> None:
        client = self._channels.get((event["broker"], event["channel"]))
        if client is None:
            return
        queue = queue_of(event.fields)
        activity = self.queues[queue].by_client[client]
        served = event.get("code") in (None, 0, 19)  # answered later, found, no new message
        activity.pulls.append(
            Pull(
                event.time,
                event["first_time"],
                event["last_time"],
                event["first_offset"],
                event["last_offset"],
                served,
            )
        )
        if event.get("commit_offset", -1) >= 0 and event.get("code") in (None, 0):
            activity.commits.append(Commit(event.time, event["last_time"], event["commit_offset"]))
        if client in self._members and self._may_have(queue, client, event):
            self._hold(queue, client, event)
        elif client == self._holders.get(queue):
            self._hook_word[queue] = event["last_time"]

    def _may_have(self, queue: Queue, client: str, event: Event) -> bool:
        history, holder = self.queues[queue], self._holders.get(queue)
        if holder == client:
            return False
        if self.ordered:
            grants = [(activity.grants[-1], c) for c, activity in history.by_client.items() if activity.grants]
            granted, last = max(grants, default=(0, ""))
            unlocked = max(history.by_client[client].unlocks, default=-1)
            return holder is None and last == client and unlocked < granted >= event["first_time"] - LOCK_LIVES
        if holder is None:
            return True
        pulled = max((pull.last_time for pull in history.by_client[holder].pulls[-1:]), default=0)
        return event["last_time"] - max(pulled, self._hook_word[queue]) > PULL_SILENCE

    def _commit(self, event: Event) -> None:
        client = self._channels.get((event["broker"], event["channel"]))
        if client is not None and not event.get("code"):
            commit = Commit(event.time, event.time, event["offset"])
            self.queues[queue_of(event.fields)].by_client[client].commits.append(commit)

    def _hold(self, queue: Queue, client: str | None, event: Event) -> None:
        self._hook_word[queue], self._holders[queue] = event.time, client
        self._set(queue, client, event.time, event.name)

    # Answers of clients

    def _running_info(self, event: Event) -> None:
        client = event["client_id"]
        held = {queue_of(part["mq"]): self._claims(part, event.time) for part in event["queues"]}
        self._answers[client] = answer = _Answer(event["asked"], held)
        for queue in {*held, *(q for q, history in self.queues.items() if history.owner == client)}:
            if answer.asked >= self._hook_word.get(queue, 0):
                self._reconsider(queue, client, event)

    def _claims(self, part: dict[str, Any], answered: int) -> Claim:
        if part["dropped"]:
            return "DROPPED"
        living: bool = part["locked"] and answered - part["lock_time"] <= LOCK_LIVES
        return "HAS" if living or not self.ordered else "WITHOUT_LOCK"

    def _reconsider(self, queue: Queue, client: str, event: Event) -> None:
        owner, claim = self.queues[queue].owner, self._answers[client].claims.get(queue, "DROPPED")
        if owner == client and claim == "DROPPED":
            word = self._hook_word.get(queue, 0)
            others = [
                (answer.asked, c)
                for c, answer in self._answers.items()
                if c in self._members and answer.claims.get(queue) == "HAS" and answer.asked >= word
            ]
            self._set(queue, max(others, default=(0, None))[1], event.time, event.name)
        elif owner is None and claim == "HAS" and client in self._members:
            self._set(queue, client, event.time, event.name)

    def _set(self, queue: Queue, client: str | None, now: int, shown_by: str) -> None:
        history = self.queues[queue]
        if history.owner != client:
            history.changes.append(Change(now, client, shown_by))


def _has_pulled(history: QueueHistory, client: str) -> bool:
    """Return whether a client has pulled the queue since it last took it."""
    taken = max(change.time for change in (history.changes[-1], *history.retaken[-1:]))
    return any(pull.seen >= taken for pull in history.by_client[client].pulls)


_HOOK = {
    "HEART_BEAT": GroupOwners._heart_beat,
    "UNREGISTER_CLIENT": GroupOwners._unregister,
    "GET_CONSUMER_LIST_BY_GROUP": GroupOwners._list,
    "LOCK_BATCH_MQ": GroupOwners._lock,
    "UNLOCK_BATCH_MQ": GroupOwners._unlock,
    "QUERY_CONSUMER_OFFSET": GroupOwners._query,
    "PULL_MESSAGE": GroupOwners._pull,
    "UPDATE_CONSUMER_OFFSET": GroupOwners._commit,
}
_POLL = {"CONSUMER_CONNECTION": GroupOwners._connections, "CONSUMER_RUNNING_INFO": GroupOwners._running_info}


def owners(events: Iterable[Event]) -> dict[Place, GroupOwners]:
    """Fold every group's events; events of a broker apply to all groups of its cluster."""
    groups: dict[Place, GroupOwners] = defaultdict(GroupOwners)
    for event in events:
        cluster, group = event.place
        if group:
            groups[cluster, group].fold(event)
        elif event.type == "BROKER_STATUS" and event.source == "hook":
            for place in [place for place in groups if place[0] == cluster]:
                groups[place].fold(event)
    return dict(groups)
