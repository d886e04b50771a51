"""Telemetry as the poll collector sends it, of any number of groups whose members join, leave, freeze and get stuck.

For the bench and for tests of the job: sizes, the mix of types and the share of rows that have an effect are those of a
real cluster, and a seed gives the same bytes each time.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, takewhile

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import (
    AnyEvent,
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

START = 1_750_000_000_000
INTERVAL = 10_000
CLUSTER = "DefaultCluster"
EVENTS_PER_GROUP = 6
"""The events of a round: a route, connections, offsets and three clients."""
BROKER = "broker-a"
STRATEGY = "AllocateMessageQueueAveragely"


@dataclass
class _Group:
    name: str
    queues: list[MessageQueue]
    members: list[str]
    orderly: bool
    members_max: int
    joined: int = 0
    produced: int = 100
    committed: dict[MessageQueue, int] = field(default_factory=dict)
    poisoned: MessageQueue | None = None
    frozen: str | None = None

    def owners(self) -> dict[MessageQueue, str]:
        """Divide as AVG does: consecutive queues, one more for the first members."""
        members, count = sorted(self.members), len(self.queues)
        share, more = divmod(count, max(len(members), 1))
        names = [name for index, name in enumerate(members) for _ in range(share + (index < more))]
        return dict(zip(self.queues, names, strict=False))


def telemetry(groups: int, rounds: int, *, seed: int = 1, clients: int = 3, queues: int = 8) -> Iterator[AnyEvent]:
    """Yield the events of ``rounds`` rounds of one collector, in the order of their emission; then it stops."""
    rng = random.Random(seed)
    cluster = [_group(number, clients, queues) for number in range(groups)]
    stamped = _numbered(CLUSTER, START)
    for number in range(rounds):
        begin = START + number * INTERVAL
        for index, group in enumerate(cluster):
            now = begin + index * INTERVAL // (2 * groups)
            _live(group, rng)
            yield from _answered(group, now, stamped, CLUSTER)
        for second in range(1, INTERVAL // 1000 + 1):
            yield stamped(Tick, begin + INTERVAL // 2 + second * 500, "")
    yield stamped(Tick, START + rounds * INTERVAL + 1_000, "", end=True)


def live_telemetry(rate: int, *, start: int = START, cluster: str = CLUSTER, seed: int = 1) -> Iterator[AnyEvent]:
    """Yield so many events a second without end, spread evenly from ``start`` on, and a tick per second."""
    rng = random.Random(seed)
    groups = rate * INTERVAL // (1000 * EVENTS_PER_GROUP)
    all_groups = [_group(number, 3, 8) for number in range(groups)]
    stamped = _numbered(cluster, start)
    ticked = start
    for number in count():
        for index, group in enumerate(all_groups):
            now = start + number * INTERVAL + index * INTERVAL // groups
            while ticked + 1_000 <= now:
                ticked += 1_000
                yield stamped(Tick, ticked, "")
            _live(group, rng)
            yield from _answered(group, now, stamped, cluster)


def spread_telemetry(groups: int, rounds: int) -> Iterator[AnyEvent]:
    """Yield the events of so many rounds of one collector, each spread over its ten seconds, with its ticks."""
    events = live_telemetry(groups * EVENTS_PER_GROUP * 1_000 // INTERVAL)
    return takewhile(lambda event: event.time < START + rounds * INTERVAL, events)


def _numbered(cluster: str, start: int) -> Callable[..., AnyEvent]:
    """Return what makes the events of a collector that began at ``start``, numbered by key."""
    sequence: dict[str, int] = {}

    def stamped(event_type: type, time: int, key: str, **fields: object) -> AnyEvent:
        sequence[key] = sequence.get(key, 0) + 1
        source_id = f"poll-1@{start}"
        return event_type(time=time, cluster=cluster, source="poll", source_id=source_id, seq=sequence[key], **fields)

    return stamped


def _answered(group: _Group, now: int, stamped: Callable[..., AnyEvent], cluster: str) -> Iterator[AnyEvent]:
    for event_type, fields in _answers(group, now):
        yield stamped(event_type, now, f"{cluster}/{group.name}", group=group.name, asked=now - 5, **fields)


def _group(number: int, clients: int, queues: int) -> _Group:
    name = f"group-{number:05d}"
    topic = f"Topic{number}"
    return _Group(
        name=name,
        queues=[MessageQueue(topic, BROKER, queue) for queue in range(queues)],
        members=[f"192.0.2.{client + 1}@{name}" for client in range(clients)],
        orderly=number % 2 == 0,
        members_max=max(2 * clients - 1, 2),
        joined=clients,
    )


def _live(group: _Group, rng: random.Random) -> None:
    """Simulate ten seconds of the group: mostly only progress."""
    fate = rng.random()
    if fate < 0.02:
        _join_or_leave(group, rng, joins=fate >= 0.01)
    elif fate < 0.03:
        group.poisoned = rng.choice(group.queues)
    elif fate < 0.035:
        group.frozen = rng.choice(group.members)
    elif fate < 0.1:
        group.poisoned = group.frozen = None
    if group.frozen not in group.members:
        group.frozen = None
    group.produced += rng.randrange(1, 50)
    owners = group.owners()
    for mq in group.queues:
        if mq != group.poisoned and owners.get(mq) != group.frozen:
            group.committed[mq] = group.produced


def _join_or_leave(group: _Group, rng: random.Random, *, joins: bool) -> None:
    """Change a member, if the group has not the most or the fewest; so all groups together stay as large as they are.

    Without an upper limit they would grow, and with them the events, by a fifth in an hour and a half.
    """
    if joins and len(group.members) < group.members_max:
        group.joined += 1
        group.members.append(f"192.0.2.{group.joined}@{group.name}")
    elif not joins and len(group.members) > 1:
        group.members.remove(rng.choice(group.members))


def _answers(group: _Group, now: int) -> Iterator[tuple[type, dict[str, object]]]:
    topic = group.queues[0].topic
    subscriptions = (Subscription(topic=topic, sub_string="*", sub_version=START),)
    yield TopicRoute, {"topic": topic, "queues": tuple(group.queues)}
    yield (
        ConsumerConnection,
        {
            "broker": BROKER,
            "connections": tuple(
                Connection(client_id=member, channel=f"{member.split('@')[0]}:4000", language="JAVA", version=493)
                for member in group.members
            ),
            "subscriptions": subscriptions,
            "consume_type": "CONSUME_PASSIVELY",
            "message_model": "CLUSTERING",
            "consume_from_where": "CONSUME_FROM_LAST_OFFSET",
        },
    )
    offsets = (
        OffsetInfo(mq=mq, broker_offset=group.produced + 3, consumer_offset=group.committed.get(mq, 0), last_time=now)
        for mq in group.queues
    )
    yield ConsumeStats, {"broker": BROKER, "queues": tuple(offsets)}
    owners = group.owners()
    for member in group.members:
        who = {"broker": BROKER, "client_id": member}
        if member == group.frozen:
            yield ConsumerRunningInfo, {**who, "error": RpcError(code=207, remark="timed out")}
            continue
        mine = [mq for mq, owner in owners.items() if owner == member]
        yield (
            ConsumerRunningInfo,
            {
                **who,
                "orderly": group.orderly,
                "strategy": STRATEGY,
                "start_time": START - 60_000,
                "subscriptions": subscriptions,
                "queues": tuple(_process_queue(group, mq, now) for mq in mine),
            },
        )


def _process_queue(group: _Group, mq: MessageQueue, now: int) -> ProcessQueueInfo:
    return ProcessQueueInfo(
        mq=mq,
        commit_offset=group.committed.get(mq, 0),
        cached_count=3,
        cached_min=group.produced,
        cached_max=group.produced + 3,
        locked=True,
        lock_time=now - now % 20_000,
        dropped=False,
        pull_time=now - 100,
        consume_time=now - 50,
    )
