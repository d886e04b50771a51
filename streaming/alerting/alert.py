"""What is told: an incident's transition, as a message about it, to one channel."""

from typing import Literal, TypeAlias

import msgspec

from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.identity import stable_id

Kind: TypeAlias = Literal["OPENED", "ESCALATED", "REMINDER", "RESOLVED"]
"""What a message is to whoever reads it: the first that a channel is told of an incident is OPENED."""


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One incident in one message."""

    key: str
    """Names this telling: the same in every attempt."""
    kind: Kind
    told_severity: str | None
    """The severity that the channel was told last; None: it has been told nothing of the incident."""
    transition: IncidentTransition

    @property
    def bucket(self) -> tuple[str, str]:
        """What is told together: a consumer group's."""
        return self.transition.cluster, self.transition.group


class Delivery(msgspec.Struct, frozen=True):
    """The alerts of one message to a channel."""

    key: str
    channel: str
    alerts: tuple[Alert, ...]
    summary: bool
    attempt: int
    """This one: 1 is the first."""


def key_of(transition: IncidentTransition, channel: str, reminder: int = 0) -> str:
    """The idempotency key of telling a channel of a transition; each reminder of it has one of its own."""
    key = f"{transition.incident_id}:{transition.seq}:{channel}"
    return f"{key}:{reminder}" if reminder else key


def delivery_key(keys: tuple[str, ...]) -> str:
    """The idempotency key of a message with these alerts."""
    return keys[0] if len(keys) == 1 else stable_id(*keys)
