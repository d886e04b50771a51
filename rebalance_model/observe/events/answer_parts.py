"""The parts of polls' answers: errors, members, queues of a client, offsets of a broker."""

from collections.abc import Collection, Iterable

from rebalance_model.entities import MessageQueue, Name, Natural, Time
from rebalance_model.observe.events.fields import Difference, Int32, Offset, Part, StoredOffset, Text

UNREACHABLE = -1
"""`RpcError.code` of a broker or client that could not be reached."""
DEADLINE = -2
"""`RpcError.code` of a broker that did not answer in time."""
NOT_ASKED = "not asked"
"""The beginning of `RpcError.remark` if a collector had no time left to ask: it says nothing about the broker."""
UNREADABLE = -3
"""`RpcError.code` of an answer that came and can't be read: who sent it is alive."""
NOT_SUPPORTED = 3
"""`RpcError.code` with which a server reports that it does not know the request (REQUEST_CODE_NOT_SUPPORTED)."""
NO_PERMISSION = 16
"""`RpcError.code` with which a broker refuses a request to the collector's account."""
TOPIC_NOT_EXIST = 17
"""`RpcError.code` with which a name server reports that it knows no such topic."""
SYSTEM_ERROR = 1
"""`RpcError.code` with which a broker reports that a client is not online (307), or a group unknown (38)."""


class RpcError(Part, frozen=True, gc=False, kw_only=True):
    """The error that an RPC returned instead of data: RocketMQ's response code, or one of the three above."""

    code: Int32
    """The response code (ResponseCode, RemotingSysResponseCode), or -1, -2 or -3."""
    remark: str = ""
    """The server's remark; empty if nothing."""

    @property
    def is_silence(self) -> bool:
        """Return whether there was no answer; any other error is the broker's own answer."""
        return self.code in {UNREACHABLE, DEADLINE}


class Connection(Part, frozen=True, gc=False, kw_only=True):
    """One member as a broker lists it (Connection); the channel is the client's address and port, empty if unknown."""

    client_id: Name
    """The client's id."""
    channel: Text = ""
    """Its address and port as the broker sees them; empty: unknown."""
    language: Text = ""
    """Its language (LanguageCode), such as JAVA."""
    version: Int32 = 0
    """Its version, a number of MQVersion.Version."""


class ProcessQueueInfo(Part, frozen=True, gc=False, kw_only=True):
    """One row of a client's mqTable (ProcessQueueInfo). ``*_time`` are stamps of the client's clock.

    None: the client did not send the value, or sent one that can't be read. A default stands for the value itself.
    """

    mq: MessageQueue
    """The queue."""
    commit_offset: Offset | None
    """The offset that the client commits next, from its memory; -1: it has none."""
    cached_count: Int32 | None = 0
    """The number of messages that it has pulled and not yet consumed."""
    cached_min: StoredOffset | None = 0
    """The lowest offset of these messages."""
    cached_max: StoredOffset | None = 0
    """The highest offset of these messages."""
    transaction_count: Int32 | None = 0
    """The number of messages that an ordered listener has now (consumingMsgOrderlyTreeMap)."""
    transaction_min: StoredOffset | None = 0
    """The lowest offset of these messages."""
    transaction_max: StoredOffset | None = 0
    """The highest offset of these messages."""
    locked: bool | None
    """True if the client believes that it holds the broker's lock of the queue; only ordered clients lock."""
    lock_time: Time | None
    """When it last got the lock, by its clock."""
    dropped: bool | None
    """True if it has given the queue up."""
    pull_time: Time | None
    """When it last sent a pull, by its clock."""
    consume_time: Time | None
    """When it last gave messages to the listener, by its clock."""
    unlock_attempts: Natural | None = 0
    """The number of times that it could not give the queue up, because the listener still had messages of it."""

    @property
    def first_offset(self) -> int | None:
        """Return the lowest offset of the messages that it has cached or in its listener; None: none, or unknown.

        An ordered client moves the messages that it gives to the listener out of its cache (ProcessQueue.takeMessages).
        """
        if self.transaction_count:
            return self.transaction_min
        return self.cached_min if self.cached_count else None


class PopProcessQueueInfo(Part, frozen=True, gc=False, kw_only=True):
    """One row of a client's mqPopTable (PopProcessQueueInfo); queue id -1 stands for all queues of the broker."""

    topic: Name
    """The topic."""
    broker: Name
    """The name of the broker."""
    queue_id: Offset
    """The number of the queue; -1: all queues of the topic at this broker."""
    wait_ack_count: Int32 | None = 0
    """The number of popped messages that it has not acknowledged yet."""
    dropped: bool | None = False
    """True if it has given the queue up."""
    pop_time: Time | None = 0
    """When it last popped, by its clock."""


def newest_stamp(queues: Iterable[ProcessQueueInfo], popped: Collection[PopProcessQueueInfo] = ()) -> int:
    """Return the newest stamp of a client's process queues, by its clock; 0: none has any."""
    newest = max([one.pop_time or 0 for one in popped]) if popped else 0
    for info in queues:
        locked, pulled, consumed = info.lock_time, info.pull_time, info.consume_time
        if pulled is not None and pulled > newest:
            newest = pulled
        if consumed is not None and consumed > newest:
            newest = consumed
        if locked is not None and locked > newest:
            newest = locked
    return newest


class ThreadStack(Part, frozen=True, gc=False, kw_only=True):
    """A thread of a client that consumes, from the top down to the consume service that calls the listener."""

    name: str
    """The thread's name."""
    state: str
    """Java's Thread.State: RUNNABLE, BLOCKED, WAITING or TIMED_WAITING."""
    frames: tuple[str, ...]
    """The frames, the innermost one first: class, method and line."""


class OffsetInfo(Part, frozen=True, gc=False, kw_only=True):
    """One row of a broker's consume statistics (OffsetWrapper); 0 as consumer offset may mean that none is stored."""

    mq: MessageQueue
    """The queue."""
    broker_offset: Offset
    """The offset after the newest message."""
    consumer_offset: Offset
    """The offset that the group has committed: of the next message to be consumed."""
    pull_offset: Offset = -1
    """The offset of the group's next pull; -1: not reported, as before RocketMQ 5."""
    last_time: Time = 0
    """When the last consumed message was stored, by the broker's clock; 0: unknown."""


class TimeSpanInfo(Part, frozen=True, gc=False, kw_only=True):
    """One row of a broker's consume time spans (QueueTimeSpan)."""

    mq: MessageQueue
    """The queue."""
    delay_time: Difference
    """The time that the next message to be consumed has waited, milliseconds; 0 or less if none waits."""


class DelayLevel(Part, frozen=True, gc=False, kw_only=True):
    """The queue of one delay level in which messages wait (scheduleMessageOffset_N)."""

    level: Natural
    """The level, from 1 on (messageDelayLevel)."""
    offset: Natural
    """The offset of the message that the broker delivers next."""
    newest: Natural
    """The offset after the newest one."""


class TopicOffset(Part, frozen=True, gc=False, kw_only=True):
    """One row of a topic's statistics (TopicOffset): the offsets between which its messages are stored."""

    mq: MessageQueue
    """The queue."""
    min_offset: StoredOffset
    """The offset of the oldest message."""
    max_offset: StoredOffset
    """The offset after the newest message."""
    last_time: Time = 0
    """When the newest message was stored, by the broker's clock; 0: none is stored."""
