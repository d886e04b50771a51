"""What a client has reported of itself."""

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import Subscription
from rebalance_model.observe.state.process_queue import ProcessQueueView

UNANSWERED_POLLS = 2
"""A client or broker is unresponsive after this many consecutive unanswered requests."""


class ClientView(msgspec.Struct, array_like=True):
    """What a client last reported of itself (GET_CONSUMER_RUNNING_INFO)."""

    asked: int
    """When it was last asked, with or without an answer; by the collector's clock, as all times but `client_now`."""
    answered: int
    """When its last answer came; 0 before the first."""
    asked_at_answer: int = 0
    """When the request was sent that it last answered."""
    client_now: int = 0
    """The newest stamp in that answer, by the client's clock."""
    orderly: bool | None = None
    strategy: str = ""
    start_time: int = 0
    subscriptions: tuple[Subscription, ...] = ()
    queues: dict[MessageQueue, ProcessQueueView] = {}
    unanswered: int = 0
    """The number of consecutive requests without an answer, though the broker answers."""
    unanswered_since: int = 0
    """When the first of them was sent."""
    discovered: bool = False
    """Whether it was a member when observation began: the queues in its first answer are not new assignments."""
    asked_before: int = 0
    """When the request of its answer before the last one was sent."""
    declared: int = 0
    """The number of consecutive answers with the same strategy and consume mode, counted up to 2."""
    pops: bool = False
    """Whether it pops from shared queues instead of pulling from its own."""
    heartbeat_subscriptions: tuple[Subscription, ...] = ()
    """The subscriptions of its last heartbeat that had any; see `subscriptions`."""
    subscriptions_observed_at: int = 0
    """When that heartbeat came; 0: never."""
    skew: tuple[int, int] | None = None
    """The bounds of its clock minus the collector's, milliseconds; None: unknown. See `clock_skew`."""
    readable: bool = True
    """Whether its last answer could be read, and it knows the request: else it is alive, and does not report its
    queues."""
    unreadable: tuple[str, ...] = ()
    """What of its last answer can't be read, each with the reason."""
    consume_type: str = ""
    """As it last declared it, in a heartbeat or an answer; empty: not known."""
    threads_max: int | None = None
    """The size of its pool of listener threads (consumeThreadMax); None: not reported."""
    threads_in_listener: int | None = None
    """How many of them were in the listener when their stacks were last asked for; None: never asked."""
    message_model: str = ""
    """As it last declared it; empty: not known."""

    def age_of(self, stamp: int | None, seen: int) -> int | None:
        """Return the minimum age of a stamp when its last answer came (ms); None: the stamp is unknown.

        Args:
            stamp: by the client's clock.
            seen: when the first answer came that carried it.
        """
        return max(self.client_now - stamp, self.asked_at_answer - seen, 0) if stamp is not None else None

    def trusts_lock(self, held: ProcessQueueView, limit: int) -> bool:
        """Return whether its last answer shows that it has the lock of a queue and trusts it: it consumes the queue.

        That is what ConsumeMessageOrderlyService.ConsumeRequest.run requires.
        """
        is_known = bool(held.locked) and held.last_lock_timestamp is not None
        return is_known and not held.is_lock_expired(self.client_now, limit, self.asked_at_answer)

    def time_of(self, stamp: int) -> int:
        """Bring a stamp of its last answer to the timeline; epoch milliseconds.

        Its clock is trusted unless its answers contradict that. Then the newest stamp is taken to coincide with the
        arrival of the answer that shows the smallest difference.
        """
        low, high = self.skew or (self.client_now - self.answered, -1)
        return min(stamp if low <= 0 <= high else stamp - low, self.answered)

    @property
    def silent(self) -> bool:
        """Return whether the client is unresponsive; a single failed request may be a long garbage collection."""
        return self.unanswered >= UNANSWERED_POLLS
