"""Tables as a job leaves them, of a few healthy, unhealthy and unknown groups."""

import json
from pathlib import Path

import msgspec
import pyarrow as pa

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
from schemas.rows import QualityResult, RejectedRow, TelemetryRow
from tests.support.tables import append, append_rows, make_tables

NOON = 1_795_262_400_000
"""2026-11-21 12:00 UTC."""
CAUSE = "poll-1@1|c/orders|7"
COVERED = '{"brokers":1,"hooks":0,"polls":true,"brokers_answering":1,"members":2,"members_answering":2,"offsets":true}'
HALF = '{"brokers":1,"hooks":1,"polls":true,"brokers_answering":0,"members":2,"members_answering":1,"offsets":true}'


class World:
    """Effects, numbered as by the observer, and the other tables' rows."""

    def __init__(self) -> None:
        self.seq = 0
        self.effects: list[AnyRow] = []
        self.rows: dict[str, list[dict]] = {"telemetry": [], "telemetry_rejected": [], "quality_results": []}

    def _add(self, kind: type[AnyEffect], time: int, group: str, **fields: object) -> None:
        self.effects.append(
            kind(
                cluster="c",
                group=group,
                time=time,
                known_at=time,
                seq=self.seq + len(self.effects) + 1,
                cause=CAUSE,
                **fields,
            )
        )

    def group(self, name: str, health: str = "OK", time: int = NOON, **fields: object) -> None:
        self._add(
            GroupSnapshot, time, name, health=health,
            **{
                "members": ("A", "B"), "subscriptions": ("Orders *",), "consume_type": "CONSUME_PASSIVELY",
                "message_model": "CLUSTERING", "consume_from_where": "", "orderly": True,
                "strategy": "AllocateMessageQueueAveragely", "health_reason": "", "coverage": COVERED, **fields,
            },
        )  # fmt: skip

    def queue(self, group: str, queue_id: int, owner: str | None = "A", status: str = "OK", **fields: object) -> None:
        time, topic = fields.pop("time", NOON), fields.pop("topic", "Orders")
        lag, lock_age = fields.pop("lag", 2), fields.pop("lock_age_ms", 1_000)
        at_least = fields.pop("lag_is_at_least", False)
        self.effects.append(
            QueueProgress(
                cluster="c", group=group, broker="b", time=time, asked_at=time - 5, interval_ms=10_000, source="POLL",
                kind="CONSUME_STATS", topic=(topic,), queue_id=(queue_id,), lag=(lag,), waiting_ms=(500,),
                lag_is_at_least=(at_least,),
            )
        )  # fmt: skip
        self._add(
            QueueSnapshot, time, group, topic=topic, broker="b", queue_id=queue_id, owner=owner, status=status,
            **{
                "expected_owner": owner, "locked": True, "lock_at": None if lock_age is None else time - lock_age,
                "pull_at": time, "consume_at": time, "status_reason": "", **fields,
            },
        )  # fmt: skip
        if owner is not None:
            self._add(
                AssignmentChange, time, group, topic=topic, broker="b", queue_id=queue_id, client_id=owner,
                action="ASSIGNED", evidence="ANSWER", expected_owner=owner, rebalance_id="",
            )  # fmt: skip

    def dead_letters(self, group: str, first: int, after_newest: int, time: int = NOON, broker: str = "b") -> None:
        """The offsets of the dead-letter topic, as a broker answers."""
        self.effects.append(
            QueueProgress(
                cluster="c", group=group, broker=broker, time=time, asked_at=time - 5, interval_ms=60_000,
                source="POLL", kind="TOPIC_STATS", topic=(f"%DLQ%{group}",), queue_id=(0,), min_offset=(first,),
                broker_offset=(after_newest,), stored_at=(time - 1_000 if after_newest else None,),
            )
        )  # fmt: skip

    def incident(self, group: str, code: str, queue_id: int | None = None, **fields: object) -> None:
        of_queue = queue_id is not None
        subject = f"Orders@b:{queue_id}" if of_queue else group
        self._add(
            IncidentTransition, fields.pop("time", NOON), group,
            **{
                "incident_id": f"{code}-{group}-{queue_id}".lower(), "code": code, "sub_cause": "",
                "severity": "critical", "transition": "OPENED", "subject": subject, "opened_at": NOON,
                "topic": "Orders" if of_queue else None, "broker": "b" if of_queue else None, "queue_id": queue_id,
                "client_id": None, "evidence": '{"stalled_ms":61000}', "explanation": "why", "first_step": "what",
                "parent": None, **fields,
            },
        )  # fmt: skip

    def rebalance(self, group: str, time: int, trigger: str = "CLIENT_JOINED") -> None:
        self._add(
            RebalanceSettled, time, group, rebalance_id=f"r{time}", start_time=time - 100, end_time=time,
            trigger=trigger, trigger_client="B", causes=(f"{trigger} B",), members_before=("A",),
            members_after=("A", "B"), queues_moved=1, moves=(
                QueueMove(
                    queue=MessageQueue("Orders", "b", 0), from_client="A", to_client="B", kind="MOVED", pause_ms=5,
                ),
            ),
            pause_ms_max=5, converged=True,
        )  # fmt: skip

    def last(self, source_id: str, time: int, *, source: str = "poll", ingest_time: int | None = None) -> None:
        row = TelemetryRow(
            date=pa.scalar(time, pa.timestamp("ms")).as_py().date(), type="TICK", time=time, cluster="c", broker="",
            broker_id=0, source=source, source_id=source_id, seq=len(self.rows["telemetry"]), group=None, key="",
            value=json.dumps({"type": "TICK", "time": time}), partition=0, offset=len(self.rows["telemetry"]),
            ingest_time=time + 50 if ingest_time is None else ingest_time,
        )  # fmt: skip
        self.rows["telemetry"].append(msgspec.structs.asdict(row))

    def rejected(self, reason: str, time: int) -> None:
        row = RejectedRow(
            partition=0, offset=len(self.rows["telemetry_rejected"]), key=None, value=b"\xff", reason=reason, detail="",
            origin="log", ingest_time=time,
        )  # fmt: skip
        self.rows["telemetry_rejected"].append(msgspec.structs.asdict(row))

    def judged(self, batch_id: int, time: int, *, success: bool = True, **fields: object) -> None:
        row = QualityResult(
            **{
                "batch_id": batch_id, "time": time, "suite": "telemetry", "expectation": "not_null", "column": "time",
                "success": success, "observed": None, "unexpected_count": 0, "row_count": 1, "why": "", **fields,
            }
        )  # fmt: skip
        self.rows["quality_results"].append(msgspec.structs.asdict(row))

    def write(self, tables: Path) -> Path:
        """Append the rows added since the last call; the first call creates the tables."""
        if not tables.exists():
            make_tables(tables)
        append(tables, self.effects)
        for table, rows in self.rows.items():
            if rows:
                append_rows(tables, table, rows)
        self.seq += len(self.effects)
        self.effects, self.rows = [], {table: [] for table in self.rows}
        return tables


def example() -> World:
    """`orders` has a stuck, an unassigned and a queue of unknown lag; `quiet` is unknown; `all` is broadcasting."""
    world = World()
    world.group("orders", "BAD")
    world.queue("orders", 0, "A", "BAD", lag=40, lock_age_ms=45_000)
    world.queue("orders", 1, None, "WARN", lag=9)
    world.queue("orders", 2, "A", lag=None)
    world.queue("orders", 3, "A", lag=1)
    world.queue("orders", 0, "A", topic="%RETRY%orders", lag=3)
    world.dead_letters("orders", 4, 10)
    world.group("quiet", "UNKNOWN", members=(), coverage=HALF)
    world.queue("quiet", 0, None, "UNKNOWN", lag=None, lock_age_ms=None)
    world.group("all", message_model="BROADCASTING", orderly=False)
    world.queue("all", 0, None, lag=0)
    world.incident("orders", "ORDERED_QUEUE_STUCK", 0)
    world.incident("orders", "QUEUE_UNASSIGNED", 1, severity="warning")
    world.incident("orders", "LOCK_EXPIRED", 0, parent="ordered_queue_stuck-orders-0")
    world.incident("orders", "LAG_GROWTH", incident_id="over", severity="warning")
    world.incident("orders", "LAG_GROWTH", incident_id="over", severity="warning", transition="RESOLVED")
    for time in (NOON - 86_400_000, NOON - 3_000, NOON - 2_000):
        world.rebalance("orders", time)
    world.rebalance("orders", NOON - 86_400_000, "CLIENT_UNREGISTERED")
    world.last("poll-1@1", NOON - 90_000_000)
    world.last("poll-1@2", NOON + 30_000)
    world.last("hook-b@1", NOON - 60_000, source="hook")
    world.rejected("BAD_JSON", NOON)
    world.judged(0, NOON - 10_000, success=False)
    world.judged(1, NOON + 30_050)
    world.judged(0, NOON, success=False, suite="ownership", column="owned_twice", checked_at=NOON + 5_000)
    return world
