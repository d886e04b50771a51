"""Convert the bodies of answers (org.apache.rocketmq.remoting.protocol) to the fields of events.

The values are checked when the event is created (`emitter`). Lists in hash order are sorted, so that equal answers give
equal bytes.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from streaming.base.limits import ANSWER_KEY_CHARACTERS, ROUTE_QUEUES
from streaming.collect.fastjson import FastjsonError, Json, items, parse
from streaming.collect.stacks import listener_stacks

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
    "consumeConcurrentlyMaxSpan",
    "consumeMessageBatchMaxSize",
    "consumeThreadMin",
    "consumeThreadMax",
    "consumeTimeout",
    "maxReconsumeTimes",
    "suspendCurrentQueueTimeMillis",
)
"""The properties of a consumer that are kept: those that detection reads or shows as evidence."""

_PROCESS_QUEUE = {
    "commit_offset": "commitOffset",
    "cached_count": "cachedMsgCount",
    "cached_min": "cachedMsgMinOffset",
    "cached_max": "cachedMsgMaxOffset",
    "transaction_count": "transactionMsgCount",
    "transaction_min": "transactionMsgMinOffset",
    "transaction_max": "transactionMsgMaxOffset",
    "locked": "locked",
    "lock_time": "lastLockTimestamp",
    "dropped": "droped",  # RocketMQ's own spelling
    "pull_time": "lastPullTimestamp",
    "consume_time": "lastConsumeTimestamp",
    "unlock_attempts": "tryUnlockTimes",
}
_POP_QUEUE = {"wait_ack_count": "waitAckCount", "dropped": "droped", "pop_time": "lastPopTimestamp"}
_OFFSETS = {
    "broker_offset": "brokerOffset",
    "consumer_offset": "consumerOffset",
    "pull_offset": "pullOffset",
    "last_time": "lastTimestamp",
}
_STORED = {"min_offset": "minOffset", "max_offset": "maxOffset", "last_time": "lastUpdateTimestamp"}
_SUBSCRIPTION = {
    "topic": "topic",
    "sub_string": "subString",
    "expression_type": "expressionType",
    "sub_version": "subVersion",
}
_CONNECTION = {"client_id": "clientId", "channel": "clientAddr", "language": "language", "version": "version"}

_RUNTIME = re.compile(r"\[ (\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")
"""StoreStatsService.getFormatRuntime."""

_PERM_READ = 4  # PermName.PERM_READ


class Broker(NamedTuple):
    """The replica of a broker that its clients use, as listed by the name server."""

    cluster: str
    name: str
    address: str
    broker_id: int = 0
    is_master: bool = True
    """Whether it is the master or acts as master, and grants locks; else it is a slave that only serves reads."""


def brokers(body: bytes) -> list[Broker]:
    """Return every broker of every cluster (ClusterInfo, 106): its master, else the slave with the lowest id.

    That slave acts as master if its broker allows it (enableSlaveActingMaster). The name server must support that, too
    (supportActingMaster), which no answer shows.
    """
    return [
        _in_use(data, {int(broker_id): address for broker_id, address in items(data["brokerAddrs"])})
        for _, data in items(parse(body)["brokerAddrTable"])
        if data["brokerAddrs"]
    ]


def _in_use(data: Json, replicas: Mapping[int, str]) -> Broker:
    first = min(replicas)
    is_master = first == 0 or bool(data.get("enableActingMaster"))  # MixAll.MASTER_ID
    return Broker(_text(data["cluster"]), _text(data["brokerName"]), _text(replicas[first]), first, is_master)


def groups(body: bytes) -> set[str]:
    """Return the consumer groups of a broker, online or not (SubscriptionGroupWrapper, 201)."""
    return {_text(name) for name, _ in items(parse(body)["subscriptionGroupTable"])}


def broker_status(body: bytes) -> Payload:
    """Return the broker's boot time and its clock, epoch milliseconds; whole seconds since the boot (KVTable, 28).

    Both come from the message store (StoreStatsService.getRuntimeInfo), which reports its age as text. If the age can't
    be parsed, ``now`` is 0: unknown.
    """
    table = parse(body)["table"]
    boot_time = int(table["bootTimestamp"])
    age = _RUNTIME.fullmatch(str(table.get("runtime", "")))
    if age is None:
        return {"boot_time": boot_time, "now": 0}
    days, hours, minutes, seconds = map(int, age.groups())
    return {"boot_time": boot_time, "now": boot_time + (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000}


def route(body: bytes) -> Payload:
    """Return the read queues of a topic (TopicRouteData, 105; MQClientInstance.topicRouteData2TopicSubscribeInfo).

    Raises:
        FastjsonError: it has more queues than `limits.ROUTE_QUEUES`: each becomes an object here.
    """
    readable = [data for data in parse(body)["queueDatas"] if data["perm"] & _PERM_READ]
    if (count := sum(max(0, data["readQueueNums"]) for data in readable)) > ROUTE_QUEUES:
        msg = f"a route of {count:,} queues, the limit is {ROUTE_QUEUES:,}"
        raise FastjsonError(msg)
    queues = sorted((data["brokerName"], number) for data in readable for number in range(data["readQueueNums"]))
    return {"queues": [{"broker": broker, "queue_id": number} for broker, number in queues]}


def connection(body: bytes) -> Payload:
    """Return a group's members and subscriptions on a broker (ConsumerConnection, 203)."""
    answer = parse(body)
    return {
        "connections": sorted(
            (_renamed(one, _CONNECTION) for one in answer["connectionSet"]),
            key=lambda one: (one["client_id"], one["channel"]),
        ),
        "subscriptions": _subscriptions([one for _, one in items(answer.get("subscriptionTable"))]),
        "consume_type": answer.get("consumeType") or "",
        "message_model": answer.get("messageModel") or "",
        "consume_from_where": answer.get("consumeFromWhere") or "",
    }


NO_MEMBERS: Payload = {"connections": []}
"""The answer to 203 with code 206: no member of the group is online. A fact, not a failure."""


def consume_stats(body: bytes) -> Payload:
    """Return a group's offsets on a broker (ConsumeStats, 208)."""
    return {"queues": [{"mq": mq, **_renamed(row, _OFFSETS)} for mq, row in _by_queue(parse(body)["offsetTable"])]}


def consume_time_span(body: bytes) -> Payload:
    """Return how long the next message of each queue has waited, in milliseconds; 0 if none waits (303).

    The body is a QueryConsumeTimeSpanBody. A broker that no longer stores that message, or has no offset of the group,
    subtracts -1 or 0 from its clock: a wait of some 50 years, which is omitted. It is recognised without a clock: such
    a wait is greater than the timestamp of the newest message.
    """
    rows = [
        {"mq": _mq(row["messageQueue"]), "delay_time": row["delayTime"]}
        for row in parse(body)["consumeTimeSpanSet"]
        if row["delayTime"] <= 0 or row["delayTime"] < row["maxTimeStamp"]
    ]
    return {"queues": sorted(rows, key=lambda row: tuple(row["mq"].values()))}


def topic_stats(body: bytes) -> Payload:
    """Return between which offsets a topic's messages are stored on a broker (TopicStatsTable, 202)."""
    return {"queues": [{"mq": mq, **_renamed(row, _STORED)} for mq, row in _by_queue(parse(body)["offsetTable"])]}


NO_TOPIC: Payload = {"queues": []}
"""The answer to 202 with code 17: the broker has no such topic. A fact, not a failure."""


def running_info(body: bytes) -> Payload:
    """Return a client's own state (ConsumerRunningInfo, 307)."""
    answer = parse(body)
    properties: Mapping[str, str] = answer["properties"]
    return {
        "orderly": properties.get("PROP_CONSUMEORDERLY") == "true",
        "strategy": _simple_class_name(properties.get("allocateMessageQueueStrategy", "")),
        "start_time": int(properties.get("PROP_CONSUMER_START_TIMESTAMP", 0)),
        "properties": {name: properties[name] for name in PROPERTIES if name in properties},
        "subscriptions": _subscriptions(answer.get("subscriptionSet") or []),
        "queues": [{"mq": mq, **_process_queue(row)} for mq, row in _by_queue(answer["mqTable"])],
        "pop_queues": [{**mq, **_renamed(row, _POP_QUEUE)} for mq, row in _by_queue(answer.get("mqPopTable"))],
        "stacks": listener_stacks(_text(answer.get("jstack") or "")),
    }


def _process_queue(row: Json) -> Payload:
    renamed = _renamed(row, _PROCESS_QUEUE)
    renamed["commit_offset"] = max(int(renamed["commit_offset"]), -1)  # OffsetStore.readOffset: -2 where it failed
    return renamed


def _renamed(row: Json, names: Mapping[str, str]) -> Payload:
    """Return the row's fields under the events' names; a field that an older version doesn't send keeps its default."""
    return {ours: row[theirs] for ours, theirs in names.items() if row.get(theirs) is not None}


def _subscriptions(subscriptions: Json) -> list[Payload]:
    return sorted((_renamed(one, _SUBSCRIPTION) for one in subscriptions), key=lambda one: _text(one["topic"]))


def _by_queue(table: Json) -> list[tuple[Payload, Json]]:
    """Return the rows of a table keyed by message queue: an object, or an object written as a string (fastjson 2)."""
    rows = []
    for key, row in items(table):
        rows.append((_mq(_queue_of(key) if isinstance(key, str) else key), row))
    return sorted(rows, key=lambda one: tuple(one[0].values()))


def _queue_of(key: str) -> Json:
    if len(key) > ANSWER_KEY_CHARACTERS:
        msg = f"a key of {len(key):,} characters"
        raise FastjsonError(msg)
    return parse(key.encode(), depth_max=1)


def _mq(queue: Json) -> Payload:
    return {"topic": _text(queue["topic"]), "broker": queue["brokerName"], "queue_id": queue["queueId"]}


def _text(value: Json) -> str:
    """Return a name; names are used before the event checks its fields."""
    if not isinstance(value, str):
        msg = f"a name of type {type(value).__name__}"
        raise TypeError(msg)
    return value


def _simple_class_name(text: str) -> str:
    """Return ``AllocateMessageQueueAveragely`` for ``org.….AllocateMessageQueueAveragely@1a2b`` (Object.toString)."""
    return text.partition("@")[0].rpartition(".")[2]
