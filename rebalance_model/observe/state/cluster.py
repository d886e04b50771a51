"""The state of a cluster as broadcasts report it: the same in every shard."""

import msgspec

from rebalance_model.observe.state.incident import IncidentKey, IncidentState, Pending
from rebalance_model.observe.state.source import ClockSet, Loss, Sequence, Silence


class Reach(msgspec.Struct, array_like=True):
    """The way in which one collector reaches a broker (BROKER_STATUS); times are epoch milliseconds."""

    unanswered: int = 0
    """The number of consecutive requests without any answer; an error code from the broker is an answer."""
    asked_in_vain: int = 0
    """When the first of them was sent."""
    first_at: int = 0
    """When that failure was known, and when that of the second request."""
    second_at: int = 0
    reported_at: int = 0
    """When the collector last reported the broker; 0: before that was kept."""
    unlisted_since: int = 0
    """Since when no name server lists the broker, which has not answered either; 0: one does, or it is unknown."""


class ReviveBacklog(msgspec.Struct, array_like=True, frozen=True):
    """A broker's delay in giving back popped messages; times are epoch milliseconds."""

    records: int
    """Records of POPs that it has not checked yet."""
    at: int
    """When that was reported."""
    rising_since: int
    """Since when no answer has shown fewer than the one before."""
    rising_from: int
    """The number of records then."""
    late_ms: int | None = None
    """The time by which the broker is late with the next one at most, milliseconds; None: not reported."""


class WaitingLevel(msgspec.Struct, array_like=True, frozen=True):
    """The queue of a delay level in which messages wait."""

    offset: int
    """The offset of the message that the broker delivers next."""
    newest: int
    since: int
    """When an answer first showed this offset."""


class Delayed(msgspec.Struct, array_like=True, frozen=True):
    """The delayed messages of a broker."""

    at: int
    """When that was reported."""
    levels: dict[int, WaitingLevel]
    """By delay level, if messages wait in it."""
    timer_behind: int = 0
    """The time by which its timer wheel is behind, milliseconds; 0: no message is in it."""


class ClusterBroker(msgspec.Struct, array_like=True):
    """One broker, as broadcasts report it."""

    hook: str = ""
    """The source of its hook; empty: it never had one."""
    reached_by: dict[str, Reach] = {}
    """By collector."""
    skew: tuple[int, int] | None = None
    """The bounds of how far its clock is ahead of the cluster's, milliseconds; None: never measured."""
    skew_since: int = 0
    """When the request was sent that first showed its clock in the present condition: right, ahead or behind."""
    revive: ReviveBacklog | None = None
    """Its revive group's backlog; None: it has never reported one."""
    boots: list[int] = []
    """The boot times of its answers, the one that came last at the end; epoch milliseconds by its clock."""
    boot_returns: list[int] = []
    """When a boot time came back that had been followed by another one: two brokers have this name."""
    delayed: Delayed | None = None
    """None: it has never reported its delayed messages."""
    foreign_boots: list[int] = []
    """Boot times of the other broker of this name (`broker_name_shared`)."""


class ClusterProxy(msgspec.Struct, array_like=True):
    """One proxy, as collectors report it."""

    reached_by: dict[str, Reach] = {}
    """By collector."""
    is_stated: bool = False
    """True if a collector has ever sent PROXY_STATUS of it, which is the same in every shard."""


class ClusterState(msgspec.Struct):
    """The brokers, hooks and collectors of a cluster, as broadcasts report them: the same in every shard."""

    cluster: str
    group: str = ""
    """Always empty: a row of the cluster has no group."""
    sequences: dict[str, Sequence] = {}
    """By source, its last broadcast."""
    sources: dict[str, str] = {}
    """By broker or collector, its source; for a broker that of its newest hook."""
    collectors: dict[str, None] = {}
    brokers: dict[str, ClusterBroker] = {}
    silent: dict[str, Silence] = {}
    """Sources that are silent or late."""
    ended: dict[str, int] = {}
    """Sources that have reported their end, and when."""
    losses: dict[str, Loss] = {}
    """By source, its last report of events that it could not send."""
    incidents: dict[IncidentKey, IncidentState] = {}
    """By ``code subject``."""
    pending: dict[IncidentKey, Pending] = {}
    unsettled: dict[str, int] = {}
    """The number of open and pending incidents, by subject."""
    next_check: int = 0
    """When everything has to be judged again; 0: at no known time."""
    rows: int = 0
    clocks_set: dict[str, ClockSet] = {}
    """By source, the last time that its clock was set."""
    gone: dict[str, int] = {}
    """Brokers that the cluster no longer has, and since when: a collector still asks them for a while."""

    proxies: dict[str, ClusterProxy] = {}
    """By address."""
    opened: dict[IncidentKey, int] = {}
    """When incidents that may come back had been opened, in the order of their ends."""

    def keeps_up(self, source: str) -> bool:
        """Return whether the source ticks, and is not late."""
        return source not in self.silent and source not in self.ended

    def is_watched(self, broker: str) -> bool:
        """Return whether calls at a broker are seen: it has a hook that reports."""
        hook = self.brokers[broker].hook
        return bool(hook) and hook not in self.silent and hook not in self.ended

    @property
    def has_all_hooks(self) -> bool:
        """Return whether every broker has a hook that reports."""
        return bool(self.brokers) and all(map(self.is_watched, self.brokers))

    @property
    def has_no_silent_hook(self) -> bool:
        """Return whether each hook that brokers have reports: nothing is missing of what was seen before."""
        return all(self.keeps_up(one.hook) for one in self.brokers.values() if one.hook)

    def incident(self, code: str, subject: str) -> IncidentState | None:
        """Return the incident of that code and subject that holds now; None also while it waits to be resolved."""
        found = self.incidents.get(IncidentKey(code, subject))
        return found if found is not None and found.cleared_at is None else None
