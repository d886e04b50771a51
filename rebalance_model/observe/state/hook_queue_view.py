"""The view that a broker's hook has of one queue."""

import msgspec

from rebalance_model.client import ProcessQueue


class Refusals(msgspec.Struct, array_like=True):
    """The consecutive refusals of one client that requests a queue's lock."""

    first: int
    last: int
    count: int = 1
    orphaned: int = 0
    """When it was last refused because a client that was no member held the lock; 0: never."""
    kept: int = 0
    """The number of times that it was refused since then because a member held it."""


class Regression(msgspec.Struct, array_like=True):
    """A commit below the one before it, kept until a later one passes the mark."""

    mark: int
    """The commit before the fall."""
    to: int
    """The lowest commit since."""
    at: int
    cause: str
    channel: str
    """The channel of that commit: the client may become known later."""
    counts: bool
    """True if it counts already; see `commits`."""
    consume_time_ms: int | None
    """The time that it took to consume from `to` to `mark`, milliseconds; None: unknown."""


class Reread(msgspec.Struct, array_like=True):
    """Messages that are consumed again."""

    start: int
    mark: int
    """The highest commit before."""
    client_id: str
    """The client that reads them again."""
    rebalance_id: str
    """The rebalance that caused it; empty: none was in progress."""
    consume_time_ms: int | None
    """The time that it took to consume them, milliseconds; None: unknown."""


class FormerHolder(msgspec.Struct, array_like=True):
    """The offset that a client had reached when it lost the queue, or when its broker restarted."""

    client_id: str
    commit: int
    """The highest offset committed until then, or by it since; -1: unknown."""
    pulled: int
    """The offset up to which it may have consumed; -1: unknown."""
    consumed: int
    """The offset that it had reached, estimated by its rate of consumption; -1: unknown."""
    lost_at: int
    channel: str
    """The channel of its last pull: the report of its last second's pulls may follow."""


class ConcurrentPuller(msgspec.Struct, array_like=True):
    """A client that pulls a queue beside the holder."""

    client_id: str
    since: int
    pull_time: int


_PULLED_AGAIN_WITHIN = 30_000
"""A client whose pull was refused pulls again within this time, or no longer has the queue; milliseconds."""


class PullError(msgspec.Struct, array_like=True):
    """Consecutive pulls of a queue that its broker answered with an error; see `pull_errors`."""

    code: int
    """The response code of the last one."""
    since: int
    last: int
    count: int
    client_id: str | None
    """The client of the last one; None: unknown, because it is not a member."""
    channel: str = ""
    """The channel of the last one."""

    @property
    def over_at(self) -> int:
        """Return until when another one may follow; epoch milliseconds."""
        return self.last + _PULLED_AGAIN_WITHIN


class MovedOffset(msgspec.Struct, array_like=True, frozen=True):
    """A commit on a channel that belongs to no client: a tool moves the offset forward."""

    first: int
    """Offset up to which the queue was consumed."""
    start: int
    """The commit."""
    since: int
    """When the commit before it was made; epoch milliseconds."""
    channel: str


class HookQueueView(msgspec.Struct, array_like=True):
    """One queue as the broker's hook has seen it."""

    holder: str | None = None
    """The client that locked it last, or (concurrent) last began to pull it; None: no client, or unknown."""
    observed_at: int = 0
    """When that was: an answer to an older request is older evidence. 0: never."""
    pull_time: int = 0
    """The holder's last pull."""
    pull_offset: int = -1
    commit_time: int = 0
    commit_offset: int = -1
    holder_since: int = 0
    """When the holder took it."""
    asked_at: int = 0
    """When a client last queried the offset to begin at (QUERY_CONSUMER_OFFSET)."""
    start_offset: int = -1
    """The offset where the holder began to pull, or went back to; -1: it has not pulled yet."""
    start_commit: int = -1
    """The commit when it took the queue."""
    pulled_again: bool = False
    """True if its last pull requested the same offset as the one before: no message was there."""
    committer: str | None = None
    """The client that committed last."""
    advanced_at: int = 0
    """When the commit last advanced."""
    waiting_since: int = 0
    """Since when pulled messages have waited for the commit to advance; 0: none wait."""
    commit_at_restart: int = -1
    """The commit when the broker restarted, kept until the next commit; -1: none is kept."""
    refusals: dict[str, Refusals] = {}
    """Clients that are refused its lock, by client id."""
    lock_handovers: tuple[tuple[str, int, str], ...] = ()
    """The last four clients that took its lock from another one, when, and among which members (a hash)."""
    last_sign: int = 0
    """When the holder was last granted the lock, pulled, or committed."""
    begun_at: int = 0
    """When the holder was granted the lock or (concurrent) first pulled, since it has the queue or its broker
    restarted; 0: it has not yet."""
    channel: str = ""
    """The channel of the holder's last pull."""
    regression: Regression | None = None
    reread: Reread | None = None
    former: FormerHolder | None = None
    """The last consumer of the queue before this holder, or before the broker restarted."""
    concurrent_puller: ConcurrentPuller | None = None
    lost_by: str = ""
    """The client that lost the queue last, whether it had pulled it or not; empty: unknown."""
    lost_by_sign: int = 0
    """When that client unlocked the queue; otherwise its last lock, pull or commit before it lost the queue."""
    pull_error: PullError | None = None
    """The pulls that are answered with an error; None: the last one was served."""
    voided_at: int = 0
    """When a pull of it was last answered with PULL_OFFSET_MOVED or TOPIC_NOT_EXIST; 0: never."""
    not_found_at: int = 0
    """When a query for its offset was last answered with QUERY_NOT_FOUND; 0: never."""
    consumed_to: int = -1
    """Up to where it was consumed when its holder queried its offset, until the holder pulls; -1: unknown, or it is new
    to the group."""
    behind_since: int = 0
    """Since when the newest offset that the broker has answered is beyond the commit; 0: it is not, or unknown."""
    moved: MovedOffset | None = None
    """The last commit of a tool, until a client queries the offset and pulls; None: there was none."""

    @property
    def process_queue(self) -> ProcessQueue:
        """Return the holder's process queue, as far as its pulls show it."""
        return ProcessQueue(self.pull_time or None, None, None)
