"""Tables for tests of queries: the effects of the log of the shard's tests, and unusual groups derived from them.

`ReportedGroup` is the oracle: it computes the answers of the queries from the list of effects, one by one.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from rebalance_model.entities import RETRY_TOPIC_PREFIX
from rebalance_model.observe.effects import (
    AnyEffect,
    AnyRow,
    AssignmentChange,
    GroupSnapshot,
    IncidentTransition,
    QueueProgress,
    QueueSnapshot,
    RebalanceSettled,
)
from rebalance_model.observe.policy import Policy
from streaming.base.times import written
from streaming.log.rows import encode
from streaming.pipeline.archive_rows import LogRow
from streaming.serve import store
from streaming.serve.store import Store
from streaming.tables.reader import Parameters, ReadModel, Row
from tests.pipeline.test_backtest import effects, partitions
from tests.support.tables import append, archive, make_tables
from tests.support.trace import START

END = START + 700_000
INSTANTS = [START + 1000 * second for second in (20, 75, 101, 110, 118, 150, 165, 230, 300, 420, 699)]
"""Instants during a storm, while queues are stuck, while a broker restarts, with and without members."""
AMID = INSTANTS[5]
"""Client a is silent, its queues are stuck."""
AT = ("--at", written(AMID))
"""The option of a command that asks about that instant."""

Place = tuple[str, str, int]


class Seen(NamedTuple):
    """The values of a row about one queue."""

    time: int
    interval_ms: int
    is_hook: bool
    lag: int | None
    is_bound: bool
    newest: int | None
    commit: int | None
    commit_at: int
    pulled: int | None
    pull_at: int

    @classmethod
    def of(cls, row: QueueProgress, at: int) -> "Seen":
        """Return what a row says of its queue with a number; 0 is a time that it does not have."""
        lag, bound, newest, commit, commit_at, pulled, pull_at = (
            values[at] if values else None
            for values in (
                row.lag, row.lag_is_at_least, row.broker_offset, row.commit_offset, row.commit_at, row.pull_offset,
                row.pull_at,
            )
        )  # fmt: skip
        is_hook = row.source == "HOOK"
        return cls(
            row.time, row.interval_ms, is_hook, lag, bool(bound), newest, commit, commit_at or 0, pulled, pull_at or 0
        )


def lag_of(seen: list[Seen], instant: int) -> tuple[int, bool]:
    """Return a queue's lag at an instant, and whether it is stale: the exact one if it is fresh, else a newer bound.

    A commit that a hook saw after the exact lag makes it a bound: the highest offset known, less that commit.
    """
    exact = max((one for one in seen if one.lag is not None and not one.is_bound), default=None)
    bound = max((one for one in seen if one.lag is not None and one.is_bound), default=None)
    commit, pull = max(seen, key=lambda one: one.commit_at), max(seen, key=lambda one: one.pull_at)
    if exact and commit.commit_at > exact.time and commit.commit != exact.commit:
        pulled = pull.pulled if pull.pull_at > exact.time else None
        highest = max(offset for offset in (exact.newest, commit.commit, pulled) if offset is not None)
        hook = max(one for one in seen if one.is_hook)
        return highest - commit.commit, instant - hook.time > 2 * hook.interval_ms
    is_fresh = exact and instant - exact.time <= 2 * exact.interval_ms
    shown = exact if is_fresh or not bound or (exact and bound.time <= exact.time) else bound
    return shown.lag, instant - shown.time > 2 * shown.interval_ms


@cache
def everything() -> tuple[AnyRow, ...]:
    """Return the rows of g and h; of twin in two clusters; of a broadcasting, a pulling and a healthy group; retry."""
    reported = effects(Policy())
    of_h = [effect for effect in reported if effect.group == "h"]
    twins = [_twin(effect, cluster) for effect in of_h for cluster in "cd"]
    odd = [
        msgspec.structs.replace(effect, **changed)
        for effect in of_h
        if isinstance(effect, GroupSnapshot | QueueSnapshot)
        for changed in _odd(effect)
    ]
    retry = [
        msgspec.structs.replace(effect, topic=f"{RETRY_TOPIC_PREFIX}g", seq=effect.seq + 100_000)
        for effect in reported
        if effect.group == "g" and isinstance(effect, AssignmentChange | QueueSnapshot)
    ]
    return (*reported, *twins, *odd, *retry, *_late())


def _late() -> list[AnyEffect]:
    """Return the rows of a queue of the calm group that was released after the last row of its state."""
    queue = {"cluster": "c", "group": "calm", "cause": "x|c/calm|1", "topic": "Late", "broker": "b", "queue_id": 0}
    queue |= {"known_at": END}
    change = {**queue, "client_id": "a", "expected_owner": None, "rebalance_id": ""}
    nothing = dict.fromkeys(QueueSnapshot.__struct_fields__)
    state = {**nothing, **queue, "owner": "a", "status": "OK", "status_reason": ""}
    return [
        AssignmentChange(**change, time=END - 3_000, seq=200_001, action="ASSIGNED", evidence="ANSWER"),
        QueueSnapshot(**{**state, "time": END - 3_000, "seq": 200_002}),
        AssignmentChange(**change, time=END - 2_000, seq=200_003, action="RELEASED", evidence="LEFT"),
    ]


def _twin(effect: AnyRow, cluster: str) -> AnyRow:
    """Return the row for a group called twin; there, the storm explains the stale heartbeats."""
    moved = msgspec.structs.replace(effect, group="twin", cluster=cluster)
    if not isinstance(moved, IncidentTransition):
        return moved
    parent = f"twin-{cluster}-storm" if moved.code == "STALE_HEARTBEAT" else None
    name = f"twin-{cluster}-{'storm' if moved.code == 'REBALANCE_STORM' else moved.incident_id}"
    return msgspec.structs.replace(moved, incident_id=name, parent=parent)


def _odd(effect: GroupSnapshot | QueueSnapshot) -> list[dict[str, object]]:
    if isinstance(effect, QueueSnapshot):
        unassigned = {"owner": None, "expected_owner": None}
        return [{"group": group, **unassigned} for group in ("everyone", "pullers")]
    return [
        {"group": "everyone", "message_model": "BROADCASTING"},
        {"group": "pullers", "consume_type": "CONSUME_ACTIVELY"},
        {"group": "calm", "health": "OK", "health_reason": ""},
    ]


def write(tables: Path, rows: tuple[AnyRow, ...]) -> None:
    """Write the tables with these effects, and the archive of the log that led to them."""
    append(make_tables(tables), rows)
    log = [
        LogRow(partition, offset, None, encode(event), END + 86_400_000)
        for partition, events in enumerate(partitions())
        for offset, event in enumerate(events)
    ]
    archive(tables, log)


class Asked(ReadModel):
    """Tables of which each version is asked each question once.

    DuckDB plans each query for 10 to 50 ms, and tests of one answer's forms need the same rows.
    """

    def __init__(self, tables: Path) -> None:
        super().__init__(tables)
        self.refresh()  # it keeps the rows in memory: without files to look at, a query is planned in half the time
        self._known: dict[tuple[int, str, str], list[Row]] = {}

    def rows(self, query: str, parameters: Parameters = ()) -> list[Row]:
        """Return the rows, from the tables or as they were read before."""
        values = sorted(parameters.items()) if isinstance(parameters, Mapping) else parameters
        key = self.version, query, repr(values)
        if key not in self._known:
            self._known[key] = super().rows(query, parameters)
        return deepcopy(self._known[key])


def asked_store(tables: Path) -> Store:
    """Return a server's tables, which are `Asked`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "ReadModel", Asked)
        return Store(tables)


@dataclass(frozen=True)
class ReportedGroup:
    """The effects of one group by an instant."""

    group: str
    instant: int = 2**63 - 1
    cluster: str = "c"

    def of(self, kind: type[AnyEffect]) -> list[AnyEffect]:
        """Return the effects of a kind, in order."""
        mine = [
            effect
            for effect in everything()
            if (effect.cluster, effect.group) == (self.cluster, self.group)
            and type(effect) is kind
            and effect.time <= self.instant
        ]
        return sorted(mine, key=lambda effect: (effect.time, effect.seq))

    def owners(self, *, retry: bool = False) -> dict[Place, str]:
        """Return the owner of each assigned queue."""
        owners: dict[Place, str] = {}
        for change in self.of(AssignmentChange):
            place = (change.topic, change.broker, change.queue_id)
            if change.action == "ASSIGNED":
                owners[place] = change.client_id
            else:
                owners.pop(place, None)
        return {place: owner for place, owner in owners.items() if retry or not place[0].startswith(RETRY_TOPIC_PREFIX)}

    def queues(self) -> dict[Place, QueueSnapshot]:
        """Return the last state of each queue, without retry queues."""
        last = {(queue.topic, queue.broker, queue.queue_id): queue for queue in self.of(QueueSnapshot)}
        return {place: queue for place, queue in last.items() if not place[0].startswith(RETRY_TOPIC_PREFIX)}

    def lags(self) -> dict[Place, tuple[int, bool]]:
        """Return the lag of each queue that has one, and whether it is stale."""
        seen: dict[Place, list[Seen]] = {}
        for row in everything():
            mine = isinstance(row, QueueProgress) and (row.cluster, row.group) == (self.cluster, self.group)
            if mine and row.client_id is None and self.instant - 900_000 < row.time <= self.instant:
                for at, topic in enumerate(row.topic):
                    seen.setdefault((topic, row.broker, row.queue_id[at]), []).append(Seen.of(row, at))
        return {
            place: lag_of(all_of, self.instant)
            for place, all_of in seen.items()
            if any(o.lag is not None for o in all_of)
        }

    def state(self) -> GroupSnapshot:
        """Return the last state of the group."""
        return self.of(GroupSnapshot)[-1]

    def incidents(self) -> dict[str, IncidentTransition]:
        """Return the last transition of each incident of the group, and of those of the cluster that affect it."""
        own = {one.incident_id: one for one in self.of(IncidentTransition)}
        brokers = {broker for _, broker, _ in self.queues()}
        of_cluster = replace(self, group="").of(IncidentTransition) if self.group else []
        return own | {one.incident_id: one for one in of_cluster if one.subject in brokers}

    def open(self) -> dict[str, IncidentTransition]:
        """Return the last transition of each open incident."""
        return {name: one for name, one in self.incidents().items() if one.transition != "RESOLVED"}

    def rebalances(self) -> list[RebalanceSettled]:
        """Return the rebalances, newest first."""
        return sorted(self.of(RebalanceSettled), key=lambda one: (one.start_time, one.seq), reverse=True)
