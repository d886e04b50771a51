"""What a queue without a known owner is, by how the clients of its group share queues."""

from enum import Enum

from streaming.base.language import gettext
from streaming.queries.labels import NOT_KNOWN


class WithoutOwner(Enum):
    """What a queue is that has no known owner."""

    UNASSIGNED = "UNASSIGNED"
    """It should have an owner: each queue of the group has one."""
    EVERY_CLIENT = "EVERY_CLIENT"
    """Every client reads it (BROADCASTING)."""
    SHARED = "SHARED"
    """Clients pop it together."""
    UNKNOWN = "UNKNOWN"
    """Telemetry does not show who has it."""

    @property
    def label(self) -> str:
        """The text in place of an owner."""
        match self:
            case WithoutOwner.UNASSIGNED:
                return gettext("unassigned")
            case WithoutOwner.EVERY_CLIENT:
                return gettext("every client")
            case WithoutOwner.SHARED:
                return gettext("shared")
            case WithoutOwner.UNKNOWN:
                return NOT_KNOWN


def without_owner(*, message_model: str, consume_type: str, sharing: str) -> WithoutOwner:
    """Return what a queue of a group is that has no known owner.

    Args:
        message_model: the message model of the group.
        consume_type: the consume type of the group.
        sharing: `Coverage.sharing` of the group, see `GroupFacts.division`.
    """
    if message_model == "BROADCASTING":
        return WithoutOwner.EVERY_CLIENT
    if sharing == "POPPED":
        return WithoutOwner.SHARED
    if consume_type == "CONSUME_ACTIVELY" or sharing in {"PROXIED", "UNLISTED"}:
        return WithoutOwner.UNKNOWN
    return WithoutOwner.UNASSIGNED
