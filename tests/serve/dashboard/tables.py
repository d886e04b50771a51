"""Tables for the pages: a few groups with a history, and one very large group."""

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import (
    AnyEffect,
    AnyRow,
    AssignmentChange,
    GroupSnapshot,
    IncidentTransition,
    QueueMove,
    QueueProgress,
    QueueSnapshot,
    RebalanceSettled,
)
from tests.support.tables import append, append_rows, make_tables

MINUTE = 60_000
HOUR = 60 * MINUTE
NOW = 1_795_300_000_000
"""The present time of tables that are not served, epoch milliseconds."""
FRAMES = (
    "java.base@17.0.18/sun.nio.ch.Net.poll(Native Method)",
    "com.shop.payments.Gateway.charge(Gateway.java:88)",
    "com.shop.orders.OrderListener.consumeMessage(OrderListener.java:41)",
    "org.apache.rocketmq.client.impl.consumer.ConsumeMessageOrderlyService$ConsumeRequest.run(ConsumeMessage.java:471)",
)
"""Where the listener of the stuck queue hangs."""
COVERAGE = (
    '{"brokers":1,"hooks":1,"polls":true,"brokers_answering":1,"members":3,"members_answering":3,"offsets":true,'
    '"silent_rules":[]}'
)


def archive(folder: Path, now: int) -> None:
    """Archive the event that opened the incident of `orders`, and the stacks of its client's listener."""
    opened_at = now - STUCK
    tick = {"type": "TICK", "time": opened_at, "cluster": "prod", "broker": "", "broker_id": 0, "source": "poll"}
    tick |= {"source_id": "poll-1@1", "seq": 1}
    stack = {"name": "ConsumeMessageThread_orders-group_1", "state": "TIMED_WAITING", "frames": FRAMES}
    answer = tick | {"type": "CONSUMER_RUNNING_INFO", "seq": 2, "group": "orders-group", "client_id": CLIENTS[0]}
    answer |= {"orderly": True, "queues": [], "stacks": [stack]}
    rows = [
        event | {
            "date": datetime.fromtimestamp(opened_at / 1000, UTC).date(), "group": event.get("group"),
            "key": "prod/orders-group", "value": msgspec.json.encode(event).decode(), "partition": 0, "offset": 0,
            "ingest_time": opened_at,
        }
        for event in (tick, answer)
    ]  # fmt: skip
    append_rows(folder, "telemetry", rows)


def polled(
    time: int, kind: str, group: str | None, *, broker: str = "broker-a", cluster: str = "prod", **fields: object
) -> dict[str, object]:
    """Return a row of the archive: what a collector was answered, or that it was not."""
    value = msgspec.json.encode({"asked": time - 50, **fields}).decode()
    return {
        "date": datetime.fromtimestamp(time / 1000, UTC).date(), "type": kind, "time": time, "cluster": cluster,
        "broker": broker, "broker_id": 0, "source": "poll", "source_id": "poll-1@1", "seq": time, "group": group,
        "key": f"{cluster}/{group}" if group else "", "value": value,
        "partition": 0, "offset": time, "ingest_time": time,
    }  # fmt: skip


def current_root(folder: Path, now: int | None = None) -> Path:
    """Write the tables of `orders` as of now, with their archive, below a runtime root; return the root."""
    now = time.time_ns() // 1_000_000 if now is None else now
    append(make_tables(folder / "tables"), orders(now).taken())
    archive(folder / "tables", now)
    return folder


class Group:
    """Collects the rows of one group, numbered as by the observer."""

    def __init__(
        self, name: str, topic: str, clients: tuple[str, ...], cluster: str = "prod",
        broker_of: Callable[[int], str] = lambda _: "broker-a",
    ) -> None:  # fmt: skip
        self.broker_of = broker_of
        self.common = {"cluster": cluster, "group": name, "cause": f"poll-1@1|{cluster}/{name}|1"}
        self.topic = topic
        self.clients = clients
        self.seq = 0
        self.rows: list[AnyRow] = []

    def _add(self, kind: type[AnyEffect], time: int, **fields: object) -> None:
        self.seq += 1
        self.rows.append(kind(time=time, known_at=time, seq=self.seq, **self.common, **fields))

    def taken(self) -> list[AnyRow]:
        """Return the rows since the last call."""
        rows, self.rows = self.rows, []
        return rows

    def state(
        self, time: int, health: str = "OK", reason: str = "", members: tuple[str, ...] | None = None, **fields: object
    ) -> None:
        given = {
            "members": self.clients if members is None else members, "subscriptions": (f"{self.topic} *",),
            "consume_type": "CONSUME_PASSIVELY", "message_model": "CLUSTERING", "consume_from_where": "",
            "orderly": True, "strategy": "AVG", "health": health, "health_reason": reason, "coverage": COVERAGE,
        }  # fmt: skip
        self._add(GroupSnapshot, time, **(given | fields))

    def queue(self, time: int, queue_id: int, owner: str | None, **fields: object) -> None:
        lag, interval = fields.pop("lag", 3), fields.pop("interval_ms", 5 * MINUTE)
        defaults = {"expected_owner": owner, "status": "OK", "status_reason": "", "locked": True, **fields}
        self._add(
            QueueSnapshot, time, topic=self.topic, broker=self.broker_of(queue_id), queue_id=queue_id, owner=owner,
            lock_at=time - 4_200, pull_at=time - 12_000, consume_at=time - 13_000, **defaults,
        )  # fmt: skip
        self.progress(time, (queue_id,), (lag,), interval)

    def progress(
        self, time: int, queue_ids: tuple[int, ...], lags: tuple[int | None, ...], interval_ms: int = 10_000
    ) -> None:
        """Return the fields of an answer about queues."""
        self.rows.append(
            QueueProgress(
                cluster=self.common["cluster"], group=self.common["group"], broker=self.broker_of(queue_ids[0]),
                time=time, asked_at=None, interval_ms=interval_ms, source="POLL", kind="CONSUME_STATS",
                topic=(self.topic,) * len(queue_ids),
                queue_id=queue_ids, lag=lags, waiting_ms=tuple(lag and 1_000 * lag for lag in lags),
                waiting_is_at_most=tuple(bool(lag) for lag in lags),
            )
        )  # fmt: skip

    def dead_letters(self, time: int, after_newest: int) -> None:
        """Add an answer about the dead-letter topic, which still stores all of its messages."""
        name = self.common["group"]
        self.rows.append(
            QueueProgress(
                cluster=self.common["cluster"], group=name, broker="broker-a", time=time, asked_at=None,
                interval_ms=MINUTE, source="POLL", kind="TOPIC_STATS", topic=(f"%DLQ%{name}",), queue_id=(0,),
                broker_offset=(after_newest,), min_offset=(0,), stored_at=(time - 4_000,),
            )
        )  # fmt: skip

    def owner(self, time: int, queue_id: int, client: str, action: str = "ASSIGNED", rebalance: str = "") -> None:
        self._add(
            AssignmentChange, time, topic=self.topic, broker=self.broker_of(queue_id), queue_id=queue_id,
            client_id=client, action=action, evidence="ANSWER", expected_owner=client, rebalance_id=rebalance,
        )  # fmt: skip

    def moved(self, time: int, queue_id: int, before: str, after: str, rebalance: str) -> None:
        self.owner(time, queue_id, before, "RELEASED", rebalance)
        self.owner(time, queue_id, after, "ASSIGNED", rebalance)

    def rebalance(self, start: int, end: int, name: str, gone: str, moves: Iterable[tuple[int, str, str]]) -> None:
        """Add a rebalance after a client was killed."""
        moved = tuple(
            QueueMove(
                queue=MessageQueue(self.topic, self.broker_of(queue_id), queue_id), from_client=before, to_client=after,
                kind="MOVED", pause_ms=2_300, reconsumed=7, reconsumed_min=0, reconsumed_max=65,
            )
            for queue_id, before, after in moves
        )  # fmt: skip
        self._add(
            RebalanceSettled, end, rebalance_id=name, start_time=start, end_time=end, trigger="CONNECTION_CLOSED",
            trigger_client=gone, causes=(f"CONNECTION_CLOSED {gone}",), members_before=self.clients,
            members_after=tuple(c for c in self.clients if c != gone), queues_moved=len(moved), moves=moved,
            pause_ms_max=2_300, pause_ms_p50=2_300, converged=True, queues_moved_min=max(0, len(moved) - 1),
            reconsumed=7, reconsumed_min=0, reconsumed_max=65,
        )  # fmt: skip

    def incident(self, time: int, name: str, transition: str, opened: int, queue_id: int = 0, **fields: object) -> None:
        broker = self.broker_of(queue_id)
        defaults = {
            "severity": "critical", "parent": None, "code": "ORDERED_QUEUE_STUCK", "sub_cause": "LISTENER_HUNG",
            "subject": f"{self.topic}@{broker}:{queue_id}", "topic": self.topic, "broker": broker,
            "queue_id": queue_id, "client_id": self.clients[0], **fields,
        }  # fmt: skip
        self._add(
            IncidentTransition, time, incident_id=name, transition=transition, opened_at=opened,
            evidence=f'{{"lag":28,"commit_offset":812,"stalled_ms":{time - opened}}}',
            explanation="The owner's listener has taken a message and not returned.",
            first_step="Take a thread dump of the owner.", **defaults,
        )  # fmt: skip


CLIENTS = ("10.0.0.5@orders-1", "10.0.0.5@orders-2", "10.0.0.5@orders-3")
QUEUES = 6
DIED = 30 * MINUTE
"""How long ago the third client died and the other two got its queues; milliseconds."""
STUCK = 10 * MINUTE
"""How long queue 0 has been stuck; milliseconds."""


def orders(now: int) -> Group:
    """Return a group of three clients with two queues each: one died, and a queue is stuck."""
    group = Group("orders-group", "Orders", CLIENTS)
    begin, died, stuck = now - 50 * MINUTE, now - DIED, now - STUCK
    group.state(begin)
    group.dead_letters(begin, 2)
    for queue_id in range(QUEUES):
        group.owner(begin, queue_id, CLIENTS[queue_id // 2])
        group.queue(begin, queue_id, CLIENTS[queue_id // 2])
    for queue_id, heir in ((4, CLIENTS[0]), (5, CLIENTS[1])):
        group.moved(died, queue_id, CLIENTS[2], heir, "r1")
        group.queue(died, queue_id, heir)
    group.rebalance(died - 2_300, died, "r1", CLIENTS[2], [(4, CLIENTS[2], CLIENTS[0]), (5, CLIENTS[2], CLIENTS[1])])
    group.state(died, members=CLIENTS[:2])
    group.incident(stuck, "stuck0001", "OPENED", stuck)
    why = {"status": "BAD", "status_reason": "ORDERED_QUEUE_STUCK LISTENER_HUNG", "lag": 28}
    group.queue(stuck, 0, CLIENTS[0], **why)
    group.state(stuck, "BAD", "ORDERED_QUEUE_STUCK LISTENER_HUNG", CLIENTS[:2])
    last = now - MINUTE
    group.dead_letters(last, 5)
    for queue_id in range(QUEUES):
        owner = CLIENTS[0] if queue_id in (0, 1, 4) else CLIENTS[1]
        group.queue(last, queue_id, owner, **(why if queue_id == 0 else {}))
    group.state(last, "BAD", "ORDERED_QUEUE_STUCK LISTENER_HUNG", CLIENTS[:2])
    return group


def shop(now: int) -> list[Group]:
    """Return the rows of an unhealthy group, a healthy one, and an unknown one."""
    audit, mystery = Group("audit-group", "Audit", ("10.0.0.9@audit-1",)), Group("mystery-group", "Mystery", ())
    for group in (audit, mystery):
        for minute in (50, 1):
            group.state(now - minute * MINUTE, *(("OK", "") if group is audit else ("UNKNOWN", "no broker answers")))
    audit.owner(now - 50 * MINUTE, 0, "10.0.0.9@audit-1")
    audit.queue(now - MINUTE, 0, "10.0.0.9@audit-1")
    mystery.queue(now - MINUTE, 0, None, lag=None, locked=None, status="UNKNOWN", status_reason="nobody is known")
    return [orders(now), audit, mystery]


def gaps(now: int) -> Group:
    """Return a group whose queue was unassigned twice in the last hour."""
    group = Group("gaps-group", "Gaps", ("a@1", "a@2"))
    group.state(now - 2 * HOUR)
    group.owner(now - 2 * HOUR, 0, "a@1")
    group.owner(now - 90 * MINUTE, 0, "a@1", "RELEASED")  # before the last hour
    group.owner(now - 30 * MINUTE, 0, "a@2")
    group.owner(now - 20 * MINUTE, 0, "a@2", "RELEASED")
    for queue_id in (0, 1):
        group.queue(now - 40 * MINUTE, queue_id, None, lag=5)
    group.queue(now - 35 * MINUTE, 0, None, lag=7)
    group.queue(now - 34 * MINUTE, 1, None, lag=None)
    return group


def fleet(now: int, queues: int = 4096, clients: int = 512) -> Group:
    """Return a very large group; within the hour two clients died, and their queues moved."""
    ids = tuple(f"10.1.{n // 250}.{n % 250}@{20_000 + n}" for n in range(clients))
    group = Group("fleet-group", "Fleet", ids)
    share = queues // clients
    owners = {queue_id: ids[queue_id // share] for queue_id in range(queues)}
    begin = now - 55 * MINUTE
    group.state(begin)
    for queue_id, owner in owners.items():
        group.owner(begin, queue_id, owner)
        group.queue(begin, queue_id, owner)
    for number, minute in enumerate((40, 20)):
        gone, time = ids[number], now - minute * MINUTE
        moves = [(q, gone, ids[2 + q % (clients - 2)]) for q, owner in owners.items() if owner == gone]
        for queue_id, before, after in moves:
            group.moved(time, queue_id, before, after, f"f{number}")
            owners[queue_id] = after
        group.rebalance(time - 900, time, f"f{number}", gone, moves)
    for queue_id, owner in owners.items():
        group.queue(now - MINUTE, queue_id, owner, expected_owner=ids[-1] if queue_id == 4000 else owner)
    group.state(now - MINUTE, members=ids[2:])
    return group


def east(now: int) -> Group:
    """Return a group of another cluster, heard each minute, that was BAD from 30 to 20 minutes ago."""
    group = Group("east-group", "East", ("10.0.0.7@east-1",), "east")
    for minute in range(65, -1, -5):
        group.state(now - minute * MINUTE, "BAD" if 20 < minute <= 30 else "OK")
    for minute in range(65, -1, -1):
        group.progress(now - minute * MINUTE, (0,), (0,))
    return group


STORM_QUEUES, STORM_CLIENTS = 120, 16


def storm(now: int) -> list[Group]:
    """Return a group on two brokers: a client died, then a broker, a queue has two owners, and another none."""
    ids = tuple(f"10.2.0.{n}@{700 + n}" for n in range(STORM_CLIENTS))
    half, share = STORM_QUEUES // 2, -(-STORM_QUEUES // STORM_CLIENTS)
    group = Group("storm-group", "Storm", ids, "lab", lambda queue_id: "broker-b" if queue_id >= half else "broker-a")
    owners = {queue_id: ids[queue_id // share] for queue_id in range(STORM_QUEUES)}
    begin, died, lost = now - 50 * MINUTE, now - 25 * MINUTE, now - 12 * MINUTE
    group.state(begin)
    for queue_id, owner in owners.items():
        group.owner(begin, queue_id, owner)
        group.queue(begin, queue_id, owner)
    moves = [(q, ids[3], ids[4 + q % 12]) for q, owner in owners.items() if owner == ids[3]]
    for queue_id, before, after in moves:
        group.moved(died, queue_id, before, after, "s1")
        owners[queue_id] = after
    group.rebalance(died - 900, died, "s1", ids[3], moves)
    group.owner(lost, 5, owners[5], "RELEASED")
    group.incident(lost, "doubled01", "OPENED", lost, 7, code="QUEUE_DOUBLE_OWNED", sub_cause="")
    for queue_id, owner in owners.items():
        dead = {"status": "BAD", "status_reason": "BROKER_UNREACHABLE"} if queue_id >= half else {}
        ill = {
            5: {"status": "BAD", "status_reason": "QUEUE_UNASSIGNED", "expected_owner": owner},
            7: {"status": "BAD", "status_reason": "QUEUE_DOUBLE_OWNED STRATEGY_MISMATCH"},
        }.get(queue_id, {})
        group.queue(now - MINUTE, queue_id, None if queue_id == 5 else owner, **dead | ill)
    group.state(now - MINUTE, "BAD", "BROKER_UNREACHABLE", members=tuple(one for one in ids if one != ids[3]))
    cluster = Group("", "", ids, "lab")
    cluster.incident(
        lost, "broker0001", "OPENED", lost, code="BROKER_UNREACHABLE", sub_cause="HOOK_SILENT", subject="broker-b",
        **dict.fromkeys(("topic", "broker", "queue_id", "client_id")),
    )  # fmt: skip
    return [group, cluster]
