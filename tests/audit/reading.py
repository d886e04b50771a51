"""The audit's own evaluation of the raw telemetry, with the tolerances that it needs."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from tests.audit.claims import GroupClaims, claims
from tests.audit.hook_calls import HookCalls
from tests.audit.owners import GroupOwners, owners
from tests.audit.popped import Popped
from tests.audit.quantities import Quantities, quantities
from tests.audit.telemetry import Event, Place, Queue, queue_of


@dataclass(frozen=True)
class Reading:
    """The evaluation of the raw telemetry."""

    events: list[Event]
    quantities: Quantities
    popped: Popped
    hook_calls: HookCalls
    owners: dict[Place, GroupOwners]
    """The owners by hooks, combined with answers to polls; empty if there are no events of hooks."""
    claims: dict[Place, GroupClaims]
    first_seen: dict[Place, dict[Queue, int]]
    truth: dict[Place, GroupOwners]
    """The owners by the hooks of the recording, even if the job read only polls."""
    polls: bool
    interval: int
    """The median time between two answers of one client, milliseconds."""
    answer_time: int
    """The longest time that an answer took, milliseconds."""

    @property
    def slack(self) -> int:
        """The tolerance for polls: one interval and the time that an answer takes, milliseconds."""
        return self.interval + self.answer_time

    @property
    def hooks(self) -> bool:
        """Return whether there are events of a broker's hook."""
        return bool(self.owners)

    def places(self) -> set[Place]:
        """Return every group."""
        return set(self.owners) | set(self.claims)

    def queues(self, place: Place, instant: int) -> list[Queue]:
        """Return the queues of a group that appeared in an event by an instant, without retry topics."""
        seen = self.first_seen[place].items()
        popped = self.popped.queues().get(place, set())
        found = (queue for queue, time in seen if time <= instant and queue[2] >= 0)  # -1: a POP of all queues
        return sorted(queue for queue in found if not is_retry(queue) or queue in popped)


_PARTS = ("queues", "granted")


def first_seen(events: Iterable[Event]) -> dict[Place, dict[Queue, int]]:
    """Return the time of the first event about each queue of each group."""
    by_place: dict[Place, dict[Queue, int]] = defaultdict(dict)
    for event in events:
        parts = [part.get("mq", part) for name in _PARTS for part in event.get(name) or ()]
        for part in (*parts, event.fields) if "queue_id" in event.fields else parts:
            by_place[event.place].setdefault(queue_of(part), event.time)
    return by_place


def named(queue: Queue) -> str:
    """Return the name of a queue for the report."""
    topic, broker, number = queue
    return f"{topic} {broker}:{number}"


def is_retry(queue: Queue) -> bool:
    """Return whether the queue belongs to a retry topic."""
    return queue[0].startswith("%RETRY%")


def read_all(recorded: list[Event], sources: Iterable[str]) -> Reading:
    """Evaluate the telemetry that a job which reads these kinds of sources has."""
    given = frozenset(sources)
    events = [event for event in recorded if event.source in given]
    hooked = any(event.source == "hook" and event.type != "TICK" for event in events)
    claimed = claims(events)
    gaps = [gap for group in claimed.values() for gap in group.intervals if gap]
    took = [event.time - event["asked"] for event in events if event.source == "poll" and event.get("asked")]
    return Reading(
        events,
        quantities(events),
        Popped(events),
        HookCalls(events),
        owners(events) if hooked else {},
        claimed,
        first_seen(events),
        owners(event for event in recorded if event.source == "hook"),
        any(event.source == "poll" for event in events),
        int(median(gaps)) if gaps else 0,
        max(took, default=0),
    )


def owner_at(group: GroupOwners, queue: Queue, instant: int) -> str | None:
    """Return who owned a queue at an instant."""
    held = group.queues[queue].owners().at(instant)
    return held.value if held is not None else None
