"""Rows of one group by which the read model is tried, and the archive's."""

from pathlib import Path

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import (
    AssignmentChange,
    Effect,
    GroupSnapshot,
    IncidentTransition,
    MoveKind,
    QueueMove,
    QueueProgress,
    QueueSnapshot,
    RebalanceSettled,
)
from streaming.pipeline.archive_rows import LogRow

COMMON = {"cluster": "c", "group": "orders", "cause": "poll-1@1|c/orders|1"}
EXAMPLES = Path(__file__).parents[2] / "schemas" / "examples" / "accepted"


def _move(queue_id: int, before: str | None, after: str | None, kind: MoveKind, pause_ms: int | None) -> QueueMove:
    queue = MessageQueue("Orders", "b", queue_id)
    return QueueMove(queue=queue, from_client=before, to_client=after, kind=kind, pause_ms=pause_ms)


class Story:
    """Rows of one group, numbered as the observer does."""

    def __init__(self, **common: str) -> None:
        self.common = {**COMMON, **common}
        self.rows: list[Effect] = []

    def add(self, kind: type[Effect], time: int, **fields: object) -> None:
        self.rows.append(kind(time=time, known_at=time, seq=len(self.rows) + 1, **self.common, **fields))

    def owner(self, time: int, queue_id: int, client: str, action: str, rebalance: str = "", **fields: object) -> None:
        self.add(
            AssignmentChange, time, client_id=client, action=action, rebalance_id=rebalance, queue_id=queue_id,
            **{"topic": "Orders", "broker": "b", "evidence": "ANSWER", "expected_owner": client, **fields},
        )  # fmt: skip

    def rebalance(self, start: int, end: int, name: str, moved: int, *, converged: bool | None = True) -> None:
        self.add(
            RebalanceSettled, end, rebalance_id=name, start_time=start, end_time=end, trigger="CLIENT_JOINED",
            trigger_client="B", causes=("CLIENT_JOINED B",), members_before=("A",), members_after=("A", "B"),
            queues_moved=moved, moves=(
                _move(0, "A", "B", "MOVED", 0), _move(1, "A", "A", "INTERRUPTED", 300),
                _move(2, "A", None, "UNASSIGNED", None), _move(3, None, "A", "MOVED", None),
            ), queues_interrupted=1, queues_unassigned=1, pause_ms_max=300,
            converged=converged, queues_moved_min=1, reconsumed_min=7, reconsumed_max=9 if converged else None,
        )  # fmt: skip

    def incident(
        self, time: int, name: str, transition: str, severity: str = "critical", *, opened: int = 500,
        sub_cause: str = "LISTENER_HUNG", client_id: str = "A", **fields: str,
    ) -> None:  # fmt: skip
        self.add(
            IncidentTransition, time, incident_id=name, code="ORDERED_QUEUE_STUCK", sub_cause=sub_cause,
            severity=severity, transition=transition, subject="Orders@b:0", opened_at=opened, topic="Orders",
            broker="b", queue_id=0, client_id=client_id, evidence=f'{{"at":{time}}}', explanation="why",
            first_step="what", parent=None, **fields,
        )  # fmt: skip

    def group(self, time: int, health: str) -> None:
        self.add(
            GroupSnapshot, time, members=("A", "B"), subscriptions=("Orders *",), consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING", consume_from_where="", orderly=True, strategy="AVG", health=health,
            health_reason="", coverage="{}",
        )  # fmt: skip

    def queue(self, time: int, reason: str = "", queue_id: int = 0) -> None:
        self.add(
            QueueSnapshot, time, topic="Orders", broker="b", queue_id=queue_id, owner="A", expected_owner="A",
            locked=True, lock_at=time - 1, pull_at=None, consume_at=time, status="OK", status_reason=reason,
        )  # fmt: skip

    def progress(self, time: int, kind: str = "CONSUME_STATS", interval: int = 10_000, **arrays: tuple) -> None:
        """Return what one answer says; ``queue_id`` and further arrays, ``client_id`` for a client's."""
        said = {"client_id": arrays.pop("client_id", None), "source": "HOOK" if kind == "HOOK" else "POLL"}
        arrays = {"topic": ("Orders",) * len(arrays["queue_id"]), **arrays}
        self.rows.append(
            QueueProgress(
                cluster=self.common["cluster"], group=self.common["group"], broker="b", time=time, asked_at=None,
                interval_ms=interval, kind=kind, **said, **arrays,
            )
        )  # fmt: skip


def orders() -> list[Effect | QueueProgress]:
    """Queue 0 goes from A to B at once, 1 after 300 ms, 2 to nobody; the retry topic moves after 200 ms."""
    story = Story()
    for queue_id in (0, 1, 2):
        story.owner(100, queue_id, "A", "ASSIGNED", evidence="FIRST_SEEN")
    story.owner(100, 0, "A", "ASSIGNED", topic="%RETRY%orders")
    story.group(100, "OK")
    story.queue(100)
    story.owner(500, 0, "A", "RELEASED", "r1", evidence="TAKEN_OVER")
    story.owner(500, 0, "B", "ASSIGNED", "r1")
    story.rebalance(450, 510, "r1", 1)
    story.incident(500, "i1", "OPENED", "warning")
    story.incident(510, "i1", "ESCALATED")
    story.incident(520, "i2", "OPENED", opened=520)
    story.owner(600, 1, "A", "RELEASED", "r2", evidence="LEFT")
    story.owner(600, 2, "A", "RELEASED", "r2", evidence="LEFT")
    story.owner(600, 0, "A", "RELEASED", "r2", evidence="LEFT", topic="%RETRY%orders")
    story.owner(800, 0, "B", "ASSIGNED", "r2", topic="%RETRY%orders")
    story.owner(900, 1, "B", "ASSIGNED", "r2")
    story.rebalance(600, 750, "r2", 2, converged=False)
    story.incident(910, "i1", "RESOLVED")
    story.group(910, "BAD")
    story.queue(910, "later")
    story.progress(100, queue_id=(0, 1), lag=(5, None), waiting_ms=(40, None), waiting_is_at_most=(True, False))
    story.progress(300, "HOOK", queue_id=(0, 1), lag=(1, 3), lag_is_at_least=(True, True), pull_at=(250, None))
    story.progress(400, "CONSUME_TIME_SPAN", queue_id=(0,), waiting_ms=(12,))
    story.progress(450, "CONSUMER_RUNNING_INFO", client_id="A", queue_id=(0,), cached_count=(2,), lock_at=(440,))
    for time, newest, stored_at in ((200, 0, None), (460, 7, 455)):
        story.progress(
            time, "TOPIC_STATS", topic=("%DLQ%orders",), queue_id=(0,), min_offset=(newest and 4,),
            broker_offset=(newest,), stored_at=(stored_at,),
        )  # fmt: skip
    return story.rows


def forgotten() -> list[Effect]:
    """A group that was forgotten and came back: its rows are numbered from 1 again, later."""
    before, after = Story(cluster="c2"), Story(cluster="c2")
    before.owner(100, 0, "old", "ASSIGNED")
    before.owner(200, 0, "old", "RELEASED", "r0")
    after.owner(9_000, 0, "new", "ASSIGNED")
    return before.rows + after.rows


def log() -> list[LogRow]:
    """The real examples in two partitions, so that each event is there twice."""
    lines = (EXAMPLES / "real.jsonl").read_bytes().splitlines()
    return [LogRow(partition, offset, None, line, 1_795_260_000_000) for partition in (1, 0)
            for offset, line in enumerate(lines)]  # fmt: skip
