"""The history of one group, kept from one sample to the next: what changed, and when. Times are epoch milliseconds."""

from collections import Counter
from dataclasses import dataclass, field

from rebalance_model.entities import MessageQueue
from simulation.cluster import START
from tests.detection.conditions import SECOND
from tests.detection.snapshot import Snapshot

STORM_WINDOW_MS = 300 * SECOND
"""The time over which REBALANCE_STORM counts causes."""


@dataclass
class DroppedQueue:
    """A queue that a client has dropped but not yet removed from its process queue table."""

    since: int
    unlock_tried_since: int = 0
    """When the client first failed to unlock it; 0: not yet."""
    polled_tries: int = 0
    """How often the client had tried when the first poll was due to have seen it."""


@dataclass
class History:
    """The previous sample of a group, and the changes before it."""

    offsets: dict[MessageQueue, tuple[int, int]] = field(default_factory=dict)
    """Committed offset and lag."""
    expected: dict[MessageQueue, str] = field(default_factory=dict)
    owners: dict[MessageQueue, tuple[str, ...]] = field(default_factory=dict)
    owners_changed_at: int = 0
    taken_at: int = 0
    """When a client last took a queue; a release is a change of owners, too, and moves none to its expected owner."""
    expected_changed_at: int = 0
    route: dict[str, tuple[MessageQueue, ...]] = field(default_factory=dict)
    former_route: dict[str, tuple[MessageQueue, ...]] = field(default_factory=dict)
    grown_at: dict[str, int] = field(default_factory=dict)
    """When a topic last got more queues."""
    had_members: bool = False
    causes: list[tuple[int, str]] = field(default_factory=list)
    """The causes of rebalances: time, and the subject that changed."""
    member_changes: list[tuple[int, str, bool]] = field(default_factory=list)
    """Time, client id, and whether it joined (True) or left."""
    members: set[str] = field(default_factory=set)
    channels: set[str] = field(default_factory=set)
    subscribed: dict[str, set[str]] = field(default_factory=dict)
    """The topics by broker."""
    differing_at: int = -STORM_WINDOW_MS
    """When a member that differs from its group was last listed: its heartbeats and the others' change the table of
    subscriptions in turn."""
    dropped: dict[tuple[str, MessageQueue], DroppedQueue] = field(default_factory=dict)
    """By the holder's name, and queue."""
    stands_since: dict[MessageQueue, int] = field(default_factory=dict)
    """Since when the commit of a popped queue has not advanced while messages wait."""
    died_at: dict[str, int] = field(default_factory=dict)
    """When a client was last seen dead, by its name."""
    alive: dict[str, int] = field(default_factory=dict)
    """When a proxy's client was last seen to run, by its name."""
    disabled_at: int = 0
    """When a group that pops was last seen to be forbidden to consume."""
    alive_at: int = 0
    """When any client of a group that pops was last seen to run."""

    def update(self, snapshot: Snapshot) -> None:
        """Record the changes since the previous sample; before the oracles, which use them, are asked."""
        owners = {mq: tuple(sorted(c.name for c, q in held if not q.dropped)) for mq, held in snapshot.holders.items()}
        owners = {mq: names for mq, names in owners.items() if names}
        if owners != self.owners:
            if any(set(names) - set(self.owners.get(mq, ())) for mq, names in owners.items()):
                self.taken_at = snapshot.now
            self.owners, self.owners_changed_at = owners, snapshot.now
        if snapshot.expected != self.expected:
            self.expected, self.expected_changed_at = snapshot.expected, snapshot.now
        if snapshot.route != self.route:
            for topic, queues in snapshot.route.items():
                if 0 < len(self.route.get(topic, ())) < len(queues):
                    self.grown_at[topic] = snapshot.now
            self.former_route, self.route = self.route, snapshot.route
        self.had_members = self.had_members or bool(snapshot.members)
        if any(snapshot.differs(client) for client in snapshot.by_id.values()):
            self.differing_at = snapshot.now
        self._record_causes(snapshot)

    def _record_causes(self, snapshot: Snapshot) -> None:
        infos = {
            b.name: info for b in snapshot.up if (info := b.manager.consumer_table.get(snapshot.group)) is not None
        }
        changed = {f"member {cid}" for cid in snapshot.members ^ self.members}
        if snapshot.now - START < 15 * SECOND:
            self.members = snapshot.members  # a member that is there when observation begins has not joined
        self.member_changes += [(snapshot.now, cid, cid in snapshot.members) for cid in snapshot.members ^ self.members]
        for name, info in infos.items():
            topics = set(info.subscription_table)
            changed |= {f"topic {topic} {topic in topics}" for topic in topics ^ self.subscribed.get(name, topics)}
            self.subscribed[name] = topics
        channels = {f"{c.client_id} {c.channel}" for info in infos.values() for c in info.channel_info_table.values()}
        changed |= {f"member {one.split()[0]}" for one in channels ^ self.channels}
        if self.route != self.former_route and self.former_route:
            changed.add("route")
            self.former_route = {}
        self.members, self.channels = snapshot.members, channels
        recent = {one for at, one in self.causes if snapshot.now - at <= 5 * SECOND}
        self.causes += [(snapshot.now, one) for one in sorted(changed - recent)]

    def repeated_causes(self, now: int) -> int:
        """Return the number of causes in the storm window whose subject changed more than twice."""
        counts = Counter(tuple(cause.split()[:2]) for at, cause in self.causes if now - at <= STORM_WINDOW_MS)
        return sum(count for count in counts.values() if count > 2)

    def rejoins(self, now: int) -> int:
        """Return the number of joins and leaves in the storm window of members that did both."""
        changes = self._recent_member_changes(now)
        return sum((cid, True) in changes and (cid, False) in changes for cid, _ in changes)

    def certain_repeats(self, now: int) -> tuple[int, int]:
        """Return the number of joins and leaves of members that left three times, and of changes of a subscription.

        Both are of the storm window. Polls may miss every change of a subscription: each may come between the same two
        heartbeats. The retry topic does not count: a member that broadcasts does not subscribe it, and MIXED_MEMBERS
        names that member.
        """
        changes = self._recent_member_changes(now)
        repeated = {cid for cid, _ in changes if changes.count((cid, False)) > 2}
        recent = [cause for at, cause in self.causes if now - at <= STORM_WINDOW_MS]
        topics = Counter(c.split()[1] for c in recent if c.startswith("topic") and "%RETRY%" not in c)
        return sum(cid in repeated for cid, _ in changes), sum(count for count in topics.values() if count > 2)

    def _recent_member_changes(self, now: int) -> list[tuple[str, bool]]:
        return [(cid, joined) for at, cid, joined in self.member_changes if now - at <= STORM_WINDOW_MS]
