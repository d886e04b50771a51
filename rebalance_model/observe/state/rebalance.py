"""A rebalance, and the causes of rebalances."""

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
    """When it last locked, pulled or committed it, or when it unlocked it, by the broker's hook."""
    begun_at: int | None = None
    """When `to_client` was granted the lock or (concurrent) first pulled."""
    begun_is_exact: bool = False
    """Whether the broker's hook saw that; an answer may show a later lock or pull."""
    commit: int | None = None
    """The last commit in an answer before `from_client` lost it."""
    reread: tuple[int, int | None, int | None] = (0, 0, 0)
    """What holders in between have read again: at least, likely, at most; None: unknown."""


class Cause(msgspec.Struct, array_like=True, frozen=True):
    """An event that makes a group rebalance."""

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
    """A queue that did not have its expected owner at the last check of all: while that lasts, no other is checked."""
