"""One queue: its owner, its expected owner, and its progress."""

from typing import Literal

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.state.hook_queue_view import HookQueueView


class LastQueueRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The values in the last QueueSnapshot: another row is written when one of them changes."""

    owner: str | None
    expected_owner: str | None
    locked: bool | None
    status: Literal["OK", "WARN", "BAD", "UNKNOWN"]
    status_reason: str
    shared_by: tuple[str, ...] | None = None


class Unassigned(msgspec.Struct, array_like=True, frozen=True):
    """The time since which a queue has no owner, and how that began."""

    since: int
    """Epoch milliseconds."""
    how: Literal["RELEASED", "NEW", ""] = ""
    """RELEASED: its owner was seen to release it; NEW: the route did not have it before."""
    lag: int | None = None
    """The lag at that time, messages."""
    expected_owner: str | None = None
    """The client that the strategy last assigned it to."""


class LagTrend(msgspec.Struct, array_like=True):
    """The development of the lag, and the usual rates at which the queue is filled and consumed."""

    at: int
    """When the present period of measuring the usual rates began."""
    commit: int
    broker: int
    rising_since: int
    """Since when lag has been above its value at that time, and has not fallen."""
    rising_commit: int
    rising_broker: int
    top: int
    """The highest lag since then."""
    top_at: int
    produced: int | None = None
    """The usual rate, messages per hour; None: not known yet."""
    consumed: int | None = None


class FallenBack(msgspec.Struct, array_like=True):
    """A commit that answers show below an earlier one."""

    mark: int
    """The commit before the fall."""
    to: int
    """The lowest commit since."""
    answers: int = 0
    """The number of answers that have shown a lower commit; whether an offset 0 is one is unknown."""
    since: int = 0
    """When the answer before came: it fell later; epoch milliseconds. 0: unknown."""


EndedBy = Literal["TOPIC_DELETED", "QUEUE_REMOVED", "NOT_SUBSCRIBED", "BROKER_GONE", "NOT_READ"]
"""Why a queue has ended; see `group.ended_queues`."""


class Ended(msgspec.Struct, array_like=True, frozen=True):
    """The end of a queue: the cluster no longer has it, or the group no longer consumes its topic."""

    since: int
    """When that was certain; epoch milliseconds. 0: before the group was observed."""
    why: EndedBy
    newest_offset: int | None = None
    """Its newest offset then, by its broker's last answer; None: unknown."""


class NewestFall(msgspec.Struct, array_like=True, frozen=True):
    """A fall of the queue's newest offset: its topic was created again, or its broker lost messages."""

    mark: int
    """The newest offset before."""
    to: int
    at: int
    """When the answer came that shows it; epoch milliseconds."""


class Skipped(msgspec.Struct, array_like=True, frozen=True):
    """The messages that the group skipped when it began the queue, or later; see `group.skipped`, `group.jumps`."""

    first: int
    """The first message that was not consumed."""
    start: int
    """Where the group began: the messages before are not read."""
    at: int
    """When that was seen; epoch milliseconds."""
    why: Literal["SKIPPED", "EXPIRED", "JUMPED", "WHILE_EMPTY"] = "SKIPPED"
    by: str = ""
    """The channel of the tool that moved the offset; empty: unknown, or none did."""
    before: int = 0
    """The number of messages that were skipped before in the same way."""


class Retaken(msgspec.Struct, array_like=True):
    """A queue that a client dropped and took again, while its commit did not advance; see `group.retaken`."""

    client_id: str
    since: int
    """When it first did; epoch milliseconds."""
    last: int
    """When it last did."""
    commit: int
    """The commit meanwhile; -1: unknown."""
    count: int = 1


class Deletion(msgspec.Struct, array_like=True, frozen=True):
    """An answer in which the oldest stored message was another one than before: the store has deleted messages."""

    at: int
    """Epoch milliseconds."""
    oldest: int
    """The offset of the oldest stored message from then on."""
    read_to: int
    """Up to where the queue was read then, see `OldestOffset.read_to`."""


class OldestOffset(msgspec.Struct, array_like=True):
    """The oldest message that the broker stores of a queue, and how fast it deletes them; see `group.expiring`."""

    offset: int
    read_to: int
    """Up to where the group had read the queue: its commit, or what its owner has pulled, if that is more."""
    at: int
    """When the answer came that shows both; epoch milliseconds."""
    asked: int
    since: Deletion | None = None
    """The deletion from which the pace is measured; None: none was seen yet."""
    then: Deletion | None = None
    """A later one, from which it is measured when the other is too long ago."""
    deleted_at: int = 0
    """When the last one was seen; epoch milliseconds. 0: none was."""
    was_read: bool = False
    """True if everything up to the oldest message was read, by an answer before."""


class QueueState(msgspec.Struct, array_like=True):
    """One queue: its owner, its expected owner, and its progress."""

    owner: str | None = None
    expected_owner: str | None = None
    former_owner: str | None = None
    released_at: int | None = None
    lock_free_at: int | None = None
    """When the former owner's lock expires at the broker; None: it held none."""
    commit_offset: int | None = None
    broker_offset: int | None = None
    commit_known: bool = False
    """If no commit was ever seen, an offset 0 may mean that none is stored."""
    stats_at: int = 0
    """When its offsets last came."""
    stalled_ms: int = 0
    """Covered time with lag and without an advance of the commit; milliseconds."""
    last_row: LastQueueRow | None = None
    hook_view: HookQueueView | None = None
    in_route: bool = False
    """True if the topic's route has it."""
    unassigned: Unassigned | None = None
    """None while it has an owner, and before that could be known."""
    dropped_by: str | None = None
    """The client whose last answer shows it dropped, but still held."""
    rival: str | None = None
    """The client other than the owner whose answer last claimed the queue."""
    lag_trend: LagTrend | None = None
    """None before its lag was known."""
    owner_seen: tuple[str, int] | None = None
    """The owner that last confirmed that it has the queue, and the newest lock or pull in that answer."""
    rebalance_id: str = ""
    """The last rebalance that moved or interrupted it."""
    fallen_back: FallenBack | None = None
    """By the broker's answers (GET_CONSUME_STATS), until one shows a commit that has passed the mark."""
    first_offset: int | None = None
    """The first message that waits at its owner, while no commit was ever seen; None: none is known."""
    ended: Ended | None = None
    """None: the cluster has it, and the group consumes its topic, as far as is known."""
    pull_offset: int = -1
    """Offset up to which it is pulled, by answers (OffsetWrapper.pullOffset); -1: unknown, as before 5.x."""
    pull_advanced_at: int = 0
    """When an answer last showed an advance of that offset."""
    filled_after: int = 0
    """When the last answer came before its newest offset rose; 0: it was not seen to rise."""
    newest_fall: NewestFall | None = None
    """The last fall of its newest offset, by answers of its broker's master."""
    beyond_since: int = 0
    """Since when answers show a commit beyond the newest offset; 0: they do not."""
    new_since: int = 0
    """When the topic's route got it while the group consumed others of the topic; 0: it did not."""
    skipped: Skipped | None = None
    returned_at: int = 0
    """When its topic was subscribed again, or the cluster had it again: nobody was to consume it before. 0: always."""
    claimants: tuple[str, ...] = ()
    """The clients whose last answer shows it, dropped or not, in the order of these answers."""
    retaken: Retaken | None = None
    """None: its owner has not taken it again since its commit advanced."""
    advanced_at: int = 0
    """When an answer last showed an advance of the commit; 0: none has."""
    oldest: OldestOffset | None = None
    """None: its broker was not asked."""

    @property
    def position(self) -> int | None:
        """Return the offset of the first message that is not consumed, by answers; None if it is unknown.

        A broker answers 0 both for "committed 0" and for "none stored" (AdminBrokerProcessor.getConsumeStats). While no
        other commit was seen, the first message that the owner has cached or in its listener is the position.
        """
        return self.commit_offset if self.commit_known else self.first_offset

    @property
    def lag(self) -> int | None:
        """Return how many messages wait; None if that is unknown.

        It is unknown where nothing shows a commit, unless nothing was ever sent to the queue; and where the commit is
        beyond the newest offset, as after its topic was created again.
        """
        position = self.commit_offset if self.commit_known else self.first_offset
        if self.broker_offset is None or (position is None and self.broker_offset > 0):
            return None
        return self.broker_offset - (position or 0) if (position or 0) <= self.broker_offset else None


class Route(msgspec.Struct, array_like=True):
    """The read queues of one topic, in Java's order."""

    queues: tuple[MessageQueue, ...]
    asked: int
    former: tuple[MessageQueue, ...] = ()
    """The queues before the last change, until every owner follows it."""
    changed_at: int = 0
    """When that change was seen."""
    lost: tuple[MessageQueue, ...] = ()
    """The queues that it no longer has, until they have ended (`group.ended_queues`)."""
    missing_since: int = 0
    """When it was requested that the name server first answered that there is no such topic (17); 0: there is one."""
    beyond: tuple[MessageQueue, ...] = ()
    """Queues that it lacks though members have them and their broker reports them: the collector's route is incomplete,
    and no owner can be expected."""


class RouteSplit(msgspec.Struct, array_like=True, frozen=True):
    """Members whose route of a topic lacks brokers that the route of others has; see `group.route_views`."""

    topic: str
    behind: tuple[str, ...]
    """The members whose route lacks brokers."""
    lacks: tuple[tuple[str, ...], ...]
    """The brokers that their route lacks; several sets: it is one of them."""
    affected: tuple[MessageQueue, ...]
    """The queues that they have and should not, or should have and do not, in Java's order."""
    since: int
    """Since when they have had the queues that show it, at the earliest; epoch milliseconds."""
