"""Read answers about a group (members, offsets, waiting times, dead letters), and of a client about itself (307)."""

from collections.abc import Mapping
from operator import attrgetter
from typing import NamedTuple

import msgspec

from rebalance_model.entities import MessageQueue, Time
from rebalance_model.observe.events import (
    Connection,
    OffsetInfo,
    PopProcessQueueInfo,
    ProcessQueueInfo,
    TimeSpanInfo,
    TopicOffset,
)
from rebalance_model.observe.events.fields import Text
from streaming.collect.fastjson import Json, items, parse
from streaming.collect.fields import Names, Unreadable, row, rows, value
from streaming.collect.response_parts import (
    MQ_ORDER,
    QUEUE,
    Payload,
    is_valid,
    object_in,
    of_queues,
    place_in,
    queue_in,
    queue_in_key,
    required,
    subscriptions_in,
    table_in,
)
from streaming.collect.stacks import is_whole_dump, listener_stacks

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
_CONNECTION = Names({"client_id": "clientId", "channel": "clientAddr", "language": "language", "version": "version"})
NO_MEMBERS: Payload = {"connections": []}
"""The answer to 203 with code 206: no member of the group is online. A fact, not a failure."""
NO_TOPIC: Payload = {"queues": []}
"""The answer to 202 with code 17: the broker has no such topic. A fact, not a failure."""


def connection(body: bytes) -> Payload:
    """Return a group's members and subscriptions on a broker (ConsumerConnection, 203)."""
    answer, unreadable = object_in(parse(body)), Unreadable()
    members = [
        row(Connection, one, _CONNECTION, "connectionSet", place_in(one, "clientId"), unreadable)
        for one in rows(required(answer, "connectionSet"), "connectionSet", unreadable)
    ]
    subscriptions = table_in(answer, "subscriptionTable", unreadable)
    return {
        "connections": sorted({one for one in members if one is not None}, key=attrgetter("client_id", "channel")),
        "subscriptions": subscriptions_in((one for _, one in subscriptions), "subscriptionTable", unreadable),
        "consume_type": value(Text, answer.get("consumeType"), "", "consumeType", unreadable),
        "message_model": value(Text, answer.get("messageModel"), "", "messageModel", unreadable),
        "consume_from_where": value(Text, answer.get("consumeFromWhere"), "", "consumeFromWhere", unreadable),
    } | unreadable.fields("connectionSet")


def proxy_connection(body: bytes) -> Payload:
    """Return a group's clients at a proxy, and their subscriptions (ConsumerConnection, 203)."""
    kept = ("connections", "subscriptions", "unreadable", "incomplete")
    return {name: value for name, value in connection(body).items() if name in kept}


def consume_stats(body: bytes) -> Payload:
    """Return a group's offsets on a broker (ConsumeStats, 208)."""
    answer, unreadable = object_in(parse(body)), Unreadable()
    queues = of_queues(OffsetInfo, required(answer, "offsetTable"), _OFFSETS, "offsetTable", unreadable)
    return {"queues": queues} | unreadable.fields()


class Backlog(NamedTuple):
    """The messages that a group has not consumed on a broker."""

    messages: int
    consumed_stored_at: int
    """When the broker stored the last message that was consumed of the queue with the most of them; epoch milliseconds,
    by its clock. 0: unknown."""


def backlog(body: bytes) -> Backlog | None:
    """Return what a group has not consumed on a broker, by its offsets (208); None: it has no queue."""
    queues: list[OffsetInfo] = consume_stats(body)["queues"]
    if not queues:
        return None
    waiting = [max(0, one.broker_offset - one.consumer_offset) for one in queues]
    _, furthest = max(enumerate(queues), key=lambda one: waiting[one[0]])
    return Backlog(sum(waiting), furthest.last_time)


def consume_time_span(body: bytes) -> Payload:
    """Return how long the next message of each queue has waited, in milliseconds; 0 if none waits (303).

    The body is a QueryConsumeTimeSpanBody. A broker that no longer stores that message, or has no offset of the group,
    subtracts -1 or 0 from its clock: a wait of some 50 years, which is omitted. It is recognised without a clock: such
    a wait is greater than the timestamp of the newest message.
    """
    answer, unreadable, table = object_in(parse(body)), Unreadable(), "consumeTimeSpanSet"
    spans: dict[MessageQueue, TimeSpanInfo] = {}
    for sent in rows(required(answer, table), table, unreadable):
        mq = queue_in(sent.get("messageQueue") if isinstance(sent, dict) else sent, table, unreadable)
        read = mq and row(TimeSpanInfo, sent, _DELAY, table, str(mq), unreadable, mq=mq)
        if mq and read:
            newest = value(int, sent.get("maxTimeStamp"), 0, f"{table}.maxTimeStamp", unreadable)
            if read.delay_time <= 0 or read.delay_time < newest:
                spans[mq] = read
    return {"queues": [spans[mq] for mq in sorted(spans, key=MQ_ORDER)]} | unreadable.fields()


def topic_stats(body: bytes) -> Payload:
    """Return between which offsets a topic's messages are stored on a broker (TopicStatsTable, 202)."""
    answer, unreadable = object_in(parse(body)), Unreadable()
    queues = of_queues(TopicOffset, required(answer, "offsetTable"), _STORED, "offsetTable", unreadable)
    return {"queues": queues} | unreadable.fields()


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
_POP_QUEUE = Names(
    QUEUE.by_field | {"wait_ack_count": "waitAckCount", "dropped": "droped", "pop_time": "lastPopTimestamp"}, _GO
)
_START = "PROP_CONSUMER_START_TIMESTAMP"
_ORDERLY = "PROP_CONSUMEORDERLY"
_STRATEGY = "allocateMessageQueueStrategy"


def running_info(body: bytes, *, stacks: bool = False) -> Payload:
    """Return a client's own state (ConsumerRunningInfo, 307); its stacks only if they were asked for."""
    answer, unreadable = object_in(parse(body)), Unreadable()
    properties = {name: text for name, text in table_in(answer, "properties", unreadable) if isinstance(name, str)}
    queues = of_queues(ProcessQueueInfo, required(answer, "mqTable"), _PROCESS_QUEUE, "mqTable", unreadable)
    orderly = _is_orderly(properties, unreadable)
    if orderly and _is_go(properties):
        queues = [_with_stamps_of_go(queue) for queue in queues]
    dump = value(str, answer.get("jstack"), "", "jstack", unreadable) if stacks else ""
    return {
        "orderly": orderly,
        "strategy": _strategy(properties, unreadable),
        "start_time": value(
            Time | None, properties.get(_START), None if _START in properties else 0, _START, unreadable
        ),
        "properties": _texts({name: properties[name] for name in PROPERTIES if name in properties}),
        "queues": queues,
        "subscriptions": subscriptions_in(
            rows(answer.get("subscriptionSet"), "subscriptionSet", unreadable), "subscriptionSet", unreadable
        ),
        "pop_queues": _pop_queues(answer.get("mqPopTable"), unreadable),
        "stacks": listener_stacks(dump),
        "stacks_asked": is_whole_dump(dump),
    } | unreadable.fields("mqTable")


def _texts(properties: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return those that are texts of an allowed length."""
    if is_valid(dict[str, Text], properties):  # as they should be: together
        return properties
    return {name: text for name, text in properties.items() if is_valid(Text, text)}


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


def _pop_queues(sent: Json, unreadable: Unreadable) -> list[PopProcessQueueInfo]:
    by_place: dict[tuple[str, str, int], PopProcessQueueInfo] = {}
    for key, entry in items(sent) if sent is None or isinstance(sent, dict | list) else ():
        queue = queue_in_key(key) if isinstance(key, str) else key
        if not isinstance(queue, dict) or not isinstance(entry, dict):
            unreadable.note("mqPopTable", "", "Expected `object`")
            continue
        read = row(PopProcessQueueInfo, {**entry, **queue}, _POP_QUEUE, "mqPopTable", "", unreadable)
        if read is not None:
            by_place[read.topic, read.broker, read.queue_id] = read
    return [by_place[place] for place in sorted(by_place)]
