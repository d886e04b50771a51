"""Each recorded answer of each kind of client, with each of its fields in turn made unreadable.

Nothing but that field, or the queue of its row, changes in what the observer concludes of the group: its members, the
other queues' owners, lag and health, and the incidents of others. The answer comes a second time, after one in which
all could be read, and beside a second member that answers as it should.
"""

import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import GroupSnapshot, IncidentTransition, QueueSnapshot
from rebalance_model.observe.events import (
    Answer,
    BrokerStatus,
    Connection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    OffsetInfo,
    ProcessQueueInfo,
    RpcError,
    Subscription,
    Tick,
    TopicRoute,
)
from rebalance_model.observe.group_store import GroupsInMemory
from streaming.collect import client_responses
from streaming.collect.fastjson import FastjsonError, Pairs, parse
from tests.support.folding import Fold

CLIENTS = Path(__file__).parent / "wire/clients"
BODIES = sorted(CLIENTS.glob("*/[23]0*.body"))
GROUP, CLIENT, BESIDE = "g", "c-odd", "c-java"
START = 1_795_727_000_000


class Twice:
    """A value that is written twice under its key, the second time as another one."""

    def __init__(self, value):
        self.value = value


UNREADABLE = {
    "null": None,
    "text": "a",
    "negative": -7,
    "huge": 10**30,
    "digits": int("9" * 400) * 10**400,
    "object": {"x": 1},
    "list": [1],
    "flag": True,
    "fraction": 0.5,
    "twice": Twice,
}
MISSING = "missing"


def written(value):
    """Return a value in the dialect of fastjson."""
    if isinstance(value, Pairs | dict):
        pairs = value if isinstance(value, Pairs) else value.items()
        return "{" + ",".join(_member(key, one) for key, one in pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    if isinstance(value, int) and not isinstance(value, bool) and value > 2**70:
        return "9" * (value.bit_length() // 4)
    return json.dumps(value)


def _member(key, value):
    name = written(key)
    if isinstance(value, Twice):
        return f"{name}:{written(value.value)},{name}:{written(value.value)}"
    return f"{name}:{written(value)}"


def places(value, above=()):
    """Yield the path of each field; of a table's rows those of the first."""
    if isinstance(value, Pairs):
        key, row = value[0]
        yield from places(key, (*above, (0, "key")))
        yield from places(row, (*above, (0, "row")))
    elif isinstance(value, dict):
        for name, one in value.items():
            yield (*above, name)
            yield from places(one, (*above, name))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*above, 0))


def changed(value, path, how):
    """Return a copy of a value with the field at a path made unreadable."""
    step, *rest = path
    if isinstance(value, Pairs):
        number, part = step
        pairs = list(value)
        key, row = pairs[number]
        pairs[number] = (changed(key, rest, how), row) if part == "key" else (key, changed(row, rest, how))
        return Pairs(pairs)
    copy = value.copy()
    if rest:
        copy[step] = changed(value[step], rest, how)
    elif how == MISSING:
        del copy[step]
    elif UNREADABLE[how] is Twice:
        copy[step] = Twice(value[step])
    else:
        copy[step] = UNREADABLE[how]
    return copy


class GroupLog:
    """The log of a group with two members; each round has the given answers and two ticks."""

    def __init__(self):
        self.now, self.seq, self.events = START, Counter(), []

    def emit(self, kind, **fields):
        keyed = {"group": GROUP} if issubclass(kind, Answer) else {}
        broker = {} if kind in (Tick, TopicRoute) else {"broker": "broker-a"}
        times = {} if kind is Tick else {"asked": self.now - 5, "answered": self.now}
        self.seq[bool(keyed)] += 1
        stamped = {"time": self.now, "cluster": "C", "source": "poll", "source_id": "p@1", "type": tag_of(kind)}
        made = {**stamped, **keyed, **broker, **times, **fields, "seq": self.seq[bool(keyed)]}
        self.events.append(msgspec.convert(made, type=kind))

    def round(self, queues, info, connection, stats, beside):
        self.now += 10_000
        self.emit(BrokerStatus, boot_time=START - 3_600_000)
        for topic in sorted({mq.topic for mq in queues}):
            self.emit(TopicRoute, topic=topic, queues=[mq for mq in queues if mq.topic == topic])
        self.emit(ConsumerConnection, **connection)
        self.emit(ConsumeStats, **stats)
        self.emit(ConsumerRunningInfo, client_id=CLIENT, **info)
        self.emit(ConsumerRunningInfo, client_id=BESIDE, **beside(self.now))
        self.emit(Tick)
        self.now += 9_000
        self.emit(Tick)


def tag_of(kind):
    return kind.__struct_config__.tag


def process_queue(mq, now):
    return ProcessQueueInfo(mq=mq, commit_offset=10, cached_count=0, locked=True, lock_time=now - 1_000, dropped=False,
                            pull_time=now - 500, consume_time=now - 700)  # fmt: skip


def read(body, code):
    """Return the fields of the event that the collector makes of an answer."""
    reader = {
        203: client_responses.connection,
        208: client_responses.consume_stats,
        307: client_responses.running_info,
    }[code]
    try:
        return reader(body)
    except FastjsonError as error:
        return {"error": RpcError(code=-3, remark=str(error))}


class Scenario:
    """A recorded answer, what is answered beside it, and what is concluded after two rounds of that."""

    def __init__(self, path):
        self.code = int(path.name[:3])
        self.content = parse(path.read_bytes())
        if self.code == 203:
            self.content["connectionSet"][0]["clientId"] = CLIENT
        good = read(written(self.content).encode(), self.code)
        info = good if self.code == 307 else {"orderly": True, "queues": [], "subscriptions": []}
        mine = {row.mq for row in (good["queues"] if self.code != 203 else ())}
        topics = {mq.topic for mq in mine} | {"Orders"}
        more = {MessageQueue(topic, "broker-a", number) for topic in topics if topic[0] != "%" for number in range(8)}
        self.queues = sorted(mine | more, key=str)
        held = {row.mq for row in info["queues"]}
        self.rest = [mq for mq in self.queues if mq not in held]
        self.subscriptions = info["subscriptions"] or [
            Subscription(topic=one, sub_string="*") for one in sorted(topics)
        ]
        self.orderly, self.strategy = info["orderly"], info.get("strategy", "")
        self.parts = {
            203: {
                "connections": [Connection(client_id=one, channel=f"{one}:1") for one in (CLIENT, BESIDE)],
                "subscriptions": self.subscriptions, "consume_type": "CONSUME_PASSIVELY", "message_model": "CLUSTERING",
            },
            208: {"queues": [OffsetInfo(mq=mq, broker_offset=12, consumer_offset=10) for mq in self.queues]},
            307: info,
        }  # fmt: skip
        self.log, fold = GroupLog(), Fold()
        for _ in range(3):
            self.round(good)
        self.before = [effect for event in self.log.events for effect in fold.push(event)]
        self.saved, self.groups, self.stamp = fold.shard.flush(), dict(fold.groups), fold.stamp
        self.clock = self.log.now, Counter(self.log.seq)

    def round(self, payload):
        if self.code == 203 and "connections" in payload:
            other = Connection(client_id=BESIDE, channel=f"{BESIDE}:1")
            payload = payload | {"connections": [*payload["connections"], other]}
        parts = self.parts | {self.code: payload}
        self.log.round(self.queues, parts[307], parts[203], parts[208], self.beside)

    def beside(self, now):
        return {
            "orderly": self.orderly, "strategy": self.strategy, "subscriptions": self.subscriptions,
            "queues": [process_queue(mq, now) for mq in self.rest],
        }  # fmt: skip

    def concluded(self, payload):
        """Return what is concluded after two more rounds with this answer."""
        self.log.now, self.log.seq, self.log.events = self.clock[0], Counter(self.clock[1]), []
        for _ in range(2):
            self.round(payload)
        fold = Fold(saved=self.saved, groups=GroupsInMemory(self.groups))
        fold.stamp = self.stamp
        after = [effect for event in self.log.events for effect in fold.push(event)] + fold.shard.finish()
        for state in fold.shard.timeline.groups():
            state.validate()
        return conclusions(self.before + after)


def conclusions(effects):
    """Return the members, the last state of each queue, and the incidents that opened, by their subject."""
    members, states, incidents = (), {}, set()
    for effect in effects:
        if isinstance(effect, GroupSnapshot):
            members = effect.members
        elif isinstance(effect, QueueSnapshot):
            mq = MessageQueue(effect.topic, effect.broker, effect.queue_id)
            states[mq] = (effect.owner, effect.expected_owner, effect.status, effect.locked)
        elif isinstance(effect, IncidentTransition):
            incidents.add((effect.code, effect.client_id, effect.topic, effect.queue_id))
    return members, states, incidents


def queues_of(content, place):
    """Return the queue whose row a field is in; None: it is in no row."""
    if len(place) < 2 or not isinstance(place[1], tuple):
        return None
    key, _ = content[place[0]][place[1][0]]
    return MessageQueue(key["topic"], key["brokerName"], int(key.get("queueId", 0)))


CASES = [
    pytest.param(path, id=f"{path.parent.name}-{path.stem}")
    for path in BODIES
    if "no-queues" not in path.name and "stacks" not in path.name
]
HOW = (*UNREADABLE, MISSING)
READABLE = {("clientId", "text"), ("topic", "text"), ("brokerName", "text"), ("PROP_CONSUMEORDERLY", "flag")}
"""What is another client, another queue or another way to consume, and says so as it should."""


def check(path, every):
    """Try each field in one of ``every`` ways in which it may be unreadable."""
    scenario = Scenario(path)
    base = scenario.concluded(read(written(scenario.content).encode(), scenario.code))
    tried = 0
    for place in places(scenario.content):
        mine = queues_of(scenario.content, place)
        for how in HOW:
            tried += 1
            if tried % every:
                continue
            payload = read(written(changed(scenario.content, place, how)).encode(), scenario.code)
            assert differences(base, scenario.concluded(payload), mine, place, how) == [], (place, how, payload)
    assert tried > 50


@pytest.mark.parametrize("path", CASES)
def test_a_field_that_cant_be_read_changes_nothing_but_itself(path):
    check(path, every=7)  # with eleven ways each field has one or two, and others than the field before


@pytest.mark.prove
@pytest.mark.parametrize("path", CASES)
def test_each_field_in_each_way_changes_nothing_but_itself(path):
    check(path, every=1)


def differences(base, altered, mine, place, how):
    """Return what differs, except for what the field itself says."""
    if (place[-1], how) in READABLE:
        return []
    others = [f"members {altered[0]}"] if base[0] != altered[0] else []
    for mq, state in base[1].items():
        seen = altered[1].get(mq)
        if mq != mine and (seen[0] != state[0] or (mine is not None and seen != state)):
            others.append(f"{mq}: {state} is {seen}")
    for incident in altered[2] - base[2]:
        _, client_id, topic, queue_id = incident
        is_mine = mine is not None and (mine.topic, mine.queue_id) == (topic, queue_id)
        if (topic is not None and not is_mine) or (topic is None and client_id == BESIDE):
            others.append(f"incident {incident}")
    return others
