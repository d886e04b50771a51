"""Read what brokers and proxies answer about a group: members, offsets, waiting times, dead letters."""

from operator import attrgetter

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import Connection, OffsetInfo, TimeSpanInfo, TopicOffset
from rebalance_model.observe.events.fields import Text
from streaming.collect.fastjson import parse
from streaming.collect.fields import Names, Unreadable, row, rows, value
from streaming.collect.response_parts import (
    MQ_ORDER,
    Payload,
    object_in,
    of_queues,
    place_in,
    queue_in,
    required,
    subscriptions_in,
    table_in,
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
