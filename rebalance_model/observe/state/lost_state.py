"""That the state of a group was lost, and what of it is known all the same."""

from typing import Literal

import msgspec

from rebalance_model.observe.state.incident import IncidentKey, IncidentState

LostPart = Literal["GROUP", "PROGRESS", "EVENT", "SHARD"]
"""What was lost: a group's own state, or that of its quantities, because it can't be read; the group's state, because
an event or a timer could not be processed; what its shard keeps beside its groups."""


class LostState(msgspec.Struct, array_like=True, frozen=True):
    """The loss of a group's state; times are epoch milliseconds."""

    part: LostPart
    since: int
    """When a part was first lost."""
    last: int
    """When it was last lost."""
    count: int
    """How often."""
    error: str
    """The last reason, in words."""
    open_incidents: dict[IncidentKey, IncidentState] = {}
    """The group's incidents that were open before, until they are resolved at its next check."""


class Remains(msgspec.Struct):
    """What is kept of a group's lost state: the fields of `GroupState` with the same names."""

    rows: int = 0
    incidents: dict[IncidentKey, IncidentState] = {}
    lost: LostState | None = None
    collector: str = ""
