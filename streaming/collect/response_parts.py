"""Read the parts of answers (org.apache.rocketmq.remoting.protocol) as fields of events, typed and checked.

`cluster_responses` and `client_responses` read whole answers. These are the places where bytes from outside become
values: nothing else looks at an answer. What can't be read of an answer is left out, or unknown, and named in its event
(`fields`); an answer without its main part is refused. Lists in hash order are sorted, so that equal answers give equal
bytes.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict, astuple

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import Subscription
from streaming.base.limits import ANSWER_KEY_CHARACTERS
from streaming.collect.fastjson import FastjsonError, Json, items, parse
from streaming.collect.fields import Names, Unreadable, as_sent, row

T = TypeVar("T", bound=msgspec.Struct)
Payload = dict[str, Any]
"""Fields of an event."""
QUEUE = Names({"topic": "topic", "broker": "brokerName", "queue_id": "queueId"})
"""RocketMQ's names of the parts of a message queue."""
_SUBSCRIPTION = Names(
    {
        "topic": "topic",
        "sub_string": "subString",
        "expression_type": "expressionType",
        "sub_version": "subVersion",
    }
)
MQ_ORDER = attrgetter("topic", "broker", "queue_id")
PLACE_CHARACTERS = 100
"""Length of the text that names a row that can't be read."""


def object_in(sent: Json) -> dict[str, Json]:
    """Return an object with names as its keys.

    Raises:
        FastjsonError: it is something else.
    """
    if not isinstance(sent, dict):
        raise FastjsonError(f"an object is expected, not {type(sent).__name__}")
    return sent


def required(answer: dict[str, Json], field: str) -> Json:
    """Return the main part of an answer.

    Raises:
        FastjsonError: it is missing.
    """
    if answer.get(field) is None:
        raise FastjsonError(f"{field} is missing")
    return answer[field]


def table_in(answer: dict[str, Json], field: str, unreadable: Unreadable) -> list[tuple[Json, Json]]:
    """Return the pairs of a further part of an answer, which may be absent."""
    try:
        return list(items(answer.get(field)))
    except FastjsonError as error:
        unreadable.note(field, "", str(error))
        return []


def converted(kind: Any, sent: Json, field: str) -> Any:
    """Return the value as its type.

    Raises:
        FastjsonError: it can't be read.
    """
    try:
        return msgspec.convert(sent, kind, strict=False)
    except msgspec.ValidationError as error:
        raise FastjsonError(f"{field}: {error}") from None


def is_valid(kind: Any, sent: object) -> bool:
    """Return whether the value is one of the type."""
    try:
        msgspec.convert(sent, kind)
    except msgspec.ValidationError:
        return False
    return True


def of_queues(kind: type[T], sent: Json, names: Names, table: str, unreadable: Unreadable) -> list[T]:
    """Return the rows of a table that is keyed by message queue, in the order of the queues; the last of equal keys."""
    pairs = [(queue_in_key(key) if isinstance(key, str) else key, one) for key, one in items(sent)]
    by_queue = _all_at_once(kind, pairs, names)
    if by_queue is None:
        by_queue = {}
        for key, one in pairs:
            mq = queue_in(key, table, unreadable)
            read = row(kind, one, names, table, str(mq), unreadable, mq=mq) if mq is not None else None
            if mq is not None and read is not None:
                by_queue[mq] = read
    return [by_queue[mq] for mq in sorted(by_queue, key=MQ_ORDER)]


def _all_at_once(kind: type[T], pairs: list[tuple[Json, Json]], names: Names) -> dict[MessageQueue, T] | None:
    """Return the rows of a table in which all can be read, in half the time; None if it is not such a one."""
    try:
        keys = msgspec.convert([key for key, _ in pairs], as_sent(MessageQueue, QUEUE), strict=False)
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


def queue_in(queue: Json, table: str, unreadable: Unreadable) -> MessageQueue | None:
    """Return the message queue of a row; without an id it is queue 0, which some clients leave out."""
    if isinstance(queue, dict) and queue.get("queueId") is None:
        queue = {**queue, "queueId": 0}
    return row(MessageQueue, queue, QUEUE, table, place_in(queue, "topic"), unreadable)


def queue_in_key(key: str) -> Json:
    """Return the message queue that is written as a string (fastjson 2); None if it can't be read."""
    try:
        return parse(key.encode(), depth_max=1) if len(key) <= ANSWER_KEY_CHARACTERS else None
    except FastjsonError:
        return None


def place_in(sent: Json, field: str) -> str:
    """Return what names a row, for a person."""
    named = sent.get(field) if isinstance(sent, dict) else None
    return named[:PLACE_CHARACTERS] if isinstance(named, str) else ""


def subscriptions_in(sent: Iterable[Json], table: str, unreadable: Unreadable) -> list[Subscription]:
    """Return the subscriptions that can be read, by topic."""
    found = [row(Subscription, one, _SUBSCRIPTION, table, place_in(one, "topic"), unreadable) for one in sent]
    return sorted((one for one in found if one is not None), key=lambda one: one.topic)
