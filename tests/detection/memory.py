"""What the look before saw of a group, and what every oracle says in."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from rebalance_model.client.process_queue import ProcessQueue
from rebalance_model.entities import MessageQueue
from rebalance_model.simulation.client import Client
from rebalance_model.simulation.cluster import START
from tests.detection.facts import Facts
from tests.detection.spans import Condition

S = 1_000
NONE: frozenset[str] = frozenset()
AT_ONCE = frozenset({"both"})
"""Only one source tells of the other."""
HOOK, POLL, BOTH = frozenset({"hook"}), frozenset({"poll"}), frozenset({"hook", "poll"})


@dataclass
class Dropped:
    """A queue that a client has given up, and keeps."""

    since: int
    tried_since: int = 0
    """When it had first tried to unlock it in vain; 0: not yet."""
    first: int = 0
    """How often it had tried when somebody has surely asked it."""


@dataclass
class Memory:
    """What the look before saw of the group."""

    offsets: dict[MessageQueue, tuple[int, int]] = field(default_factory=dict)
    """Commit, and lag."""
    expected: dict[MessageQueue, str] = field(default_factory=dict)
    owners: dict[MessageQueue, tuple[str, ...]] = field(default_factory=dict)
    moved_at: int = 0
    expected_at: int = 0
    route: dict[str, tuple[MessageQueue, ...]] = field(default_factory=dict)
    former_route: dict[str, tuple[MessageQueue, ...]] = field(default_factory=dict)
    grown: dict[str, int] = field(default_factory=dict)
    """When a topic last got more queues."""
    had_members: bool = False
    causes: list[tuple[int, str]] = field(default_factory=list)
    """What makes the group rebalance: when, and what it is about."""
    lives: list[tuple[int, str, bool]] = field(default_factory=list)
    """Who came (True) and went, and when."""
    members: set[str] = field(default_factory=set)
    channels: set[str] = field(default_factory=set)
    subscribed: dict[str, set[str]] = field(default_factory=dict)
    dropped: dict[tuple[str, MessageQueue], "Dropped"] = field(default_factory=dict)
    """By who keeps it, and queue."""

    def look(self, facts: Facts) -> None:
        """Take down the present, before anything is judged by it."""
        owners = {mq: tuple(sorted(c.name for c, q in held if not q.dropped)) for mq, held in facts.held.items()}
        owners = {mq: names for mq, names in owners.items() if names}
        if owners != self.owners:
            self.owners, self.moved_at = owners, facts.now
        if facts.expected != self.expected:
            self.expected, self.expected_at = facts.expected, facts.now
        if facts.route != self.route:
            for topic, queues in facts.route.items():
                if 0 < len(self.route.get(topic, ())) < len(queues):
                    self.grown[topic] = facts.now
            self.former_route, self.route = self.route, facts.route
        self.had_members = self.had_members or bool(facts.members)
        self._note_causes(facts)

    def _note_causes(self, facts: Facts) -> None:
        infos = {b.name: info for b in facts.up if (info := b.manager.consumer_table.get(facts.group)) is not None}
        what = {f"member {cid}" for cid in facts.members ^ self.members}
        if facts.now - START < 15 * S:
            self.members = facts.members  # who is there when observation begins has not come
        self.lives += [(facts.now, cid, cid in facts.members) for cid in facts.members ^ self.members]
        for name, info in infos.items():
            topics = set(info.subscription_table)
            what |= {f"topic {topic} {topic in topics}" for topic in topics ^ self.subscribed.get(name, topics)}
            self.subscribed[name] = topics
        channels = {f"{c.client_id} {c.channel}" for info in infos.values() for c in info.channel_info_table.values()}
        what |= {f"member {one.split()[0]}" for one in channels ^ self.channels}
        if self.route != self.former_route and self.former_route:
            what.add("route")
            self.former_route = {}
        self.members, self.channels = facts.members, channels
        lately = {one for at, one in self.causes if facts.now - at <= 5 * S}
        self.causes += [(facts.now, one) for one in sorted(what - lately)]

    def repeated(self, now: int) -> int:
        """How many of the last 5 min are about something that has changed more than there and back."""
        lately = Counter(tuple(what.split()[:2]) for at, what in self.causes if now - at <= 300 * S)
        return sum(count for count in lately.values() if count > 2)

    def came_and_went(self, now: int) -> int:
        """How many comings and goings there were in 5 min of members that did both."""
        lives = [(cid, came) for at, cid, came in self.lives if now - at <= 300 * S]
        return sum((cid, True) in lives and (cid, False) in lives for cid, _ in lives)

    def surely_repeated(self, now: int) -> tuple[int, int]:
        """How many comings and goings there were in 5 min of members that went three times; and how many topic flips.

        Polls may always come between the same two heartbeats, and see no flip.
        """
        lives = [(cid, came) for at, cid, came in self.lives if now - at <= 300 * S]
        again = {cid for cid, _ in lives if lives.count((cid, False)) > 2}
        flips = Counter(what.split()[1] for at, what in self.causes if now - at <= 300 * S and what.startswith("topic"))
        return sum(cid in again for cid, _ in lives), sum(count for count in flips.values() if count > 2)


Looks = Iterator[Condition]


def known(facts: Facts, mq: MessageQueue, telemetry: frozenset[str], when: bool = True) -> frozenset[str]:
    return telemetry & facts.seen_by(mq.broker) if when else NONE


def believed(facts: Facts, mq: MessageQueue) -> list[tuple[Client, ProcessQueue]]:
    """Who has it, undropped."""
    return [(client, queue) for client, queue in facts.held.get(mq, ()) if not queue.dropped]
