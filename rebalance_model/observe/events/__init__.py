"""The telemetry events: the contract between the sources, the log and the observer.

One JSON object per line or Kafka value; ``type`` is the tag; times are epoch milliseconds. An event that exists is
valid: fields are checked when it is decoded. Unknown fields are ignored, so that a newer source may send fields that an
older reader does not know.

A poll event is either an answer or an ``error``: with an error its payload is absent (None), never an empty value that
could be taken for data.
"""

import functools
from typing import ClassVar

import msgspec

from rebalance_model.entities import DEAD_LETTER_TOPIC_PREFIX, TIME_MAX, MessageQueue, Name, Natural, Time
from rebalance_model.observe.events.answer_parts import (
    DEADLINE,
    NO_PERMISSION,
    NOT_ASKED,
    NOT_SUPPORTED,
    SYSTEM_ERROR,
    TOPIC_NOT_EXIST,
    UNREACHABLE,
    UNREADABLE,
    Connection,
    DelayLevel,
    OffsetInfo,
    PopProcessQueueInfo,
    ProcessQueueInfo,
    RpcError,
    ThreadStack,
    TimeSpanInfo,
    TopicOffset,
    newest_stamp,
)
from rebalance_model.observe.events.fields import OFFSET_MAX, Difference, Event, GroupEvent, Source, Subscription, Text
from rebalance_model.observe.events.hook_events import (
    ACK_RANGES_MAX,
    AckMessage,
    ChangeMessageInvisibletime,
    GetConsumerListByGroup,
    HeartBeat,
    HookEvent,
    InvokeBrokerToResetOffset,
    LockBatchMq,
    OffsetRange,
    PopMessage,
    PoppedEvent,
    ProxyHeartBeat,
    PullMessage,
    QueryConsumerOffset,
    UnlockBatchMq,
    UnregisterClient,
    UpdateConsumerOffset,
)

__all__ = [
    "ACK_RANGES_MAX",
    "DEADLINE",
    "NOT_ASKED",
    "NOT_SUPPORTED",
    "NO_PERMISSION",
    "OFFSET_MAX",
    "SYSTEM_ERROR",
    "TOPIC_NOT_EXIST",
    "UNREACHABLE",
    "UNREADABLE",
    "AckMessage",
    "Answer",
    "AnyEvent",
    "Broadcast",
    "BrokerStatus",
    "ChangeMessageInvisibletime",
    "ClockSeen",
    "ClockStep",
    "Connection",
    "ConsumeStats",
    "ConsumeTimeSpan",
    "ConsumerConnection",
    "ConsumerRunningInfo",
    "DelayLevel",
    "Event",
    "GetConsumerListByGroup",
    "GroupEvent",
    "HeartBeat",
    "HookEvent",
    "InvokeBrokerToResetOffset",
    "LockBatchMq",
    "OffsetInfo",
    "OffsetRange",
    "PollEvent",
    "PopMessage",
    "PopProcessQueueInfo",
    "PoppedEvent",
    "ProcessQueueInfo",
    "ProxyConnection",
    "ProxyHeartBeat",
    "ProxyStatus",
    "PullMessage",
    "QueryConsumerOffset",
    "RpcError",
    "Source",
    "Subscription",
    "TelemetryLost",
    "ThreadStack",
    "Tick",
    "TimeSpanInfo",
    "TopicOffset",
    "TopicRoute",
    "TopicStats",
    "UnlockBatchMq",
    "UnregisterClient",
    "UpdateConsumerOffset",
    "corrected",
    "instance_of",
    "key_of",
    "newest_stamp",
    "source_of",
]


class Answer(GroupEvent, frozen=True, gc=False, kw_only=True):
    """A poll's answer, or its error; its content was true at some time in [``asked``, ``answered``]."""

    asked: Time = 0
    """When the request was sent, by the collector's clock."""
    answered: Time = 0
    """When the answer came, by the collector's clock; 0: not reported, it is `time` then."""
    error: RpcError | None = None
    """Why there is no answer; then the answer's own fields are absent."""
    unreadable: tuple[Text, ...] = ()
    """The parts of the answer that can't be read, each with the reason; the first ones, if there are many."""
    incomplete: bool = False
    """True if rows of it can't be read, so that an entry that is not in it may exist."""

    PAYLOAD: ClassVar[str]
    """The field that an answer has, and an error lacks."""

    def __post_init__(self) -> None:
        is_missing = getattr(self, self.PAYLOAD) is None
        if is_missing == (self.error is not None):
            return
        carries_no = f"an event with `error` carries no `{self.PAYLOAD}`"
        raise ValueError(f"Object missing required field `{self.PAYLOAD}`" if is_missing else carries_no)


class ConsumerConnection(Answer, frozen=True, gc=False, kw_only=True, tag="CONSUMER_CONNECTION"):
    """A broker's ConsumerGroupInfo (GET_CONSUMER_CONNECTION_LIST, 203). An empty group (206) is no error."""

    broker: Name
    """The name of the broker whose view it is."""
    connections: tuple[Connection, ...] | None = None
    """The members that are connected to this broker."""
    subscriptions: tuple[Subscription, ...] = ()
    """The group's subscriptions, by the last heartbeat that changed it."""
    consume_type: Text = ""
    """CONSUME_PASSIVELY (push), CONSUME_ACTIVELY (pull) or CONSUME_POP (ConsumeType)."""
    message_model: Text = ""
    """CLUSTERING or BROADCASTING (MessageModel)."""
    consume_from_where: Text = ""
    """Where a new group begins (ConsumeFromWhere)."""
    is_created: bool | None = None
    """True if the broker lists the group (GET_ALL_SUBSCRIPTIONGROUP_CONFIG, 201), which has no member there if not.

    None: it does, or has members of it, or that is unknown.
    """
    consume_message_orderly: bool = False
    """True if clients that pop get the messages of a queue in order (SubscriptionGroupConfig.consumeMessageOrderly,
    201): the queue is FIFO."""

    PAYLOAD = "connections"


class ProxyConnection(Answer, frozen=True, gc=False, kw_only=True, tag="PROXY_CONNECTION"):
    """A proxy's list of a group's clients (GET_CONSUMER_CONNECTION_LIST, 203). An empty group (206) is no error.

    A proxy is no broker: it has no queues, locks or route, and its clients divide no queues. ``broker`` is empty.
    """

    proxy: Name
    """The proxy's remoting address, host:port, as the collector has it."""
    connections: tuple[Connection, ...] | None = None
    """The group's clients that are connected to this proxy, or to another one of its cluster."""
    subscriptions: tuple[Subscription, ...] = ()
    """The subscriptions of these clients."""

    PAYLOAD = "connections"


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
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    """Settings of the consumer that detection reads or shows, by their Java names."""
    subscriptions: tuple[Subscription, ...] = ()
    """The client's subscriptions."""
    queues: tuple[ProcessQueueInfo, ...] | None = None
    """The queues that it has (mqTable); absent in an error."""
    pop_queues: tuple[PopProcessQueueInfo, ...] = ()
    """The queues from which it pops (mqPopTable)."""
    stacks: tuple[ThreadStack, ...] = ()
    """The stacks of its listener; asked for when it has finished no message for long."""
    stacks_asked: bool = False
    """True if its stacks were asked for, and all of its threads were read: if none is listed, its listener had none."""

    PAYLOAD = "queues"


class ConsumeStats(Answer, frozen=True, gc=False, kw_only=True, tag="CONSUME_STATS"):
    """A broker's offsets of a group (GET_CONSUME_STATS, 208)."""

    broker: Name
    """The name of the broker whose view it is."""
    queues: tuple[OffsetInfo, ...] | None = None
    """The offsets of each queue of the group's topics at this broker."""

    PAYLOAD = "queues"


class TopicRoute(Answer, frozen=True, gc=False, kw_only=True, tag="TOPIC_ROUTE"):
    """The read queues of one topic that the group consumes (GET_ROUTEINFO_BY_TOPIC, 105)."""

    topic: Name
    """The topic."""
    queues: tuple[MessageQueue, ...] | None = None
    """Its read queues, at all brokers."""

    PAYLOAD = "queues"


class ConsumeTimeSpan(Answer, frozen=True, gc=False, kw_only=True, tag="CONSUME_TIME_SPAN"):
    """The waiting time of the next message of each queue of a topic, by one broker (QUERY_CONSUME_TIME_SPAN, 303)."""

    broker: Name
    """The name of the broker whose view it is."""
    topic: Name
    """The topic."""
    queues: tuple[TimeSpanInfo, ...] | None = None
    """Its queues at this broker."""

    PAYLOAD = "queues"


class TopicStats(Answer, frozen=True, gc=False, kw_only=True, tag="TOPIC_STATS"):
    """The offsets of the group's dead-letter topic, or of one that it reads late, at one broker (202).

    GET_TOPIC_STATS_INFO. A broker creates the dead-letter topic with the first dead letter: until then there are no
    queues, which is no error.
    """

    broker: Name
    """The name of the broker whose view it is."""
    topic: Name
    """The dead-letter topic, or one that the group consumes."""
    queues: tuple[TopicOffset, ...] | None = None
    """Its queues at this broker."""

    PAYLOAD = "queues"

    @property
    def is_dead_letters(self) -> bool:
        """Return whether the topic is the group's dead-letter topic."""
        return self.topic == f"{DEAD_LETTER_TOPIC_PREFIX}{self.group}"


class BrokerStatus(Event, frozen=True, gc=False, kw_only=True, tag="BROKER_STATUS"):
    """The start time of a broker (GET_BROKER_RUNTIME_INFO, 28), or a report that it doesn't answer."""

    broker: Name
    """The name of the broker."""
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
    revive_backlog: Natural | None = None
    """The number of records of popped messages that the broker has not checked yet (GET_CONSUME_STATS of
    CID_RMQ_SYS_REVIVE_GROUP); absent: not reported, or it has no such records."""
    revive_late: Natural | None = None
    """The time by which it is late with the next one at most, by when it stored the last one that it has checked;
    milliseconds. Absent: not reported."""
    delay_levels: tuple[DelayLevel, ...] | None = None
    """The delay levels in which messages wait; absent: not reported."""
    timer_behind: Natural = 0
    """The time by which its timer wheel is behind, in which messages wait (timerReadBehind); milliseconds. 0: it is
    not, none waits, or not reported."""

    BROADCAST = True

    def __post_init__(self) -> None:
        if (self.boot_time is None) == (self.error is None):
            msg = "an event of BROKER_STATUS carries either `boot_time` or `error`"
            raise ValueError(msg)


class ProxyStatus(Event, frozen=True, gc=False, kw_only=True, tag="PROXY_STATUS"):
    """A report that a proxy answers a collector's requests, or doesn't: one event a round."""

    proxy: Name
    """The proxy's remoting address, host:port, as the collector has it."""
    error: RpcError | None = None
    """Why it does not answer, or that it does with an error code; absent if it answers."""
    asked: Time = 0
    """When the request was sent, by the collector's clock; 0: not reported."""
    answered: Time = 0
    """When the answer came, by the collector's clock; 0: not reported."""

    BROADCAST = True


class TelemetryLost(Event, frozen=True, gc=False, kw_only=True, tag="TELEMETRY_LOST"):
    """A source reports events that it could not send."""

    from_time: Time
    """When the first lost event happened, by the source's clock."""
    to_time: Time
    """When the last one happened."""
    count: Natural
    """The number of events that are lost."""
    reason: Text
    """Why: what the source could not do."""

    BROADCAST = True


class ClockSeen(Event, frozen=True, gc=False, kw_only=True, tag="CLOCK_SEEN"):
    """A broker's hook reports when it saw a collector's request, which carries the collector's time.

    The collector's BROKER_STATUS of the same ``asked`` reports when the answer came. So the difference of the two
    clocks is bounded as in NTP: asked <= seen <= answered, up to that difference.
    """

    broker: Name
    """The name of the broker whose hook it is."""
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


PollEvent = (
    ConsumerConnection
    | ProxyConnection
    | ConsumerRunningInfo
    | ConsumeStats
    | TopicRoute
    | ConsumeTimeSpan
    | TopicStats
)
"""The events by which a poll reports of one group."""

Broadcast = BrokerStatus | ProxyStatus | ClockSeen | ClockStep | TelemetryLost | Tick
"""The events by which a source reports of itself, or of a broker."""

AnyEvent = HookEvent | PollEvent | Broadcast
"""The tagged union of every event type."""


def key_of(event: Event) -> str:
    """Return the event's key: ``cluster/group``, or empty for a broadcast."""
    return f"{event.cluster}/{event.group}" if isinstance(event, GroupEvent) else ""


_START_DIGITS = 18
"""Digits of a start at most: more would not fit into the state's 64 bits."""


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
    PopMessage: ("first_time", "last_time"),
    AckMessage: ("first_time", "last_time", "pop_time_min", "pop_time_max"),
    ChangeMessageInvisibletime: ("pop_time",),
    GetConsumerListByGroup: ("asked",),
    TelemetryLost: ("from_time", "to_time"),
    BrokerStatus: _ASKED,
    ProxyStatus: _ASKED,
    ConsumerConnection: _ASKED,
    ProxyConnection: _ASKED,
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
    times = {name: min(max(0, at - correction), TIME_MAX) for name, at in stamped if at}
    return msgspec.structs.replace(event, time=min(time, TIME_MAX), **times)
