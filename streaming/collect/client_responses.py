"""Read what a client answers about itself (ConsumerRunningInfo, 307)."""

from collections.abc import Mapping

import msgspec

from rebalance_model.entities import Time
from rebalance_model.observe.events import PopProcessQueueInfo, ProcessQueueInfo
from rebalance_model.observe.events.fields import Text
from streaming.collect.fastjson import Json, items, parse
from streaming.collect.fields import Names, Unreadable, row, rows, value
from streaming.collect.response_parts import (
    QUEUE,
    Payload,
    is_valid,
    object_in,
    of_queues,
    queue_in_key,
    required,
    subscriptions_in,
    table_in,
)
from streaming.collect.stacks import is_whole_dump, listener_stacks

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
_POP_QUEUE = QUEUE + Names({"wait_ack_count": "waitAckCount", "dropped": "droped", "pop_time": "lastPopTimestamp"}, _GO)
_START = "PROP_CONSUMER_START_TIMESTAMP"
_ORDERLY = "PROP_CONSUMEORDERLY"
_STRATEGY = "allocateMessageQueueStrategy"


def running_info(body: bytes, *, stacks: bool = False) -> Payload:
    """Return a client's own state (ConsumerRunningInfo, 307).

    Args:
        body: the answer.
        stacks: whether its stacks were asked for; else they are not looked at.
    """
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
