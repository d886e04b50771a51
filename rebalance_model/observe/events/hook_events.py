"""The events of a broker's hook: one for each call of a client, the most frequent ones summed by the second."""

from typing import Annotated, TypeAlias

import msgspec

from rebalance_model.entities import INT32_MAX, TIME_MAX, MessageQueue, Name, Natural, Time
from rebalance_model.observe.events.fields import BrokerGroupEvent, Int32, Offset, StoredOffset, Subscription, Text

ACK_RANGES_MAX = 256
"""An event of ACK_MESSAGE has at most so many ranges of offsets."""
PoppedQueueId = Annotated[int, msgspec.Meta(ge=-1, le=INT32_MAX)]
"""The id of a queue that is popped; -1: all queues of the broker."""
PopTime = Annotated[int, msgspec.Meta(ge=1, le=TIME_MAX)]
"""When a message was popped, by the broker's clock, as its client repeats it in each call about the message."""
OffsetRange = Annotated[tuple[StoredOffset, ...], msgspec.Meta(min_length=2, max_length=2)]
"""The first and the last offset of messages that follow each other."""
Duration = Annotated[int, msgspec.Meta(ge=0, le=TIME_MAX)]
"""A duration, milliseconds, so that an instant plus it fits into 64 bits."""


class HeartBeat(BrokerGroupEvent, frozen=True, gc=False, kw_only=True, tag="HEART_BEAT"):
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
    """The client's subscriptions."""
    without_sub: bool = False
    """True if the subscriptions are left out, because they did not change (HeartbeatData.isWithoutSub)."""
    heartbeat_fingerprint: Int32 = 0
    """The number by which the broker knows the left out subscriptions; 0: none."""


class UnregisterClient(BrokerGroupEvent, frozen=True, gc=False, kw_only=True, tag="UNREGISTER_CLIENT"):
    """A client unregisters from the group (UNREGISTER_CLIENT, 35)."""

    client_id: Name
    """The client's id."""
    channel: Text
    """The client's address and port, as the broker sees them."""
    code: Int32 = 0
    """The broker's response code; 0: done."""


class LockBatchMq(BrokerGroupEvent, frozen=True, gc=False, kw_only=True, tag="LOCK_BATCH_MQ"):
    """A client requests queue locks (LOCK_BATCH_MQ, 41). With a code other than 0 nothing was refused."""

    client_id: Name
    """The client's id."""
    channel: Text
    """The client's address and port, as the broker sees them."""
    code: Int32 = 0
    """The broker's response code; 0: answered."""
    only_this_broker: bool = False
    """True if this replica answers alone, also where brokers lock in strict mode (LockBatchRequestBody)."""
    requested: tuple[MessageQueue, ...]
    """The queues whose locks it requests."""
    granted: tuple[MessageQueue, ...]
    """The queues whose locks it got."""


class UnlockBatchMq(BrokerGroupEvent, frozen=True, gc=False, kw_only=True, tag="UNLOCK_BATCH_MQ"):
    """A client releases queue locks (UNLOCK_BATCH_MQ, 42)."""

    client_id: Name
    """The client's id."""
    channel: Text
    """The client's address and port, as the broker sees them."""
    code: Int32 = 0
    """The broker's response code; 0: done."""
    queues: tuple[MessageQueue, ...]
    """The queues whose locks it releases."""


class UpdateConsumerOffset(BrokerGroupEvent, frozen=True, gc=False, kw_only=True, tag="UPDATE_CONSUMER_OFFSET"):
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


class InvokeBrokerToResetOffset(
    BrokerGroupEvent, frozen=True, gc=False, kw_only=True, tag="INVOKE_BROKER_TO_RESET_OFFSET"
):
    """A tool lets the broker move the group's offsets of a topic (INVOKE_BROKER_TO_RESET_OFFSET, 222).

    From 5.0 on the broker moves them itself, and no commit is seen.
    """

    channel: Text
    """The tool's address and port, as the broker sees them."""
    code: Int32 = 0
    """The broker's response code; 0: done."""
    topic: Name
    """The topic."""
    queue_id: PoppedQueueId
    """The number of the queue; -1: all of the topic's queues at this broker."""


class QueryConsumerOffset(BrokerGroupEvent, frozen=True, gc=False, kw_only=True, tag="QUERY_CONSUMER_OFFSET"):
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


_COMMITTING = frozenset({None, 0, 19, 20, 21})
"""Response codes of a pull after whose checks the broker stores its commit (DefaultPullMessageResultHandler.handle):
later, at once, PULL_NOT_FOUND, PULL_RETRY_IMMEDIATELY, PULL_OFFSET_MOVED."""


class PullMessage(BrokerGroupEvent, frozen=True, gc=False, kw_only=True, tag="PULL_MESSAGE"):
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
    """The offset that the last pull carried as a commit; -1: it carried none."""
    code: Int32 | None = None
    """The broker's response code; None: it answered later."""
    count: Natural
    """The number of pulls."""
    broker_offset: Offset = -1
    """The queue's newest offset, if the hook knows it (it saw a send's answer since the broker's start); else -1."""

    @property
    def committed(self) -> int:
        """The offset that the last pull committed; -1: none, or the broker refused the pull before it stored it."""
        return self.commit_offset if self.code in _COMMITTING else -1


class GetConsumerListByGroup(BrokerGroupEvent, frozen=True, gc=False, kw_only=True, tag="GET_CONSUMER_LIST_BY_GROUP"):
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


class PopMessage(BrokerGroupEvent, frozen=True, gc=False, kw_only=True, tag="POP_MESSAGE"):
    """POPs of one (group, channel, topic, queue, code) within a second (POP_MESSAGE, 200050).

    A POP asks for messages of any client's share; the broker answers it when there are some, or after ``poll_ms``.
    """

    channel: Text
    """The caller's channel: a client's, or one of a proxy's, which pops for all of its clients."""
    topic: Name
    """The topic; the broker adds messages of the group's retry topic of it."""
    queue_id: PoppedQueueId
    """The queue's id; -1: all queues of this broker."""
    first_time: Time
    """When the first of the POPs came."""
    last_time: Time
    """When the last one came."""
    count: Natural
    """The number of POPs."""
    code: Int32 | None = None
    """The response code; None: the broker answered later, the usual case."""
    invisible_ms: Duration = 0
    """For how long a message that the last one gets is given to no other client, milliseconds."""
    poll_ms: Duration = 0
    """For how long the last one may wait for a message, milliseconds."""
    order: bool = False
    """True if the last one is of a group that consumes in order: a queue is then blocked until its batch is acked."""
    filtered: bool = False
    """True if any of them has an expression: messages that do not match it are popped, and never acked."""


class AckMessage(BrokerGroupEvent, frozen=True, gc=False, kw_only=True, tag="ACK_MESSAGE"):
    """Acks of one (group, channel, topic, queue, order, code) within a second (ACK_MESSAGE, 200051; BATCH_ACK, 200151).

    The broker accepts an ack also when it has no effect: of a message that it has given to another client meanwhile,
    or in order, of another delivery than the newest.
    """

    channel: Text
    """The caller's channel: a client's, or one of a proxy's."""
    topic: Name
    """The topic; of a message that was delivered again, the retry topic."""
    queue_id: Natural
    """The queue's id."""
    first_time: Time
    """When the first of the acks came."""
    last_time: Time
    """When the last one came."""
    code: Int32 | None = None
    """The response code; None: the broker answered later (appendAckAsync)."""
    order: bool = False
    """True if the messages were popped in order (reviveQid 999)."""
    ranges: Annotated[tuple[OffsetRange, ...], msgspec.Meta(min_length=1, max_length=ACK_RANGES_MAX)]
    """The messages' offsets: pairs of the first and the last of those that follow each other, in order."""
    pop_time_min: PopTime
    """When the first popped of the messages was popped, by the broker's clock."""
    pop_time_max: PopTime
    """When the last popped of them was."""
    invisible_ms: Duration
    """For how long the last one was to be given to no other client, milliseconds."""

    def __post_init__(self) -> None:
        before = -2
        for first, last in self.ranges:
            if first <= before + 1 or last < first:
                msg = "the `ranges` of ACK_MESSAGE are not in order"
                raise ValueError(msg)
            before = last
        if self.pop_time_max < self.pop_time_min:
            msg = "`pop_time_max` of ACK_MESSAGE is below `pop_time_min`"
            raise ValueError(msg)


class ChangeMessageInvisibletime(
    BrokerGroupEvent, frozen=True, gc=False, kw_only=True, tag="CHANGE_MESSAGE_INVISIBLETIME"
):
    """A client or a proxy changes when a popped message is given to another one (CHANGE_MESSAGE_INVISIBLETIME, 200053).

    It is a refusal (the message comes back after ``changed_ms``), or a proxy's renewal for a client that still has it.
    """

    channel: Text
    """The caller's channel: a client's, or one of a proxy's."""
    topic: Name
    """The topic; of a message that was delivered again, the retry topic."""
    queue_id: Natural
    """The queue's id."""
    offset: StoredOffset
    """The message's offset."""
    code: Int32 | None = None
    """The response code; None: the broker answered later (appendAckAsync and appendCkAsync)."""
    order: bool = False
    """True if the message was popped in order (reviveQid 999)."""
    pop_time: PopTime
    """When it was popped, or last changed if not in order, by the broker's clock."""
    invisible_ms: Duration
    """For how long after that it was to be given to no other client, milliseconds."""
    changed_ms: Duration
    """For how long it is to be given to no other client from now on, milliseconds."""


class ProxyHeartBeat(BrokerGroupEvent, frozen=True, gc=False, kw_only=True, tag="PROXY_HEART_BEAT"):
    """A proxy copies a heartbeat of one of its clients, or its end, to the other proxies (HeartbeatSyncerData).

    Proxies in cluster mode do so by a message in their own topic (heartbeatSyncerTopicName), at one broker after the
    other: of k brokers, the hook of each sees one in k heartbeats. Anybody may send there.
    """

    channel: Text
    """The proxy's channel."""
    code: Int32 | None = None
    """The response code of the send; None: the broker answered later, the usual case."""
    client_id: Name
    """The client's id."""
    proxy: Text = ""
    """The proxy (localProxyId): address%remoting port%gRPC port."""
    registers: bool
    """True if the client is registered (REGISTER); otherwise it has left, or the proxy has dropped it (UNREGISTER)."""
    language: Text = ""
    """Its language (LanguageCode), such as JAVA."""
    version: Int32 = 0
    """Its version, a number of MQVersion.Version."""
    consume_type: Text = ""
    """CONSUME_PASSIVELY, CONSUME_ACTIVELY or CONSUME_POP; empty: unknown, as of a client that has left."""
    message_model: Text = ""
    """CLUSTERING or BROADCASTING; empty: unknown."""
    subscriptions: tuple[Subscription, ...] = ()
    """Its subscriptions."""


HookEvent: TypeAlias = (
    HeartBeat
    | UnregisterClient
    | LockBatchMq
    | UnlockBatchMq
    | UpdateConsumerOffset
    | InvokeBrokerToResetOffset
    | QueryConsumerOffset
    | PullMessage
    | GetConsumerListByGroup
    | PopMessage
    | AckMessage
    | ChangeMessageInvisibletime
    | ProxyHeartBeat
)
"""The events by which a broker's hook reports of one group."""

PoppedEvent: TypeAlias = PopMessage | AckMessage | ChangeMessageInvisibletime
"""The calls by which clients and proxies pop messages and finish them."""
