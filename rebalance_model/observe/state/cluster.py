"""What broadcasts say of a cluster: the same in every shard."""

import msgspec

from rebalance_model.observe.state.incident import Incident, Pending
from rebalance_model.observe.state.source import Loss, Sequence, Silence


class Reach(msgspec.Struct, array_like=True):
    """How one collector reaches a broker (BROKER_STATUS); times are epoch milliseconds."""

    unanswered: int = 0
    """Questions in a row without any answer, even an error of the broker's own."""
    asked_in_vain: int = 0
    """When the first of them was asked."""
    first_at: int = 0
    """When that was known, and when of the second one."""
    second_at: int = 0


class ClusterBroker(msgspec.Struct, array_like=True):
    """What broadcasts say of one broker."""

    hook: str = ""
    """The source of its hook; empty: it never had one."""
    reached_by: dict[str, Reach] = {}
    """By collector."""
    skew: tuple[int, int] | None = None
    """Its clock is ahead of the cluster's by at least and at most so many milliseconds; None: never measured."""
    skew_since: int = 0
    """When the question was asked that first showed that its clock is as it is: right, ahead or behind."""


class ClusterState(msgspec.Struct):
    """What broadcasts say of a cluster's brokers, hooks and collectors: the same in every shard."""

    cluster: str
    group: str = ""
    """A row of the cluster has no group."""
    sequences: dict[str, Sequence] = {}
    """By source, its last broadcast."""
    sources: dict[str, str] = {}
    """By broker or collector, its source; of a broker its newest hook."""
    collectors: dict[str, None] = {}
    brokers: dict[str, ClusterBroker] = {}
    silent: dict[str, Silence] = {}
    """Sources that are silent or late."""
    ended: dict[str, int] = {}
    """Sources that have reported their end, and when."""
    losses: dict[str, Loss] = {}
    """By source, its last report of events that it could not send."""
    incidents: dict[str, Incident] = {}
    """By ``code subject``."""
    pending: dict[str, Pending] = {}
    unsettled: dict[str, int] = {}
    """How many of both there are, by their subjects."""
    next_check: int = 0
    """When everything is to be judged again; 0: no time is known."""
    rows: int = 0

    def keeps_up(self, source: str) -> bool:
        """Whether the source ticks, and is not late."""
        return source not in self.silent and source not in self.ended

    def incident(self, code: str, subject: str) -> Incident | None:
        """The incident of that code and subject that holds now; None also while it waits to be resolved."""
        found = self.incidents.get(f"{code} {subject}")
        return found if found is not None and found.cleared_at is None else None
