"""Consumers of a group that pop, as the calls at the brokers' hooks show them (`hooks.pops`)."""

import msgspec

from rebalance_model.observe.state.client import PopTarget
from rebalance_model.observe.state.popped_queues import PoppedQueues

BUCKET_MS = 10_000
"""Counts are kept for intervals of this length; milliseconds."""
WINDOW_MS = 60_000
"""Counts are of the last minute, up to one interval more; milliseconds."""
POP_MARGIN = 10_000
"""A member pops for as long as its last POP may wait, and this; milliseconds."""
RECENT_MS = 15_000
"""A client that has a topic pops or pulls it again within this time, unless no message comes; milliseconds."""


class LastMinute(msgspec.Struct, array_like=True):
    """A count of what happened in the last minute."""

    counts: list[tuple[int, int]] = []
    """By interval: its begin, epoch milliseconds, and the number."""

    def add(self, now: int, count: int) -> None:
        """Count what happens now, and forget what is older than a minute."""
        begin = now - now % BUCKET_MS
        if self.counts and self.counts[-1][0] >= begin:
            last, known = self.counts[-1]
            self.counts[-1] = last, known + count
            return
        self.counts = [one for one in self.counts if one[0] > begin - WINDOW_MS - BUCKET_MS]
        self.counts.append((begin, count))

    def total(self, now: int) -> int:
        """Return how often it happened in the last minute."""
        return sum(count for begin, count in self.counts if begin + BUCKET_MS > now - WINDOW_MS)


class Popper(msgspec.Struct, array_like=True):
    """A member that pops, by the calls on its own channel; times are epoch milliseconds, 0: never."""

    since: int
    """When it began to pop, or a call on its channel was first seen."""
    popped_at: int = 0
    """When its last POP came that was not refused."""
    poll_ms: int = 0
    """The longest time that the last POP may wait for a message."""
    pops: LastMinute = msgspec.field(default_factory=LastMinute)
    """Its POPs since it last acknowledged or refused a message."""
    finished_at: int = 0
    """When it last acknowledged or refused a message."""
    refused_since: int = 0
    """When the first of its consecutive refused POPs came; 0: the last one was not refused."""
    refused_at: int = 0
    refused_code: int = 0
    pulled_at: int = 0
    """When it last pulled a topic that the group's members pop."""
    targets: dict[PopTarget, int] = {}
    """The targets that it pops, with the time of the last POP."""

    def active(self, now: int) -> list[PopTarget]:
        """Return what it pops at present: a POP is followed by another when it has been answered."""
        return [target for target, at in self.targets.items() if now - at <= self.poll_ms + POP_MARGIN]


class RequestModes(msgspec.Struct, array_like=True):
    """The last times at which a topic was popped and pulled."""

    popped_at: int = 0
    pulled_at: int = 0
    both_since: int = 0
    """Since when both happen; 0: they do not."""

    def both_ms(self, now: int) -> int:
        """Return for how long both have happened, milliseconds: until now if both are recent."""
        last = min(self.popped_at, self.pulled_at)
        return (now if last >= now - RECENT_MS else last) - self.both_since if self.both_since else 0


class ProxiedClient(msgspec.Struct, array_like=True):
    """A client of a proxy, by the heartbeats that the proxy copies to the others."""

    proxy: str
    language: str
    version: int
    last: int
    """When its last heartbeat was seen, at any broker."""
    pushes: bool = False
    """True if it declares that it is a push consumer, which pops all the time."""
    since: int = 0
    """When its heartbeats began, or began again after a pause."""


class PolledReturns(msgspec.Struct, array_like=True):
    """The messages that come back to consumers that pop, as polls show them (`polls.offsets`)."""

    returned: LastMinute = msgspec.field(default_factory=LastMinute)
    """Messages that were stored in the retry topics of popped topics."""
    handed_out: LastMinute = msgspec.field(default_factory=LastMinute)
    """Messages by which commits of the group's other topics advanced: those of a popped topic advance when popped."""
    returned_at: int = 0
    """When an answer last showed one; 0: never."""
    since: int = 0
    """Since when they come back again and again."""
    topic: str = ""
    """The topic of the last one."""


class Pops(msgspec.Struct, array_like=True):
    """The consumers of a group that pop, as hooks see them."""

    queues: PoppedQueues = msgspec.field(default_factory=PoppedQueues)
    poppers: dict[str, Popper] = {}
    """By client id; members with a channel of their own, not clients of a proxy."""
    modes: dict[str, RequestModes] = {}
    """By topic that is popped."""
    proxied: dict[str, ProxiedClient] = {}
    """By client id."""
    proxied_left_at: int = 0
    """When the last client of a proxy left; 0: there is one, or there never was one."""
    acked: LastMinute = msgspec.field(default_factory=LastMinute)
    expired: LastMinute = msgspec.field(default_factory=LastMinute)
    """Messages that were not acknowledged in time, and came back."""
    expired_at: int = 0
    """When the last of them came back."""
    rejected: LastMinute = msgspec.field(default_factory=LastMinute)
    """Messages that were delivered again and refused for a minute or longer."""
    rejected_at: int = 0
    returned_topic: str = ""
    """The topic of the last message of either kind."""
    covered_since: int = 0
    """Since when no call is known to be missing, of any broker; epoch milliseconds."""
    sources: dict[str, None] = {}
    """The hooks that report such calls: of a group behind proxies they may report nothing else."""
    proxies: dict[str, Popper] = {}
    """The calls on channels that are no member's, by the host that they come from: those of a proxy, for all of its
    clients together."""
