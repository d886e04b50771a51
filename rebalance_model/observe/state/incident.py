"""An incident, first pending, then open."""

from typing import Literal, NamedTuple, Protocol

import msgspec

from rebalance_model.entities import MessageQueue


class IncidentKey(NamedTuple):
    """The subject of an incident: a group has at most one of a key at a time."""

    code: str
    subject: str = ""
    """A queue as ``topic@broker:id``, a client, a broker, a rebalance; empty: the group itself."""

    def __str__(self) -> str:
        return f"{self.code} {self.subject}".rstrip()


class Pending(msgspec.Struct, array_like=True):
    """A condition that holds, but not for long enough to open an incident."""

    since: int
    """Since when it has held, moved forward by the time in which that was unknown."""
    frozen_at: int | None = None

    def freeze(self, now: int) -> None:
        """Stop counting time: it is no longer known whether the condition holds."""
        if self.frozen_at is None:
            self.frozen_at = now

    def thaw(self, now: int) -> None:
        """Count time again: the unknown time is left out."""
        if self.frozen_at is not None:
            self.since += now - self.frozen_at
            self.frozen_at = None


class HeldCause(msgspec.Struct, array_like=True):
    """One sub-cause of an open incident."""

    sub_cause: str
    client_id: str | None
    """The client that caused it when it was first seen."""
    held_ms: int = 0
    """The time that it has held, up to `IncidentState.counted_until`; milliseconds."""


class IncidentState(msgspec.Struct, array_like=True):
    """An open incident."""

    incident_id: str
    code: str
    subject: str
    opened_at: int
    severity: Literal["info", "warning", "critical"]
    sub_cause: str
    queue: MessageQueue | None
    client_id: str | None
    parent: str | None = None
    cleared_at: int | None = None
    """Since when it has been clear; None while it is not."""
    causes: list[HeldCause] = []
    """Every sub-cause that it has had, the first one first."""
    holds_since: int = 0
    """When it opened, or last held again after it had been clear."""
    counted_until: int = 0
    """Until when `causes` counts the time of the present sub-cause."""
    absorbed: bool = False
    """True if its parent's alert stands for it, too; without a parent False."""
    reopened_after: int | None = None
    """When the former incident of the same key was opened, if that was not long before (`lifecycle.RETURNS_WITHIN`)."""

    @property
    def key(self) -> IncidentKey:
        """Return the subject of the incident."""
        return IncidentKey(self.code, self.subject)

    @property
    def main_cause(self) -> HeldCause:
        """Return the sub-cause that held longest; among equals the first."""
        return max(self.causes, key=lambda cause: cause.held_ms)

    def count(self, now: int) -> None:
        """Add the time since the last count to the present sub-cause, unless the condition is clear."""
        cause = next((cause for cause in self.causes if cause.sub_cause == self.sub_cause), None)
        if cause is None:
            self.causes.append(cause := HeldCause(self.sub_cause, self.client_id))
        if self.cleared_at is None:
            cause.held_ms += now - self.counted_until
        self.counted_until = now


LostPart = Literal["GROUP", "PROGRESS", "EVENT", "SHARD"]
"""The part that was lost: a group's own state, or that of its quantities, because it can't be read; the group's state,
because an event or a timer could not be processed; what its shard keeps beside its groups."""


class LostState(msgspec.Struct, array_like=True, frozen=True):
    """The loss of a group's state; times are epoch milliseconds."""

    part: LostPart
    since: int
    """When a part was first lost."""
    last: int
    """When it was last lost."""
    count: int
    """The number of times."""
    error: str
    """The last reason, in words."""
    open_incidents: dict[IncidentKey, IncidentState] = {}
    """The group's incidents that were open before, until they are resolved at its next check."""


class Remains(msgspec.Struct):
    """The rest of a group's lost state: the fields of `GroupState` with the same names."""

    rows: int = 0
    incidents: dict[IncidentKey, IncidentState] = {}
    lost: LostState | None = None
    collector: str = ""


class Judged(Protocol):
    """A subject with incidents: a group, or a cluster."""

    cluster: str
    group: str
    incidents: dict[IncidentKey, IncidentState]
    pending: dict[IncidentKey, Pending]
    unsettled: dict[str, int]
    opened: dict[IncidentKey, int]
    next_check: int
    rows: int
