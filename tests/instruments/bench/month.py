"""A month of a job's tables, made at once: the rows of 200 active groups, and of one with 4,096 queues.

The rows are random but consistent: a queue is released by the client to which it was assigned, its state names its
owner, an incident's transitions follow each other, and the event that caused one is in the archive. They are appended
as by the job, with its transaction ids: the month in few large commits (a job makes 1.3 million commits in a month,
which `maintain` reduces to few), its last three days in smaller ones, and the rows after it in one commit per trigger.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import sleep

import numpy as np
import pyarrow as pa

from checkpoints.generation import claimed
from checkpoints.manifest import ARCHIVE, OPERATOR, Basis
from rebalance_model.observe.policy import Policy
from schemas.arrow import arrow_schema, column_of
from streaming.pipeline.sinks import TableSink

DAY_MS = 86_400_000
TRIGGER_MS = 2_000
"""The interval of commits of a busy job; a job with little to do commits every second."""
CLUSTER = "DefaultCluster"
BIG_GROUP = "big-group"
BIG_QUEUES = 4_096
BIG_CLIENTS = 512
MOVES_OF_A_REBALANCE = 8
SMALL_COMMIT_MS = 600_000
"""The interval of commits while every answer is kept: their files are small enough to be merged and sorted."""
KNOWN_MS = 900
"""The time from an event to `known_at` of its row."""
RAW_DAYS = 3
"""How many days every answer of the series is kept (conf/default.toml: tables.progress_days)."""

Columns = dict[str, object]


@dataclass(frozen=True)
class Size:
    """The numbers of groups, days and rows."""

    groups: int = 200
    days: float = 30
    moves: int = 5_000_000
    """Each is two rows of assignment_history: released and assigned."""
    incidents: int = 60_000
    events: int = 1_500_000
    commits: int = 720


class Month:
    """Makes the rows of one period after the other."""

    def __init__(self, size: Size, end: int, seq: int = 0) -> None:
        self.random = np.random.default_rng(seq)
        self.size, self.end, self.begin = size, end, end - round(size.days * DAY_MS)
        queues = [4 + 4 * (n % 3) + (48 if n % 50 == 0 else 0) for n in range(size.groups)] + [BIG_QUEUES]
        clients = [max(2, count // 4) for count in queues[:-1]] + [BIG_CLIENTS]
        self.names = pa.array([f"group-{n:03}" for n in range(size.groups)] + [BIG_GROUP])
        self.topics = pa.array([f"topic-{n:03}" for n in range(size.groups)] + ["big-topic"])
        self.brokers = pa.array(["broker-a", "broker-b"])
        self.ids = pa.array([f"10.0.{g}.{c}@{1_000 + c}" for g, count in enumerate(clients) for c in range(count)])
        self.group_of_queue = np.repeat(np.arange(len(queues)), queues)
        self.number_of_queue = np.concatenate([np.arange(count) for count in queues])
        self.first_client, self.clients = np.cumsum([0, *clients[:-1]]), np.array(clients)
        bounds = np.cumsum([0, *queues])
        self.places = [
            np.arange(begin + parity, end, 2) for begin, end in pairwise(bounds.tolist()) for parity in (0, 1)
        ]
        """The queues of each group at each broker; the last two are those of the big one."""
        self.small = int(len(self.group_of_queue) - BIG_QUEUES)
        self.owner = self._some_client(np.arange(len(self.group_of_queue)))
        self.seq = seq

    def rows(self, since: int, until: int) -> Iterator[tuple[str, pa.Table]]:
        """Yield the rows of every table within a period, in the order in which the job appends them."""
        share = (until - since) / (self.end - self.begin)
        settled, incidents, events = (
            int(self.random.poisson(count * share))
            for count in (self.size.moves / MOVES_OF_A_REBALANCE, self.size.incidents, self.size.events)
        )
        if settled:
            yield from self._moves(since, until, settled)
        yield "group_state", self._groups(since, until)
        yield "queue_state", self._states(since, until)
        yield self._progress(since, until)
        causes = self._events(since, until, max(1, events))
        if incidents:
            yield "anomalies", self._incidents(since, until, incidents)
        yield "telemetry", causes

    def _some_client(self, queues: np.ndarray) -> np.ndarray:
        group = self.group_of_queue[queues]
        return self.first_client[group] + self.random.integers(0, 1 << 30, len(queues)) % self.clients[group]

    def _common(self, group: np.ndarray, time: np.ndarray) -> Columns:
        first, self.seq = self.seq, self.seq + len(time)
        return {
            "cluster": pa.repeat(CLUSTER, len(time)),
            "group": self.names.take(pa.array(group)),
            "time": time,
            "known_at": time + KNOWN_MS,
            "seq": np.arange(first, self.seq),
            "cause": pa.array([f"hook-{n % 2}@1|{CLUSTER}/g|{n}" for n in range(first, self.seq)]),
        }

    def _queue(self, queue: np.ndarray) -> Columns:
        number = self.number_of_queue[queue]
        return {
            "topic": self.topics.take(pa.array(self.group_of_queue[queue])),
            "broker": self.brokers.take(pa.array(number % 2)),
            "queue_id": number // 2,
        }

    def _moves(self, since: int, until: int, settled: int) -> Iterator[tuple[str, pa.Table]]:
        """Make rebalances that each move some queues of one group."""
        count = settled * MOVES_OF_A_REBALANCE
        lead = self.random.integers(0, self.small, settled)
        queue = (np.repeat(lead, MOVES_OF_A_REBALANCE) + np.tile(np.arange(MOVES_OF_A_REBALANCE), settled)) % self.small
        group = self.group_of_queue[queue]
        start = np.sort(self.random.integers(since, until, settled))
        time = np.repeat(start, MOVES_OF_A_REBALANCE)
        after, before = self._some_client(queue), np.empty(count, dtype=np.int64)
        for n in range(count):
            before[n], self.owner[queue[n]] = self.owner[queue[n]], after[n]
        names = pa.array([f"r{n}" for n in range(self.seq, self.seq + settled)]).take(
            pa.array(np.repeat(np.arange(settled), 2 * MOVES_OF_A_REBALANCE))
        )
        twice, client = np.repeat(queue, 2), self.ids.take(pa.array(np.column_stack([before, after]).ravel()))
        history = self._common(np.repeat(group, 2), np.repeat(time, 2)) | self._queue(twice)
        yield "assignment_history", _table("assignment_history", history | {
            "client_id": client, "action": _cycle(["RELEASED", "ASSIGNED"], 2 * count),
            "evidence": pa.repeat("ANSWER", 2 * count), "expected_owner": client, "rebalance_id": names,
        })  # fmt: skip
        moved = pa.StructArray.from_arrays(
            [_struct(self._queue(queue)), self.ids.take(pa.array(before)), self.ids.take(pa.array(after)),
             pa.repeat("MOVED", count), pa.array(self.random.integers(0, 900, count)), pa.repeat(False, count),
             *[pa.nulls(count, pa.int64())] * 3],
            names=["queue", "from_client", "to_client", "kind", "pause_ms", "pause_is_at_most", "reconsumed",
                   "reconsumed_min", "reconsumed_max"],
        )  # fmt: skip
        member = _lists(self.ids.take(pa.array(after)), MOVES_OF_A_REBALANCE)
        yield "rebalances", _table("rebalances", self._common(group[::MOVES_OF_A_REBALANCE], start + 1_000) | {
            "rebalance_id": names[:: 2 * MOVES_OF_A_REBALANCE], "start_time": start, "end_time": start + 1_000,
            "trigger": pa.repeat("CLIENT_JOINED", settled), "trigger_client": member.flatten()[::MOVES_OF_A_REBALANCE],
            "causes": _lists(pa.repeat("CLIENT_JOINED c", settled), 1), "members_before": member,
            "members_after": member, "queues_moved": np.full(settled, MOVES_OF_A_REBALANCE),
            "moves": _lists(moved, MOVES_OF_A_REBALANCE), "pause_ms_max": np.full(settled, 900),
            "converged": pa.repeat(True, settled), "queues_moved_min": np.full(settled, 4),
            "pause_ms_p50": np.full(settled, 450), "pause_is_at_most": pa.repeat(False, settled),
            "queues_interrupted": np.full(settled, 0), "queues_unassigned": np.full(settled, 0),
        })  # fmt: skip

    def _snapshots(self, since: int, until: int, each: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Return subjects and times of snapshots: each subject every ``step`` milliseconds, and some random changes."""
        instants = np.arange(-(-since // step) * step, until, step)
        changed = max(1, (until - since) * len(each) // (10 * step))
        time = np.concatenate([np.repeat(instants, len(each)), self.random.integers(since, until, changed)])
        which = np.concatenate([np.tile(each, len(instants)), self.random.choice(each, changed)])
        order = np.argsort(time, kind="stable")
        return which[order], time[order]

    def _groups(self, since: int, until: int) -> pa.Table:
        living = np.arange(self.size.groups + (until > self.end - DAY_MS))
        group, time = self._snapshots(since, until, living, Policy().snapshot_interval)
        count = len(time)
        members = pa.array([self.ids[f : f + min(n, 64)].to_pylist() for f, n in
                            zip(self.first_client, self.clients, strict=True)])  # fmt: skip
        return _table("group_state", self._common(group, time) | {
            "members": members.take(pa.array(group)),
            "subscriptions": _lists(pa.array([f"topic-{n:03} *" for n in group]), 1),
            "consume_type": pa.repeat("CONSUME_PASSIVELY", count), "message_model": pa.repeat("CLUSTERING", count),
            "consume_from_where": pa.repeat("CONSUME_FROM_LAST_OFFSET", count),
            "orderly": pa.array(group % 2 == 0), "strategy": pa.repeat("AVG", count),
            "health": _cycle(["OK", "OK", "OK", "BAD"], count), "health_reason": pa.repeat("", count),
            "coverage": pa.repeat(json.dumps({"brokers": 2, "polls": True, "silent_rules": []}), count),
            "corrections": _lists(pa.array([], pa.string()), 0, count),
        })  # fmt: skip

    def _states(self, since: int, until: int) -> pa.Table:
        living = np.arange(self.small + (BIG_QUEUES if until > self.end - DAY_MS else 0))
        queue, time = self._snapshots(since, until, living, Policy().snapshot_interval)
        count, owner = len(time), self.ids.take(pa.array(self.owner[queue]))
        return _table("queue_state", self._common(self.group_of_queue[queue], time) | self._queue(queue) | {
            "owner": owner, "expected_owner": owner, "locked": pa.repeat(True, count),
            "lock_at": time - self.random.integers(0, 20_000, count),
            "pull_at": time - self.random.integers(0, 15_000, count),
            "consume_at": time - self.random.integers(0, 15_000, count), "status": pa.repeat("OK", count),
            "status_reason": pa.repeat("", count),
        })  # fmt: skip

    def _progress(self, since: int, until: int) -> tuple[str, pa.Table]:
        """Make the brokers' answers about offsets every 10 s; for older days the rollup per minute that is left."""
        raw = until > self.end - RAW_DAYS * DAY_MS
        table, step = ("queue_progress", 10_000) if raw else ("queue_progress_minute", 60_000)
        places = self.places if until > self.end - DAY_MS else self.places[:-2]
        ticks = np.arange(-(-since // step) * step, until, step)
        queue = np.tile(np.concatenate(places), len(ticks))
        lengths = np.tile([len(place) for place in places], len(ticks))
        time = np.repeat(ticks, len(places))
        lag = self.random.integers(0, 50, len(queue))
        commit = np.repeat(time, lengths) // 100 + queue
        arrays = self._queue(queue) | {
            "broker_offset": commit + lag, "commit_offset": commit, "pull_offset": commit + lag // 2, "lag": lag,
            "in_flight": lag // 2, "ready": lag - lag // 2, "waiting_ms": lag * 97, "waiting_is_at_most": lag > 0,
            "observed_at": np.repeat(time, lengths), "lag_min": lag // 2, "lag_max": lag * 2,
            "waiting_ms_min": lag * 50, "waiting_ms_max": lag * 100,
        }  # fmt: skip
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        nothing = pa.ListArray.from_arrays(pa.array(np.zeros(len(time) + 1), pa.int32()), pa.nulls(0, pa.int64()))
        lists = {
            field.name: pa.ListArray.from_arrays(offsets, pa.array(arrays[field.name])) if field.name in arrays
            else nothing
            for field in arrow_schema(table) if pa.types.is_list(field.type)
        }  # fmt: skip
        first = np.tile([place[0] for place in places], len(ticks))
        return table, _table(table, lists | {
            "date": pa.array((time // DAY_MS).astype(np.int32)).view(pa.date32()), "time": time, "asked_at": time - 5,
            "cluster": pa.repeat(CLUSTER, len(time)), "group": self.names.take(pa.array(self.group_of_queue[first])),
            "broker": self._queue(first)["broker"], "interval_ms": np.full(len(time), step),
            "source": pa.repeat("POLL", len(time)), "kind": pa.repeat("CONSUME_STATS", len(time)),
        })  # fmt: skip

    def _incidents(self, since: int, until: int, count: int) -> pa.Table:
        """Make incidents; all but one in a hundred are resolved after a minute."""
        queue = self.random.integers(0, self.small, count)
        opened = np.sort(self.random.integers(since, until, count))
        ids = pa.array([f"{self.seq + n:016x}" for n in range(count)])
        ended = np.flatnonzero(self.random.random(count) < 0.99)
        which = np.concatenate([np.arange(count), ended])
        time = np.concatenate([opened, opened[ended] + 60_000])
        rows = len(which)
        return _table("anomalies", self._common(self.group_of_queue[queue[which]], time)
                      | self._queue(queue[which]) | {
            "incident_id": ids.take(pa.array(which)), "code": pa.repeat("ORDERED_QUEUE_STUCK", rows),
            "sub_cause": pa.repeat("LISTENER_HUNG", rows), "severity": pa.repeat("critical", rows),
            "transition": pa.array(["OPENED"] * count + ["RESOLVED"] * len(ended)),
            "subject": pa.array([f"queue {n}" for n in queue[which]]), "opened_at": opened[which],
            "client_id": self.ids.take(pa.array(self.owner[queue[which]])),
            "evidence": pa.array([json.dumps({"stuck_ms": int(n), "lag": 7}) for n in which]),
            "explanation": pa.repeat("The queue is locked and its messages are not consumed. " * 3, rows),
            "first_step": pa.repeat("Take a thread dump of the client. " * 3, rows),
            "main_cause": pa.repeat("LISTENER_HUNG", rows),
            "main_client_id": self.ids.take(pa.array(self.owner[queue[which]])),
            "main_explanation": pa.repeat("The queue is locked and its messages are not consumed. " * 3, rows),
        })  # fmt: skip

    def _events(self, since: int, until: int, count: int) -> pa.Table:
        """Make the archive, including the events that caused rows of this period."""
        time = np.sort(self.random.integers(since, until, count))
        number = self.seq - 1 - np.arange(count)[::-1]
        value = json.dumps({"type": "PULL_MESSAGE", "cluster": CLUSTER, "payload": "x" * 120})
        return _table("telemetry", {
            "date": pa.array((time // DAY_MS).astype(np.int32)).view(pa.date32()), "time": time,
            "type": pa.repeat("PULL_MESSAGE", count), "cluster": pa.repeat(CLUSTER, count),
            "broker": pa.repeat("broker-a", count), "broker_id": np.zeros(count, np.int64),
            "source": pa.repeat("hook", count), "seq": number,
            "source_id": pa.array([f"hook-{n % 2}@1" for n in number]),
            "group": pa.repeat("g", count), "key": pa.repeat(f"{CLUSTER}/g", count),
            "value": pa.array([f"{value[:-1]}, \"seq\": {n}}}" for n in number]), "partition": number % 8,
            "offset": number // 8, "ingest_time": time,
        })  # fmt: skip


def write_month(root: Path, month: Month) -> None:
    """Write the tables in few commits, and the checkpoints' manifest."""
    cuts = np.linspace(month.begin, month.end, month.size.commits + 1).astype(int).tolist()
    raw = max(month.begin, month.end - RAW_DAYS * DAY_MS)
    recent = np.arange(raw, month.end + 1, SMALL_COMMIT_MS).tolist()
    _append(root, month, pairwise([cut for cut in cuts if cut < raw] + recent))


def write_on(root: Path, month: Month, since: int, commits: int, pause: float = 0) -> None:
    """Append further rows, one commit per trigger, with this pause (seconds) between them."""
    _append(root, month, _triggers(since, commits, pause))


def _triggers(since: int, commits: int, pause: float) -> Iterator[tuple[int, int]]:
    for at in range(since, since + commits * TRIGGER_MS, TRIGGER_MS):
        yield at, at + TRIGGER_MS
        sleep(pause)


def _append(root: Path, month: Month, spans: Iterable[tuple[int, int]]) -> None:
    basis = Basis(source="bench", partitions=8, state_partitions=2, code_version="", policy=Policy())
    with claimed(root / "checkpoints", root / "tables", basis) as generation:
        for since, until in spans:
            for table, rows in month.rows(since, until):
                query = ARCHIVE if table == "telemetry" else OPERATOR
                for folder in ("offsets", "commits"):
                    file = root / "checkpoints" / query / folder / str(until)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text("v1\n{}")
                TableSink(root / "tables", query, generation).append_arrow(rows, table, batch_id=until)


def _table(table: str, columns: Columns) -> pa.Table:
    """Return rows in the table's schema; missing columns are null."""
    schema = arrow_schema(table)
    count = len(columns["time"])  # type: ignore[arg-type]  # every table has times
    arrays = [
        pa.array(found) if isinstance(found := columns.get(field.name), np.ndarray) else found for field in schema
    ]
    filled = [
        pa.nulls(count, field.type) if array is None else column_of(array, field.type)
        for array, field in zip(arrays, schema, strict=True)
    ]
    return pa.Table.from_arrays(filled, schema=schema)


def _cycle(values: list[str], count: int) -> pa.Array:
    return pa.array(values).take(pa.array(np.arange(count) % len(values)))


def _struct(columns: Columns) -> pa.StructArray:
    return pa.StructArray.from_arrays([pa.array(column) for column in columns.values()], names=list(columns))


def _lists(values: pa.Array, each: int, count: int | None = None) -> pa.ListArray:
    rows = len(values) // each if count is None else count
    return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1) * each, pa.int32()), values)
