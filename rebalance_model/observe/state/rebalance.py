"""A rebalance, and what makes a group rebalance."""

import msgspec

from rebalance_model.entities import MessageQueue


class Move(msgspec.Struct, array_like=True):
    """One queue within an open rebalance."""

    from_client: str | None
    """The owner before the rebalance; None: it never had one."""
    to_client: str | None
    """The owner now."""
    polled_sign: int | None
    """When `from_client` last locked or pulled it, as its answers showed."""
    hook_sign: int | None = None
    """When it last did, unlocked it or committed, by the broker's hook."""
    begun_at: int | None = None
    """When `to_client` was granted the lock or (concurrent) first pulled."""
    begun_is_exact: bool = False
    """Whether the broker's hook saw that; an answer shows a later lock or pull, perhaps."""
    commit: int | None = None
    """The last commit that an answer had shown when `from_client` lost it."""
    reread: tuple[int, int | None, int | None] = (0, 0, 0)
    """What holders in between have read again: at least, likely, at most; None: not known."""


class Cause(msgspec.Struct, array_like=True, frozen=True):
    """Something that makes a group rebalance."""

    time: int
    """Epoch milliseconds."""
    code: str
    subject: str
    client_id: str | None


class Episode(msgspec.Struct, array_like=True):
    """A rebalance that has not settled."""

    rebalance_id: str
    start_time: int
    trigger: str
    trigger_client: str | None
    causes: list[str]
    members_before: tuple[str, ...]
    last_cause: int
    last_change: int
    moves: dict[MessageQueue, Move] = {}
    waits_for: MessageQueue | None = None
    """A queue that was not yet where it belongs when all were last looked at: until it is, the others need no look."""
