"""Read the answers of name servers and brokers about themselves: brokers, groups, routes, a broker's status."""

import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from rebalance_model.entities import MessageQueue, Name, Natural, Time
from streaming.base.limits import ROUTE_QUEUES
from streaming.collect.fastjson import FastjsonError, Json, items, parse
from streaming.collect.fields import Unreadable, value
from streaming.collect.response_parts import PLACE_CHARACTERS, Payload, converted, is_valid, object_in, required

_RUNTIME = re.compile(r"\[ (\d{1,9}) days, (\d{1,9}) hours, (\d{1,9}) minutes, (\d{1,9}) seconds \]", re.ASCII)
"""StoreStatsService.getFormatRuntime."""
_DELAY_LEVEL = re.compile(r"scheduleMessageOffset_([0-9]{1,3})", re.ASCII)
_OFFSETS = re.compile(r"([0-9]{1,18}),([0-9]{1,18})", re.ASCII)
"""The next offset and the newest one (ScheduleMessageService.buildRunningStats)."""
_LEVELS_MAX = 64
_PERM_READ = 4  # PermName.PERM_READ
_REPLICAS_MAX = 100  # of a broker; a master has a few


class ListedBroker(NamedTuple):
    """The replica of a broker that its clients use, as listed by the name server."""

    cluster: str
    name: str
    address: str
    broker_id: int = 0
    is_master: bool = True
    """True if it is the master or acts as master, and grants locks; else it is a slave that only serves reads."""

    @property
    def place(self) -> tuple[str, str]:
        """The broker's cluster and name, which all its replicas share."""
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
    table = required(object_in(parse(body)), "brokerAddrTable")
    found = [_in_use(data, str(name), unreadable) for name, data in items(table)]
    return Listed([broker for broker in found if broker is not None], unreadable.texts())


def _in_use(data: Json, name: str, unreadable: Unreadable) -> ListedBroker | None:
    """Return the replica that clients use; None if there is none, or what names it can't be read."""
    place = name[:PLACE_CHARACTERS]
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
    table = required(object_in(parse(body)), "subscriptionGroupTable")
    return {
        name: isinstance(config, dict) and config.get("consumeMessageOrderly") is True
        for name, config in items(table)
        if isinstance(name, str) and is_valid(Name, name)
    }


def broker_status(body: bytes) -> Payload:
    """Return the broker's boot time and its clock, epoch milliseconds, and its delayed messages (KVTable, 28).

    Both come from the message store (StoreStatsService.getRuntimeInfo), which reports its age as text. If the age can't
    be parsed, ``now`` is 0: unknown.

    Raises:
        FastjsonError: the answer has no boot time.
    """
    table = object_in(required(object_in(parse(body)), "table"))
    boot_time = converted(Time, required(table, "bootTimestamp"), "bootTimestamp")
    age = _RUNTIME.fullmatch(str(table.get("runtime", ""))[:1_000])
    delayed = {"delay_levels": _delay_levels(table), "timer_behind": _timer_behind(table)}
    if age is None:
        return {"boot_time": boot_time, "now": 0, **delayed}
    days, hours, minutes, seconds = map(int, age.groups())
    now = boot_time + (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000
    return {"boot_time": boot_time, "now": now if is_valid(Time, now) else 0, **delayed}


def _delay_levels(table: Mapping[str, Json]) -> list[Payload]:
    """Return the delay levels in which messages wait."""
    levels: list[Payload] = []
    for name, text in table.items():
        level, offsets = _DELAY_LEVEL.fullmatch(name[:40]), _OFFSETS.fullmatch(str(text)[:40])
        if level is not None and offsets is not None and int(offsets[1]) < int(offsets[2]):
            levels.append({"level": int(level[1]), "offset": int(offsets[1]), "newest": int(offsets[2])})
    return sorted(levels, key=lambda one: int(str(one["level"])))[:_LEVELS_MAX]


def _timer_behind(table: Mapping[str, Json]) -> int:
    """Return how far the broker is behind with its timer wheel, milliseconds; 0: no message is in it."""
    behind, waiting = (str(table.get(name, ""))[:12] for name in ("timerReadBehind", "timerCongestNum"))
    is_known = all(text.isascii() and text.isdigit() for text in (behind, waiting))
    return int(behind) * 1_000 if is_known and int(waiting) else 0


def route(body: bytes, topic: str) -> Payload:
    """Return the read queues of a topic (TopicRouteData, 105; MQClientInstance.topicRouteData2TopicSubscribeInfo).

    Raises:
        FastjsonError: it has more queues than `limits.ROUTE_QUEUES`: each becomes an object here; or a row can't be
            read: a part of a route would look as if the topic had lost queues.
    """
    sent = required(object_in(parse(body)), "queueDatas")
    if not isinstance(sent, list):
        raise FastjsonError("queueDatas is no list")
    readable = [data for one in sent if (data := converted(_Queues, one, "queueDatas")).perm & _PERM_READ]
    if (count := sum(max(0, data.readQueueNums) for data in readable)) > ROUTE_QUEUES:
        raise FastjsonError(f"a route of {count:,} queues, the limit is {ROUTE_QUEUES:,}")
    queues = sorted({(data.brokerName, number) for data in readable for number in range(data.readQueueNums)})
    return {"queues": [MessageQueue(topic, broker, number) for broker, number in queues]}
