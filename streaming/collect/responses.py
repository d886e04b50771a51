"""Read the bodies of answers (org.apache.rocketmq.remoting.protocol) as the fields of events, typed and checked.

This is the one place where bytes from outside become values: nothing else looks at an answer. What can't be read of an
answer is left out, or unknown, and named in its event (`fields`); an answer without its main part is refused. Lists in
hash order are sorted, so that equal answers give equal bytes.
"""

import re
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import asdict, astuple

from rebalance_model.entities import MessageQueue, Name, Natural, Time
from rebalance_model.observe.events import (
    Connection,
    OffsetInfo,
    PopProcessQueueInfo,
    ProcessQueueInfo,
    Subscription,
    TimeSpanInfo,
    TopicOffset,
)
from rebalance_model.observe.events.fields import Text
from streaming.base.limits import ANSWER_KEY_CHARACTERS, ROUTE_QUEUES
from streaming.collect.fastjson import FastjsonError, Json, items, parse
from streaming.collect.fields import Names, Unreadable, as_sent, row, rows, value
from streaming.collect.stacks import listener_stacks

T = TypeVar("T", bound=msgspec.Struct)
Payload = dict[str, Any]
"""Fields of an event."""

PROPERTIES = (
    "PROP_CLIENT_VERSION",
    "PROP_CONSUME_TYPE",
    "messageModel",
    "consumeFromWhere",
    "pullInterval",  # above 120,000 the client's own queues pull-expire
    "pullBatchSize",
    "pullThresholdForQueue",  # flow control: with this many cached messages no pull is sent
    "pullThresholdSizeForQueue",
    "pullThresholdForTopic",
    "popThresholdForQueue",  # with more messages that are not acknowledged a client stops popping
    "popInvisibleTime",
    "consumeConcurrentlyMaxSpan",
    "consumeMessageBatchMaxSize",
    "consumeThreadMin",
    "consumeThreadMax",
    "consumeTimeout",
    "maxReconsumeTimes",
    "suspendCurrentQueueTimeMillis",
)
"""The properties of a consumer that are kept: those that detection reads or shows as evidence."""

_GO = {"dropped": "dropped"}
"""Go's spelling of a field for which RocketMQ has its own, ``droped``."""
_PROCESS_QUEUE = Names(
    {
        "commit_offset": "commitOffset",
        "cached_count": "cachedMsgCount",
        "cached_min": "cachedMsgMinOffset",
        "cached_max": "cachedMsgMaxOffset",
        "transaction_count": "transactionMsgCount",
        "transaction_min": "transactionMsgMinOffset",
        "transaction_max": "transactionMsgMaxOffset",
        "locked": "locked",
        "lock_time": "lastLockTimestamp",
        "dropped": "droped",
        "pull_time": "lastPullTimestamp",
        "consume_time": "lastConsumeTimestamp",
        "unlock_attempts": "tryUnlockTimes",
    },
    _GO,
)
_QUEUE = Names({"topic": "topic", "broker": "brokerName", "queue_id": "queueId"})
_POP_QUEUE = _QUEUE + Names(
    {"wait_ack_count": "waitAckCount", "dropped": "droped", "pop_time": "lastPopTimestamp"}, _GO
)
_OFFSETS = Names(
    {
        "broker_offset": "brokerOffset",
        "consumer_offset": "consumerOffset",
        "pull_offset": "pullOffset",
        "last_time": "lastTimestamp",
    }
)
_STORED = Names({"min_offset": "minOffset", "max_offset": "maxOffset", "last_time": "lastUpdateTimestamp"})
_DELAY = Names({"delay_time": "delayTime"})
_SUBSCRIPTION = Names(
    {
        "topic": "topic",
        "sub_string": "subString",
        "expression_type": "expressionType",
        "sub_version": "subVersion",
    }
)
_CONNECTION = Names({"client_id": "clientId", "channel": "clientAddr", "language": "language", "version": "version"})

_RUNTIME = re.compile(r"\[ (\d{1,9}) days, (\d{1,9}) hours, (\d{1,9}) minutes, (\d{1,9}) seconds \]", re.ASCII)
"""StoreStatsService.getFormatRuntime."""

_PERM_READ = 4  # PermName.PERM_READ
_REPLICAS_MAX = 100  # of a broker; a master has a few


class ListedBroker(NamedTuple):
    """The replica of a broker that its clients use, as listed by the name server."""

    cluster: str
    name: str
    address: str
    broker_id: int = 0
    is_master: bool = True
    """Whether it is the master or acts as master, and grants locks; else it is a slave that only serves reads."""

    @property
    def place(self) -> tuple[str, str]:
        """Its cluster and its name, which all its replicas share."""
        return self.cluster, self.name


class Listed(NamedTuple):
    """The brokers that a name server lists, and what of its answer can't be read."""

    brokers: list[ListedBroker]
    unreadable: tuple[str, ...] = ()


class _Queues(msgspec.Struct):
    """A row of a route (QueueData)."""

    brokerName: Name  # noqa: N815  RocketMQ's name
    readQueueNums: int = 0  # noqa: N815  RocketMQ's name
    perm: int = 0


def brokers(body: bytes) -> Listed:
    """Return every broker of every cluster (ClusterInfo, 106): its master, else the slave with the lowest id.

    That slave acts as master if its broker allows it (enableSlaveActingMaster). The name server must support that, too
    (supportActingMaster), which no answer shows.

    Raises:
        FastjsonError: the answer has no table, which is not a cluster without brokers.
    """
    unreadable = Unreadable()
    table = _required(_object(parse(body)), "brokerAddrTable")
    found = [_in_use(data, str(name), unreadable) for name, data in items(table)]
    return Listed([broker for broker in found if broker is not None], unreadable.texts())


def _in_use(data: Json, name: str, unreadable: Unreadable) -> ListedBroker | None:
    """Return the replica that clients use; None if there is none, or what names it can't be read."""
    place = name[:_PLACE_CHARACTERS]
    if not isinstance(data, dict):
        unreadable.note_row("brokerAddrTable", "", "Expected `object`", place)
        return None
    if data.get("brokerAddrs") == {}:
        return None  # all of its replicas have unregistered
    replicas: dict[int, str] = {}
    for key, address in items(data.get("brokerAddrs")):
        broker_id = value(Natural, key, None, "brokerAddrs", unreadable)
        if broker_id is not None and isinstance(address, str) and len(replicas) < _REPLICAS_MAX:
            replicas[broker_id] = address
    cluster, broker = (value(Name, data.get(field), None, field, unreadable) for field in ("cluster", "brokerName"))
    if not replicas or cluster is None or broker is None:
        unreadable.note_row("brokerAddrTable", "", "no cluster, name or address", place)
        return None
    first = min(replicas)
    is_master = first == 0 or bool(data.get("enableActingMaster"))  # MixAll.MASTER_ID
    return ListedBroker(cluster, broker, replicas[first], first, is_master)


def groups(body: bytes) -> dict[str, bool]:
    """Return the consumer groups of a broker, online or not (SubscriptionGroupWrapper, 201); those with a valid name.

    Each has with it whether clients that pop get the messages of a queue in order (consumeMessageOrderly).

    Raises:
        FastjsonError: the answer has no table.
    """
    table = _required(_object(parse(body)), "subscriptionGroupTable")
    return {
        name: isinstance(config, dict) and config.get("consumeMessageOrderly") is True
        for name, config in items(table)
        if isinstance(name, str) and _is_name(name)
    }


def broker_status(body: bytes) -> Payload:
    """Return the broker's boot time and its clock, epoch milliseconds; whole seconds since the boot (KVTable, 28).

    Both come from the message store (StoreStatsService.getRuntimeInfo), which reports its age as text. If the age can't
    be parsed, ``now`` is 0: unknown.

    Raises:
        FastjsonError: the answer has no boot time.
    """
    table = _object(_required(_object(parse(body)), "table"))
    boot_time = _converted(Time, _required(table, "bootTimestamp"), "bootTimestamp")
    age = _RUNTIME.fullmatch(str(table.get("runtime", ""))[:1_000])
    if age is None:
        return {"boot_time": boot_time, "now": 0}
    days, hours, minutes, seconds = map(int, age.groups())
    now = boot_time + (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000
    return {"boot_time": boot_time, "now": now if _is(Time, now) else 0}


def route(body: bytes, topic: str) -> Payload:
    """Return the read queues of a topic (TopicRouteData, 105; MQClientInstance.topicRouteData2TopicSubscribeInfo).

    Raises:
        FastjsonError: it has more queues than `limits.ROUTE_QUEUES`: each becomes an object here; or a row can't be
            read: a part of a route would look as if the topic had lost queues.
    """
    sent = _required(_object(parse(body)), "queueDatas")
    if not isinstance(sent, list):
        msg = "queueDatas is no list"
        raise FastjsonError(msg)
    readable = [data for one in sent if (data := _converted(_Queues, one, "queueDatas")).perm & _PERM_READ]
    if (count := sum(max(0, data.readQueueNums) for data in readable)) > ROUTE_QUEUES:
        msg = f"a route of {count:,} queues, the limit is {ROUTE_QUEUES:,}"
        raise FastjsonError(msg)
    queues = sorted({(data.brokerName, number) for data in readable for number in range(data.readQueueNums)})
    return {"queues": [MessageQueue(topic, broker, number) for broker, number in queues]}


def connection(body: bytes) -> Payload:
    """Return a group's members and subscriptions on a broker (ConsumerConnection, 203)."""
    answer, unreadable = _object(parse(body)), Unreadable()
    members = [
        row(Connection, one, _CONNECTION, "connectionSet", _place(one, "clientId"), unreadable)
        for one in rows(_required(answer, "connectionSet"), "connectionSet", unreadable)
    ]
    subscriptions = _table(answer, "subscriptionTable", unreadable)
    return {
        "connections": sorted({one for one in members if one is not None}, key=attrgetter("client_id", "channel")),
        "subscriptions": _subscriptions((one for _, one in subscriptions), "subscriptionTable", unreadable),
        "consume_type": value(Text, answer.get("consumeType"), "", "consumeType", unreadable),
        "message_model": value(Text, answer.get("messageModel"), "", "messageModel", unreadable),
        "consume_from_where": value(Text, answer.get("consumeFromWhere"), "", "consumeFromWhere", unreadable),
    } | unreadable.fields("connectionSet")


def proxy_connection(body: bytes) -> Payload:
    """Return a group's clients at a proxy, and their subscriptions (ConsumerConnection, 203)."""
    kept = ("connections", "subscriptions", "unreadable", "incomplete")
    return {name: value for name, value in connection(body).items() if name in kept}


NO_MEMBERS: Payload = {"connections": []}
"""The answer to 203 with code 206: no member of the group is online. A fact, not a failure."""


def consume_stats(body: bytes) -> Payload:
    """Return a group's offsets on a broker (ConsumeStats, 208)."""
    answer, unreadable = _object(parse(body)), Unreadable()
    queues = _of_queues(OffsetInfo, _required(answer, "offsetTable"), _OFFSETS, "offsetTable", unreadable)
    return {"queues": queues} | unreadable.fields()


def backlog(body: bytes) -> int | None:
    """Return how many messages a group has not consumed on a broker, by its offsets (208); None: it has no queue."""
    queues: list[OffsetInfo] = consume_stats(body)["queues"]
    return sum(max(0, one.broker_offset - one.consumer_offset) for one in queues) if queues else None


def consume_time_span(body: bytes) -> Payload:
    """Return how long the next message of each queue has waited, in milliseconds; 0 if none waits (303).

    The body is a QueryConsumeTimeSpanBody. A broker that no longer stores that message, or has no offset of the group,
    subtracts -1 or 0 from its clock: a wait of some 50 years, which is omitted. It is recognised without a clock: such
    a wait is greater than the timestamp of the newest message.
    """
    answer, unreadable, table = _object(parse(body)), Unreadable(), "consumeTimeSpanSet"
    spans: dict[MessageQueue, TimeSpanInfo] = {}
    for sent in rows(_required(answer, table), table, unreadable):
        mq = _mq(sent.get("messageQueue") if isinstance(sent, dict) else sent, table, unreadable)
        read = mq and row(TimeSpanInfo, sent, _DELAY, table, str(mq), unreadable, mq=mq)
        if mq and read:
            newest = value(int, sent.get("maxTimeStamp"), 0, f"{table}.maxTimeStamp", unreadable)
            if read.delay_time <= 0 or read.delay_time < newest:
                spans[mq] = read
    return {"queues": [spans[mq] for mq in sorted(spans, key=_MQ_ORDER)]} | unreadable.fields()


def topic_stats(body: bytes) -> Payload:
    """Return between which offsets a topic's messages are stored on a broker (TopicStatsTable, 202)."""
    answer, unreadable = _object(parse(body)), Unreadable()
    queues = _of_queues(TopicOffset, _required(answer, "offsetTable"), _STORED, "offsetTable", unreadable)
    return {"queues": queues} | unreadable.fields()


NO_TOPIC: Payload = {"queues": []}
"""The answer to 202 with code 17: the broker has no such topic. A fact, not a failure."""


def running_info(body: bytes, *, stacks: bool = False) -> Payload:
    """Return a client's own state (ConsumerRunningInfo, 307).

    Args:
        body: the answer.
        stacks: whether its stacks were asked for; else they are not looked at.
    """
    answer, unreadable = _object(parse(body)), Unreadable()
    properties = {name: text for name, text in _table(answer, "properties", unreadable) if isinstance(name, str)}
    queues = _of_queues(ProcessQueueInfo, _required(answer, "mqTable"), _PROCESS_QUEUE, "mqTable", unreadable)
    orderly = _is_orderly(properties, unreadable)
    if orderly and _is_go(properties):
        queues = [_with_stamps_of_go(queue) for queue in queues]
    return {
        "orderly": orderly,
        "strategy": _strategy(properties, unreadable),
        "start_time": value(
            Time | None, properties.get(_START), None if _START in properties else 0, _START, unreadable
        ),
        "properties": _texts({name: properties[name] for name in PROPERTIES if name in properties}),
        "queues": queues,
        "subscriptions": _subscriptions(
            rows(answer.get("subscriptionSet"), "subscriptionSet", unreadable), "subscriptionSet", unreadable
        ),
        "pop_queues": _pop_queues(answer.get("mqPopTable"), unreadable),
        "stacks": listener_stacks(value(str, answer.get("jstack"), "", "jstack", unreadable)) if stacks else [],
    } | unreadable.fields("mqTable")


def _texts(properties: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return those that are texts of an allowed length."""
    if _is(dict[str, Text], properties):  # as they should be: together
        return properties
    return {name: text for name, text in properties.items() if _is(Text, text)}


def _is_go(properties: Mapping[str, Json]) -> bool:
    """Return whether it is the client in Go: its version begins with a small letter (v2.1.2), Java's with V4_9_7."""
    return str(properties.get("PROP_CLIENT_VERSION"))[:1] == "v"


def _with_stamps_of_go(queue: ProcessQueueInfo) -> ProcessQueueInfo:
    """Return a process queue of an ordered consumer in Go with its stamps as Java's client has them.

    There each renewal of the lock sets lastConsumeTimestamp (consumer.go: lockAll), consuming does not. What sets
    lastLockTimestamp is another request of the lock (lock), which the client makes when that stamp is 30 s old.
    """
    renewed = max((at for at in (queue.lock_time, queue.consume_time) if at is not None), default=None)
    return msgspec.structs.replace(queue, lock_time=renewed, consume_time=None)


_START = "PROP_CONSUMER_START_TIMESTAMP"
_ORDERLY = "PROP_CONSUMEORDERLY"
_STRATEGY = "allocateMessageQueueStrategy"


def _is_orderly(properties: Mapping[str, Json], unreadable: Unreadable) -> bool | None:
    """Return whether it consumes in order; a client that can't (one that pulls itself) has no such property."""
    otherwise = None if _ORDERLY in properties else False
    orderly: bool | None = value(bool, properties.get(_ORDERLY), otherwise, _ORDERLY, unreadable)
    return orderly


def _strategy(properties: Mapping[str, Json], unreadable: Unreadable) -> str | None:
    """Return ``AllocateMessageQueueAveragely`` for ``org.….AllocateMessageQueueAveragely@1a2b`` (Object.toString)."""
    otherwise = None if _STRATEGY in properties else ""
    text: str | None = value(Text, properties.get(_STRATEGY), otherwise, _STRATEGY, unreadable)
    return text.partition("@")[0].rpartition(".")[2] if text else text


def _of_queues(kind: type[T], sent: Json, names: Names, table: str, unreadable: Unreadable) -> list[T]:
    """Return the rows of a table that is keyed by message queue, in the order of the queues; the last of equal keys."""
    pairs = [(_queue_of(key) if isinstance(key, str) else key, one) for key, one in items(sent)]
    by_queue = _all_at_once(kind, pairs, names)
    if by_queue is None:
        by_queue = {}
        for key, one in pairs:
            mq = _mq(key, table, unreadable)
            read = row(kind, one, names, table, str(mq), unreadable, mq=mq) if mq is not None else None
            if mq is not None and read is not None:
                by_queue[mq] = read
    return [by_queue[mq] for mq in sorted(by_queue, key=_MQ_ORDER)]


def _all_at_once(kind: type[T], pairs: list[tuple[Json, Json]], names: Names) -> dict[MessageQueue, T] | None:
    """Return the rows of a table in which all can be read, in half the time; None if it is not such a one."""
    try:
        keys = msgspec.convert([key for key, _ in pairs], as_sent(MessageQueue, _QUEUE), strict=False)
        sent = msgspec.convert([one for _, one in pairs], as_sent(kind, names), strict=False)
    except msgspec.ValidationError:
        return _all_at_once(kind, pairs, names.of_others) if names.of_others else None
    by_queue: dict[MessageQueue, T] = {}
    for key, one in zip(keys, sent, strict=True):
        values = asdict(one)
        if None in values.values():
            return None
        mq = MessageQueue(*astuple(key))
        by_queue[mq] = kind(mq=mq, **values)
    return by_queue


def _pop_queues(sent: Json, unreadable: Unreadable) -> list[PopProcessQueueInfo]:
    by_place: dict[tuple[str, str, int], PopProcessQueueInfo] = {}
    for key, entry in items(sent) if sent is None or isinstance(sent, dict | list) else ():
        queue = _queue_of(key) if isinstance(key, str) else key
        if not isinstance(queue, dict) or not isinstance(entry, dict):
            unreadable.note("mqPopTable", "", "Expected `object`")
            continue
        read = row(PopProcessQueueInfo, {**entry, **queue}, _POP_QUEUE, "mqPopTable", "", unreadable)
        if read is not None:
            by_place[read.topic, read.broker, read.queue_id] = read
    return [by_place[place] for place in sorted(by_place)]


def _subscriptions(sent: Iterable[Json], table: str, unreadable: Unreadable) -> list[Subscription]:
    found = [row(Subscription, one, _SUBSCRIPTION, table, _place(one, "topic"), unreadable) for one in sent]
    return sorted((one for one in found if one is not None), key=lambda one: one.topic)


_MQ_ORDER = attrgetter("topic", "broker", "queue_id")
_PLACE_CHARACTERS = 100


def _mq(queue: Json, table: str, unreadable: Unreadable) -> MessageQueue | None:
    """Return the message queue of a row; without an id it is queue 0, which some clients leave out."""
    if isinstance(queue, dict) and queue.get("queueId") is None:
        queue = {**queue, "queueId": 0}
    return row(MessageQueue, queue, _QUEUE, table, _place(queue, "topic"), unreadable)


def _queue_of(key: str) -> Json:
    """Return the message queue that is written as a string (fastjson 2); None if it can't be read."""
    try:
        return parse(key.encode(), depth_max=1) if len(key) <= ANSWER_KEY_CHARACTERS else None
    except FastjsonError:
        return None


def _place(sent: Json, field: str) -> str:
    """Return what names a row, for a person."""
    named = sent.get(field) if isinstance(sent, dict) else None
    return named[:_PLACE_CHARACTERS] if isinstance(named, str) else ""


def _object(sent: Json) -> dict[str, Json]:
    """Return an object with names as its keys.

    Raises:
        FastjsonError: it is something else.
    """
    if not isinstance(sent, dict):
        msg = f"an object is expected, not {type(sent).__name__}"
        raise FastjsonError(msg)
    return sent


def _required(answer: dict[str, Json], field: str) -> Json:
    """Return the main part of an answer.

    Raises:
        FastjsonError: it is missing.
    """
    if answer.get(field) is None:
        msg = f"{field} is missing"
        raise FastjsonError(msg)
    return answer[field]


def _table(answer: dict[str, Json], field: str, unreadable: Unreadable) -> list[tuple[Json, Json]]:
    """Return the pairs of a further part of an answer, which may be absent."""
    try:
        return list(items(answer.get(field)))
    except FastjsonError as error:
        unreadable.note(field, "", str(error))
        return []


def _converted(kind: Any, sent: Json, field: str) -> Any:
    """Return the value as its type.

    Raises:
        FastjsonError: it can't be read.
    """
    try:
        return msgspec.convert(sent, kind, strict=False)
    except msgspec.ValidationError as error:
        msg = f"{field}: {error}"
        raise FastjsonError(msg) from None


def _is(kind: Any, sent: object) -> bool:
    try:
        msgspec.convert(sent, kind)
    except msgspec.ValidationError:
        return False
    return True


def _is_name(text: str) -> bool:
    return _is(Name, text)
