"""The telemetry events: the contract between the sources, the log and the observer.

One JSON object per line or Kafka value; ``type`` is the tag; times are epoch milliseconds. An event that exists is
valid: fields are checked when it is decoded. Unknown fields are ignored, so that a newer source may send fields that an
older reader does not know.

A poll event is either an answer or an ``error``: with an error its payload is absent (None), never an empty value that
could be taken for data.
"""

import functools
from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

import msgspec

from rebalance_model.entities import NAME_CHARACTERS_MAX, TIME_MAX, MessageQueue, Name, Natural, Time

OFFSET_MAX = 2**48 - 1
"""No queue gets as many messages. Up to it the sums and rates of thousands of queues fit into 64 bits; a client may
commit any number, up to Java's Long.MAX_VALUE."""
Offset = Annotated[int, msgspec.Meta(ge=-1, le=OFFSET_MAX)]
"""A queue offset; -1 if there is none."""
StoredOffset = Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX)]
"""The offset of a message that is stored, or the one after it."""
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Difference = Annotated[int, msgspec.Meta(ge=-TIME_MAX, le=TIME_MAX)]
"""The difference of two instants, milliseconds."""
Text = Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS_MAX)]
"""A name or a channel, empty if it is not reported; or a reason."""
Source = Literal["hook", "poll", "sim"]

UNREACHABLE = -1
"""`RpcError.code` of a broker or client that could not be reached."""
DEADLINE = -2
"""`RpcError.code` of a broker that did not answer in time."""
UNREADABLE = -3
"""`RpcError.code` of an answer that came and can't be read: who sent it is alive."""
TOPIC_NOT_EXIST = 17
"""`RpcError.code` with which a name server reports that it knows no such topic."""
SYSTEM_ERROR = 1
"""`RpcError.code` with which a broker reports that a client is not online (307), or a group unknown (38)."""


class _Part(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A value inside an event."""


class RpcError(_Part, frozen=True, gc=False, kw_only=True):
    """The error that an RPC returned instead of data: RocketMQ's response code, or one of the three above."""

    code: Int32
    """The response code (ResponseCode, RemotingSysResponseCode), or -1, -2 or -3."""
    remark: str = ""
    """What the server says about it; empty if nothing."""

    @property
    def is_silence(self) -> bool:
        """Return whether there was no answer; any other error is the broker's own answer."""
        return self.code in {UNREACHABLE, DEADLINE}


class Subscription(_Part, frozen=True, gc=False, kw_only=True):
    """One topic of a consumer (SubscriptionData)."""

    topic: Name
    """The topic."""
    sub_string: str | None
    """The expression; None: it was sent and can't be read."""
    expression_type: Text = "TAG"
    """TAG or SQL92 (ExpressionType)."""
    sub_version: Int64 = 0
    """A clock of the client's choice: Java counts milliseconds, Go nanoseconds."""


class Connection(_Part, frozen=True, gc=False, kw_only=True):
    """One member as a broker lists it (Connection); the channel is the client's address and port, empty if unknown."""

    client_id: Name
    """The client's id."""
    channel: Text = ""
    """Its address and port as the broker sees them; empty: unknown."""
    language: Text = ""
    """Its language (LanguageCode), such as JAVA."""
    version: Int32 = 0
    """Its version, a number of MQVersion.Version."""


class ProcessQueueInfo(_Part, frozen=True, gc=False, kw_only=True):
    """One row of a client's mqTable (ProcessQueueInfo). ``*_time`` are stamps of the client's clock.

    None: the client did not send the value, or sent one that can't be read. A default stands for the value itself.
    """

    mq: MessageQueue
    """The queue."""
    commit_offset: Offset | None
    """The offset that the client commits next, from its memory; -1: it has none."""
    cached_count: Int32 | None = 0
    """How many messages it has pulled and not yet consumed."""
    cached_min: StoredOffset | None = 0
    """The lowest offset of these messages."""
    cached_max: StoredOffset | None = 0
    """The highest offset of these messages."""
    transaction_count: Int32 | None = 0
    """How many messages an ordered listener has now (consumingMsgOrderlyTreeMap)."""
    transaction_min: StoredOffset | None = 0
    """The lowest offset of these messages."""
    transaction_max: StoredOffset | None = 0
    """The highest offset of these messages."""
    locked: bool | None
    """Whether the client believes that it holds the broker's lock of the queue; only ordered clients lock."""
    lock_time: Time | None
    """When it last got the lock, by its clock."""
    dropped: bool | None
    """Whether it has given the queue up."""
    pull_time: Time | None
    """When it last sent a pull, by its clock."""
    consume_time: Time | None
    """When it last gave messages to the listener, by its clock."""
    unlock_attempts: Natural | None = 0
    """How often it could not give the queue up, because the listener still had messages of it."""

    @property
    def first_offset(self) -> int | None:
        """Return the lowest offset of the messages that it has cached or in its listener; None: none, or unknown.

        An ordered client moves the messages that it gives to the listener out of its cache (ProcessQueue.takeMessages).
        """
        if self.transaction_count:
            return self.transaction_min
        return self.cached_min if self.cached_count else None


def newest_stamp(queues: Iterable[ProcessQueueInfo]) -> int:
    """Return the newest stamp of a client's process queues, by its clock; 0: none has any."""
    newest = 0
    for info in queues:
        for stamp in (info.lock_time, info.pull_time, info.consume_time):
            if stamp is not None and stamp > newest:
                newest = stamp
    return newest


class PopProcessQueueInfo(_Part, frozen=True, gc=False, kw_only=True):
    """One row of a client's mqPopTable (PopProcessQueueInfo); queue id -1 stands for all queues of the broker."""

    topic: Name
    """The topic."""
    broker: Name
    """The name of the broker."""
    queue_id: Offset
    """The number of the queue; -1: all queues of the topic at this broker."""
    wait_ack_count: Int32 | None = 0
    """How many popped messages it has not acknowledged yet."""
    dropped: bool | None = False
    """Whether it has given the queue up."""
    pop_time: Time | None = 0
    """When it last popped, by its clock."""


class ThreadStack(_Part, frozen=True, gc=False, kw_only=True):
    """A thread of a client that consumes, from the top down to the consume service that calls the listener."""

    name: str
    """The thread's name."""
    state: str
    """Java's Thread.State: RUNNABLE, BLOCKED, WAITING or TIMED_WAITING."""
    frames: tuple[str, ...]
    """The frames, the innermost one first: class, method and line."""


class OffsetInfo(_Part, frozen=True, gc=False, kw_only=True):
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


class TimeSpanInfo(_Part, frozen=True, gc=False, kw_only=True):
    """One row of a broker's consume time spans (QueueTimeSpan)."""

    mq: MessageQueue
    """The queue."""
    delay_time: Difference
    """How long the next message to be consumed has waited, milliseconds; 0 or less if none waits."""


class TopicOffset(_Part, frozen=True, gc=False, kw_only=True):
    """One row of a topic's statistics (TopicOffset): the offsets between which its messages are stored."""

    mq: MessageQueue
    """The queue."""
    min_offset: StoredOffset
    """The offset of the oldest message."""
    max_offset: StoredOffset
    """The offset after the newest message."""
    last_time: Time = 0
    """When the newest message was stored, by the broker's clock; 0: none is stored."""


class Event(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="type"):
    """The fields of every event.

    ``broker`` and ``broker_id`` name the replica whose view it is: 0 is the master, others are slaves, one of which may
    act as master. A hook under a controller has the id that it was given. ``source_id`` names one incarnation of a
    source (instance@start); ``seq`` rises by one for each (source_id, key), by more after a loss or where a hook had
    forgotten the group, and has a sequence of its own under the empty key. ``time`` is stamped at emission under the
    same lock as ``seq``, by a monotonic clock: it falls only where the source reports with CLOCK_STEP that it was set.
    """

    time: Time
    """When the source emitted the event, by its clock."""
    cluster: Name
    """The RocketMQ cluster's name."""
    broker: Text = ""
    """The name of the broker whose view it is; empty: of none, as for a client's answer."""
    broker_id: Natural = 0
    """The replica of this broker: 0 is the master."""
    source: Source
    """The kind of the source: a broker's hook, a collector that polls, or a simulation."""
    source_id: Name
    """One incarnation of the source: instance@start."""
    seq: Natural
    """The event's number, by source_id and key: a gap is a loss."""

    BROADCAST: ClassVar[bool] = False
    """Whether the event goes, without a key, to every partition."""


class GroupEvent(Event, frozen=True, gc=False, kw_only=True):
    """An event of one consumer group; its key is ``cluster/group``."""

    group: Name
    """The consumer group."""


class Answer(GroupEvent, frozen=True, gc=False, kw_only=True):
    """A poll's answer, or its error; its content was true at some time in [``asked``, ``answered``]."""

    asked: Time = 0
    """When the request was sent, by the collector's clock."""
    answered: Time = 0
    """When the answer came, by the collector's clock; 0: not reported, it is `time` then."""
    error: RpcError | None = None
    """Why there is no answer; then the answer's own fields are absent."""
    unreadable: tuple[Text, ...] = ()
    """What of the answer can't be read, each with the reason; the first ones, if there are many."""
    incomplete: bool = False
    """Whether rows of it can't be read, so that what is not in it may exist all the same."""

    PAYLOAD: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        present = [name for name in self.PAYLOAD if getattr(self, name) is not None]
        if self.error is not None and present:
            msg = f"an event with `error` carries no `{present[0]}`"
            raise ValueError(msg)
        if self.error is None and len(present) < len(self.PAYLOAD):
            missing = next(name for name in self.PAYLOAD if name not in present)
            msg = f"Object missing required field `{missing}`"
            raise ValueError(msg)


class ConsumerConnection(Answer, frozen=True, gc=False, kw_only=True, tag="CONSUMER_CONNECTION"):
    """A broker's ConsumerGroupInfo (GET_CONSUMER_CONNECTION_LIST, 203). An empty group (206) is no error."""

    connections: tuple[Connection, ...] | None = None
    """The members that are connected to this broker."""
    subscriptions: tuple[Subscription, ...] = ()
    """What the group subscribes, by the last heartbeat that changed it."""
    consume_type: Text = ""
    """CONSUME_PASSIVELY (push), CONSUME_ACTIVELY (pull) or CONSUME_POP (ConsumeType)."""
    message_model: Text = ""
    """CLUSTERING or BROADCASTING (MessageModel)."""
    consume_from_where: Text = ""
    """Where a new group begins (ConsumeFromWhere)."""
    is_created: bool | None = None
    """Whether the broker lists the group (GET_ALL_SUBSCRIPTIONGROUP_CONFIG, 201), which has no member there if not.

    None: it does, or has members of it, or that is unknown.
    """

    PAYLOAD = ("connections",)


class ConsumerRunningInfo(Answer, frozen=True, gc=False, kw_only=True, tag="CONSUMER_RUNNING_INFO"):
    """A client's own state (GET_CONSUMER_RUNNING_INFO, 307); every stamp in it is the client's."""

    client_id: Name
    """The client's id."""
    orderly: bool | None = None
    """None: unknown, as in an error."""
    strategy: Text | None = ""
    """Empty: it reports none; None: unknown."""
    start_time: Time | None = 0
    """0: it reports none; None: unknown."""
    properties: dict[str, str] = {}
    """Settings of the consumer that detection reads or shows, by their Java names."""
    subscriptions: tuple[Subscription, ...] = ()
    """What this client subscribes."""
    queues: tuple[ProcessQueueInfo, ...] | None = None
    """The queues that it has (mqTable); absent in an error."""
    pop_queues: tuple[PopProcessQueueInfo, ...] = ()
    """The queues from which it pops (mqPopTable)."""
    stacks: tuple[ThreadStack, ...] = ()
    """What its listener was doing; asked when it has finished no message for long."""

    PAYLOAD = ("queues",)


class ConsumeStats(Answer, frozen=True, gc=False, kw_only=True, tag="CONSUME_STATS"):
    """A broker's offsets of a group (GET_CONSUME_STATS, 208)."""

    queues: tuple[OffsetInfo, ...] | None = None
    """The offsets of each queue of the group's topics at this broker."""

    PAYLOAD = ("queues",)


class TopicRoute(Answer, frozen=True, gc=False, kw_only=True, tag="TOPIC_ROUTE"):
    """The read queues of one topic that the group consumes (GET_ROUTEINFO_BY_TOPIC, 105)."""

    topic: Name
    """The topic."""
    queues: tuple[MessageQueue, ...] | None = None
    """Its read queues, at all brokers."""

    PAYLOAD = ("queues",)


class ConsumeTimeSpan(Answer, frozen=True, gc=False, kw_only=True, tag="CONSUME_TIME_SPAN"):
    """How long the next message of each queue of a topic has waited, by one broker (QUERY_CONSUME_TIME_SPAN, 303)."""

    topic: Name
    """The topic."""
    queues: tuple[TimeSpanInfo, ...] | None = None
    """Its queues at this broker."""

    PAYLOAD = ("queues",)


class TopicStats(Answer, frozen=True, gc=False, kw_only=True, tag="TOPIC_STATS"):
    """The offsets of the group's dead-letter topic at one broker (GET_TOPIC_STATS_INFO, 202).

    A broker creates the topic with the first dead letter: until then there are no queues, which is no error.
    """

    topic: Name
    """The dead-letter topic."""
    queues: tuple[TopicOffset, ...] | None = None
    """Its queues at this broker."""

    PAYLOAD = ("queues",)


class HeartBeat(GroupEvent, frozen=True, gc=False, kw_only=True, tag="HEART_BEAT"):
    """One consumer group of a client's heartbeat (HEART_BEAT, 34)."""

    client_id: Name
    """The client's id."""
    channel: Text
    """The client's address and port, as the broker sees them."""
    code: Int32 = 0
    """The broker's response code; 0: accepted."""
    language: Text = ""
    """The client's language (LanguageCode), such as JAVA."""
    version: Int32 = 0
    """The client's version, a number of MQVersion.Version."""
    consume_type: Text
    """CONSUME_PASSIVELY (push), CONSUME_ACTIVELY (pull) or CONSUME_POP (ConsumeType)."""
    message_model: Text
    """CLUSTERING or BROADCASTING (MessageModel)."""
    consume_from_where: Text = ""
    """Where a new group begins (ConsumeFromWhere)."""
    subscriptions: tuple[Subscription, ...]
    """What the client subscribes."""
    without_sub: bool = False
    """Whether the subscriptions are left out, because they did not change (HeartbeatData.isWithoutSub)."""
    heartbeat_fingerprint: Int32 = 0
    """The number by which the broker knows the left out subscriptions; 0: none."""


class UnregisterClient(GroupEvent, frozen=True, gc=False, kw_only=True, tag="UNREGISTER_CLIENT"):
    """A client unregisters from the group (UNREGISTER_CLIENT, 35)."""

    client_id: Name
    """The client's id."""
    channel: Text
    """The client's address and port, as the broker sees them."""
    code: Int32 = 0
    """The broker's response code; 0: done."""


class LockBatchMq(GroupEvent, frozen=True, gc=False, kw_only=True, tag="LOCK_BATCH_MQ"):
    """A client requests queue locks (LOCK_BATCH_MQ, 41). With a code other than 0 nothing was refused."""

    client_id: Name
    """The client's id."""
    channel: Text
    """The client's address and port, as the broker sees them."""
    code: Int32 = 0
    """The broker's response code; 0: answered."""
    only_this_broker: bool = False
    """Whether this replica answers alone, also where brokers lock in strict mode (LockBatchRequestBody)."""
    requested: tuple[MessageQueue, ...]
    """The queues whose locks it requests."""
    granted: tuple[MessageQueue, ...]
    """Those that it got."""


class UnlockBatchMq(GroupEvent, frozen=True, gc=False, kw_only=True, tag="UNLOCK_BATCH_MQ"):
    """A client releases queue locks (UNLOCK_BATCH_MQ, 42)."""

    client_id: Name
    """The client's id."""
    channel: Text
    """The client's address and port, as the broker sees them."""
    code: Int32 = 0
    """The broker's response code; 0: done."""
    queues: tuple[MessageQueue, ...]
    """The queues whose locks it releases."""


class UpdateConsumerOffset(GroupEvent, frozen=True, gc=False, kw_only=True, tag="UPDATE_CONSUMER_OFFSET"):
    """A client commits one queue's offset (UPDATE_CONSUMER_OFFSET, 15)."""

    channel: Text
    """The client's address and port, as the broker sees them."""
    code: Int32 = 0
    """The broker's response code; 0: stored."""
    topic: Name
    """The topic."""
    queue_id: Natural
    """The number of the queue."""
    offset: Offset
    """The committed offset: of the next message to be consumed."""
    broker_offset: Offset = -1
    """The queue's newest offset, if the hook knows it (it saw a send's answer since the broker's start); else -1."""


class QueryConsumerOffset(GroupEvent, frozen=True, gc=False, kw_only=True, tag="QUERY_CONSUMER_OFFSET"):
    """A client queries its offset (QUERY_CONSUMER_OFFSET, 14): it makes a process queue (computePullFromWhere).

    In a concurrent group this is the only call that shows when a client takes a queue.
    """

    channel: Text
    """The client's address and port, as the broker sees them."""
    code: Int32 = 0
    """The broker's response code; 0: there is an offset, 22: none is stored."""
    topic: Name
    """The topic."""
    queue_id: Natural
    """The number of the queue."""


class PullMessage(GroupEvent, frozen=True, gc=False, kw_only=True, tag="PULL_MESSAGE"):
    """Pulls of one (group, channel, queue, code) within a second (PULL_MESSAGE, 11).

    ``code`` is None if the broker answered later, the usual case. First and last are in the order in which the broker
    began to process the pulls; ``commit_offset`` is that of the last, -1 unless the pull carried one (sysFlag bit 0).
    """

    channel: Text
    """The client's address and port, as the broker sees them."""
    topic: Name
    """The topic."""
    queue_id: Natural
    """The number of the queue."""
    first_time: Time
    """When the broker began to process the first pull, by its clock."""
    last_time: Time
    """When it began to process the last one."""
    first_offset: Offset
    """The offset that the first pull asked for."""
    last_offset: Offset
    """The offset that the last one asked for."""
    commit_offset: Offset = -1
    """The offset that the last pull committed; -1: it committed none."""
    code: Int32 | None = None
    """The broker's response code; None: it answered later."""
    count: Natural
    """How many pulls."""
    broker_offset: Offset = -1
    """The queue's newest offset, if the hook knows it (it saw a send's answer since the broker's start); else -1."""


class GetConsumerListByGroup(GroupEvent, frozen=True, gc=False, kw_only=True, tag="GET_CONSUMER_LIST_BY_GROUP"):
    """A client requested the member list, to rebalance with it (GET_CONSUMER_LIST_BY_GROUP, 38).

    ``asked`` is when the broker began to process the request, by its own clock (0: not reported): a heartbeat that it
    received between then and ``time`` may be missing from the answer.
    """

    channel: Text
    """The client's address and port, as the broker sees them."""
    code: Int32 = 0
    """The broker's response code; 0: a list."""
    asked: Time = 0
    """When the broker began to process the request, by its clock; 0: not reported."""
    consumer_ids: tuple[Text, ...]
    """The members of the answer."""


class BrokerStatus(Event, frozen=True, gc=False, kw_only=True, tag="BROKER_STATUS"):
    """When a broker started (GET_BROKER_RUNTIME_INFO, 28), or that it doesn't answer."""

    boot_time: Time | None = None
    """When the broker started, by its clock; absent if it does not answer."""
    error: RpcError | None = None
    """Why it does not answer."""
    asked: Time = 0
    """When a collector sent the request, by its clock; 0: from a hook, or an older collector."""
    answered: Time = 0
    """When the answer came, by the collector's clock; 0: not reported."""
    now: Time = 0
    """The broker's clock, truncated to a second (boot time + runtime); 0: not reported."""
    listed: bool | None = None
    """Of a broker that does not answer: whether a name server lists it (GET_BROKER_CLUSTER_INFO, 106); None: not
    reported, or no name server answers."""

    BROADCAST = True

    def __post_init__(self) -> None:
        if (self.boot_time is None) == (self.error is None):
            msg = "an event of BROKER_STATUS carries either `boot_time` or `error`"
            raise ValueError(msg)


class TelemetryLost(Event, frozen=True, gc=False, kw_only=True, tag="TELEMETRY_LOST"):
    """A source reports events that it could not send."""

    from_time: Time
    """When the first lost event happened, by the source's clock."""
    to_time: Time
    """When the last one happened."""
    count: Natural
    """How many events are lost."""
    reason: Text
    """Why: what the source could not do."""

    BROADCAST = True


class ClockSeen(Event, frozen=True, gc=False, kw_only=True, tag="CLOCK_SEEN"):
    """A broker's hook reports when it saw a collector's request, which carries the collector's time.

    The collector's BROKER_STATUS of the same ``asked`` reports when the answer came. So the difference of the two
    clocks is bounded as in NTP: asked <= seen <= answered, up to that difference.
    """

    collector: Name
    """The collector's source_id."""
    asked: Time
    """The collector's time that the request carried."""
    seen: Time
    """When the hook saw it, by the broker's clock."""

    BROADCAST = True


class ClockStep(Event, frozen=True, gc=False, kw_only=True, tag="CLOCK_STEP"):
    """A source's clock was set: its events before this one are stamped by the former clock, later ones by the new one.

    A source stamps by a monotonic clock (System.nanoTime, CLOCK_MONOTONIC) that began at the time of its host, and
    compares the two. ``time`` is by the new clock.
    """

    step: Difference
    """The new clock minus the former one, milliseconds: negative where the former one was ahead."""

    BROADCAST = True


class Tick(Event, frozen=True, gc=False, kw_only=True, tag="TICK"):
    """Everything of this source that is older than ``time`` has been sent."""

    end: bool = False
    """The source stops intentionally with this tick, and no further one is to be waited for."""

    BROADCAST = True


HookEvent = (
    HeartBeat
    | UnregisterClient
    | LockBatchMq
    | UnlockBatchMq
    | UpdateConsumerOffset
    | QueryConsumerOffset
    | PullMessage
    | GetConsumerListByGroup
)
"""What a broker's hook reports of one group."""

PollEvent = ConsumerConnection | ConsumerRunningInfo | ConsumeStats | TopicRoute | ConsumeTimeSpan | TopicStats
"""What a poll reports of one group."""

Broadcast = BrokerStatus | ClockSeen | ClockStep | TelemetryLost | Tick
"""What a source reports of itself, or of a broker."""

AnyEvent = HookEvent | PollEvent | Broadcast
"""The tagged union of every event type."""


def key_of(event: Event) -> str:
    """Return the event's key: ``cluster/group``, or empty for a broadcast."""
    return f"{event.cluster}/{event.group}" if isinstance(event, GroupEvent) else ""


_START_DIGITS = 18
"""More digits are no time: they would not fit into the state's 64 bits."""


@functools.lru_cache(maxsize=4096)
def instance_of(source_id: str) -> tuple[str, int]:
    """Return a source's instance and the start time of this incarnation (0 if the id contains none)."""
    instance, _, start = source_id.rpartition("@")
    is_time = start.isascii() and start.isdigit() and len(start) <= _START_DIGITS
    return (instance, int(start)) if instance and is_time else (source_id, 0)


def source_of(event: Event) -> str:
    """Return the name of the event's source; all incarnations of an instance are one source, across its restarts."""
    return _source_name(event.cluster, event.source_id)


@functools.lru_cache(maxsize=4096)
def _source_name(cluster: str, source_id: str) -> str:
    return f"{cluster}/{instance_of(source_id)[0]}"


_ASKED = ("asked", "answered")
_TIMES: dict[type[AnyEvent], tuple[str, ...]] = {
    PullMessage: ("first_time", "last_time"),
    GetConsumerListByGroup: ("asked",),
    TelemetryLost: ("from_time", "to_time"),
    BrokerStatus: _ASKED,
    ConsumerConnection: _ASKED,
    ConsumerRunningInfo: _ASKED,
    ConsumeStats: _ASKED,
    TopicRoute: _ASKED,
    ConsumeTimeSpan: _ASKED,
    TopicStats: _ASKED,
}
"""The other fields that are stamped by the source's clock; 0 stands for "not reported"."""


def corrected(event: AnyEvent, time: int, correction: int) -> AnyEvent:
    """Bring an event onto the timeline.

    Args:
        event: the event, as its source stamped it.
        time: its time on the timeline, epoch milliseconds.
        correction: how far the source's clock is ahead, milliseconds.
    """
    if time == event.time and not correction:
        return event
    stamped = ((name, getattr(event, name)) for name in _TIMES.get(type(event), ()) if correction)
    return msgspec.structs.replace(event, time=time, **{name: max(0, at - correction) for name, at in stamped if at})
