"""Alerts: transitions of incidents as messages to one channel."""

from typing import Literal, TypeAlias

import msgspec

from rebalance_model.observe.effects import IncidentTransition, stable_id

Kind: TypeAlias = Literal["OPENED", "ESCALATED", "REMINDER", "RESOLVED"]
"""The kind of a message for its reader: the first one about an incident to a channel is OPENED."""


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One incident in one message."""

    key: str
    """The idempotency key: the same in every attempt."""
    kind: Kind
    notified_severity: str | None
    """The severity in the last message to the channel; None if there was none about the incident."""
    transition: IncidentTransition

    @property
    def bucket(self) -> tuple[str, str]:
        """The cluster and consumer group, whose alerts are grouped in one message."""
        return self.transition.cluster, self.transition.group


class Delivery(msgspec.Struct, frozen=True):
    """The alerts of one message to a channel."""

    key: str
    channel: str
    alerts: tuple[Alert, ...]
    summary: bool
    attempt: int
    """The number of this attempt, from 1."""


def key_of(transition: IncidentTransition, channel: str, reminder: int = 0, closing: int = 0) -> str:
    """Return the idempotency key of an alert, which differs for each reminder; 0: it is none.

    ``closing`` is when a person has last closed the incident or opened it again, epoch milliseconds; 0: never. What is
    sent for that has the transition of an earlier alert, and a key of its own.
    """
    key = f"{transition.incident_id}:{transition.seq}:{channel}"
    return ":".join([key, *(str(part) for part in (reminder, closing) if part)])


def delivery_key(keys: tuple[str, ...]) -> str:
    """Return the idempotency key of a message with these alerts."""
    return keys[0] if len(keys) == 1 else stable_id(*keys)
