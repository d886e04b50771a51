"""Reports of a client about itself and its process queues."""

from typing import NamedTuple

import msgspec

from rebalance_model.allocation.server_side import ALL_QUEUES
from rebalance_model.client import ProcessQueue
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import Subscription


class PopTarget(NamedTuple):
    """A queue that a client pops, or all queues of a topic at a broker."""

    topic: str
    broker: str
    queue_id: int
    """-1: all queues of the broker."""

    def covers(self, mq: MessageQueue) -> bool:
        """Return whether a client that pops this gets messages of the queue."""
        return (self.topic, self.broker) == (mq.topic, mq.broker) and self.queue_id in (ALL_QUEUES, mq.queue_id)


UNANSWERED_POLLS = 2
"""A client or broker is unresponsive after this many consecutive unanswered requests."""


class ProcessQueueView(ProcessQueue, array_like=True, kw_only=True):
    """One process queue as the last answer showed it; None: it can't be read, or was not sent.

    Its stamps are by the client's clock, all other times by the collector's.
    """

    commit_offset: int | None = None
    cached_count: int | None = None
    transaction_count: int | None = None
    claimed_since: int = 0
    """When the first of the consecutive answers was requested that hold the queue in this way, or dropped."""
    first_unlock_attempts: int = 0
    """The number of unlock attempts in the first answer that showed any."""
    first_offset: int | None = None
    """The lowest offset of the messages that it has cached or in its listener; None: it has none, or unknown."""
    lock_seen: int = 0
    """When the first answer came that carried the stamp of its lock."""
    pull_seen: int = 0
    consume_seen: int = 0
    made: int = 0
    """When the client made it again for a queue that it had: the stamp that shows it, by its clock; 0: never."""

    def newest(self, *, orderly: bool) -> int | None:
        """Return when it was last locked (ordered) or pulled, by the client's clock; epoch milliseconds."""
        locked, pulled = self.last_lock_timestamp, self.last_pull_timestamp
        if locked is None or not (orderly and self.locked):
            return pulled
        return locked if pulled is None else max(locked, pulled)


class ClientView(msgspec.Struct, array_like=True):
    """The last report of a client about itself (GET_CONSUMER_RUNNING_INFO)."""

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
    """True if it was a member when observation began: the queues in its first answer are not new assignments."""
    asked_before: int = 0
    """When the request of its answer before the last one was sent."""
    declared: int = 0
    """The number of consecutive answers with the same strategy and consume mode, counted up to 2."""
    popped: tuple[PopTarget, ...] = ()
    """The queues that it pops, by its last answer; it shares them with others."""
    full: tuple[PopTarget, ...] = ()
    """The targets that had too many messages without an acknowledgement in that answer: it does not pop them."""
    full_since: int = 0
    """When the first of the consecutive answers came in which it was full; 0: it is not."""
    unacked: int | None = None
    """The number of messages that it had popped and not acknowledged in that answer; None: unknown."""
    heartbeat_subscriptions: tuple[Subscription, ...] = ()
    """The subscriptions of its last heartbeat that had any; see `subscriptions`."""
    subscriptions_observed_at: int = 0
    """When that heartbeat came; 0: never."""
    skew: tuple[int, int] | None = None
    """The bounds of its clock minus the collector's, milliseconds; None: unknown. See `clock_skew`."""
    readable: bool = True
    """True if its last answer could be read, and it knows the request: else it is alive, and does not report its
    queues."""
    unreadable: tuple[str, ...] = ()
    """The parts of its last answer that can't be read, each with the reason."""
    consume_type: str = ""
    """The consume type that it last declared, in a heartbeat or an answer; empty: not known."""
    threads_max: int | None = None
    """The size of its pool of listener threads (consumeThreadMax); None: not reported."""
    threads_in_listener: int | None = None
    """The number of them in the listener when their stacks were last asked for; None: never asked, or unknown."""
    message_model: str = ""
    """The message model that it last declared; empty: not known."""
    language: str = ""
    """The language in its broker's list; empty: not known."""
    consume_timeout: int | None = None
    """The longest time that its listener may have a message before the client sends it back (consumeTimeout),
    milliseconds; None: not reported."""
    pull_interval: int | None = None
    """The time that it waits before each pull (pullInterval), milliseconds; None: not reported, or none."""
    pull_threshold: int | None = None
    """The number of messages of a queue from which on it pulls no more (pullThresholdForQueue); None: not reported."""
    pull_batch: int | None = None
    """The number of messages for which one of its pulls asks (pullBatchSize); None: not reported."""
    consume_batch: int | None = None
    """The number of messages that its listener gets at once (consumeMessageBatchMaxSize); None: not reported."""
    stacks_at: int = 0
    """When its stacks were last asked for; epoch milliseconds. 0: never."""

    def at_answer(self, process_queue: ProcessQueueView) -> ProcessQueue:
        """Return a process queue of its last answer as of `answered`, with the latest stamps that are possible.

        An answer does not include the client's present time. So a stamp has two minimum ages, and the larger one
        counts: against the newest stamp of the answer (both by the client's clock), and against the first answer that
        carried this very stamp (both by the collector's). Without the second one, the pulls of a client that pulls all
        of its queues together would never age: the newest stamp is one of them.
        """
        now, ahead, taken = self.answered, self.client_now - self.answered, self.answered - self.asked_at_answer
        pull, consume, lock = (
            process_queue.last_pull_timestamp,
            process_queue.last_consume_timestamp,
            process_queue.last_lock_timestamp,
        )
        return ProcessQueue(
            min(pull - ahead, process_queue.pull_seen + taken, now) if pull is not None else None,
            min(consume - ahead, process_queue.consume_seen + taken, now) if consume is not None else None,
            min(lock - ahead, process_queue.lock_seen + taken, now) if lock is not None else None,
            process_queue.locked,
            process_queue.dropped,
            process_queue.try_unlock_times,
        )

    def is_fresh(self, process_queue: ProcessQueueView, limit: int) -> bool:
        """Return whether `at_answer` shows neither a pull nor, of an ordered client, a lock older than ``limit``, ms.

        It may be False without a reason, in less time.
        """
        first_seen, oldest = self.asked_at_answer - limit, self.client_now - limit
        pull, lock = process_queue.last_pull_timestamp, process_queue.last_lock_timestamp
        if pull is None or pull < oldest or process_queue.pull_seen < first_seen:
            return False
        return not self.orderly or (
            bool(process_queue.locked) and lock is not None and lock >= oldest and process_queue.lock_seen >= first_seen
        )

    def time_of(self, stamp: int) -> int:
        """Bring a stamp of its last answer to the timeline; epoch milliseconds.

        Its clock is trusted unless its answers contradict that. Then the newest stamp is taken to coincide with the
        arrival of the answer that shows the smallest difference.
        """
        return min(stamp - self.ahead, self.answered)

    @property
    def ahead(self) -> int:
        """Return how far its clock is ahead of the collector's, milliseconds; see `time_of`."""
        low, high = self.skew or (self.client_now - self.answered, -1)
        return 0 if low <= 0 <= high else low

    @property
    def silent(self) -> bool:
        """Return whether the client is unresponsive; a single failed request may be a long garbage collection."""
        return self.unanswered >= UNANSWERED_POLLS


class ListedClient(msgspec.Struct, array_like=True, frozen=True):
    """A client of the group, as the proxy lists it."""

    language: str
    version: int


class ProxyView(msgspec.Struct, array_like=True):
    """One proxy's list of the group's clients, as it last answered; times are epoch milliseconds."""

    asked: int = 0
    """When the last request was sent that it answered; 0: it never did."""
    reported_at: int = 0
    """When its last answer, or the lack of one, was reported."""
    unanswered: int = 0
    """The number of consecutive requests without a list: no answer, an error code, or nothing that can be read."""
    error: str = ""
    """Why the last one had none."""
    clients: dict[str, ListedClient] = {}
    """By client id."""
    topics: dict[str, str] = {}
    """Their subscriptions, with the expressions."""
    unreadable: tuple[str, ...] = ()
    """The parts of its last answer that can't be read, each with the reason."""

    @property
    def answers(self) -> bool:
        """Return whether it has answered one of the last requests."""
        return bool(self.asked) and self.unanswered < UNANSWERED_POLLS
