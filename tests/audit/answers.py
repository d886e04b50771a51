"""Read the program's answers: the only module of the audit that knows fields of the REST API and of the tables."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import urlopen

from tests.audit.telemetry import Place, Queue

STARTS_SECONDS = 120
DERIVED = ("assignment_history", "rebalances", "group_state", "queue_state", "anomalies")


@dataclass(frozen=True)
class Shown:
    """The answer about one queue at an instant; None: not known."""

    owner: str | None
    lag: int | None
    lag_at_least: bool
    lag_time: int | None
    """When the lag was observed."""
    lag_stale: bool
    """Whether it is marked as stale."""
    wait: tuple[int, bool] | None
    """The waiting time of the next message, milliseconds, and whether it is an upper bound."""
    wait_stale: bool
    lock_age_ms: int | None
    in_flight: int | None
    """Messages that were popped, and are neither acked nor given back; of a pulled queue those that were pulled."""
    in_flight_since: int | None


class ShownMove(NamedTuple):
    """One queue of a settled rebalance."""

    queue: Queue
    former: str | None
    new_owner: str | None
    pause_ms: int | None
    read_again_min: int | None
    read_again_max: int | None


class ShownRebalance(NamedTuple):
    """A settled rebalance."""

    rebalance_id: str
    start: int
    end: int
    settled: int
    """When its row was written."""
    queues_moved: int
    converged: bool | None
    moves: tuple[ShownMove, ...]


class Row(NamedTuple):
    """The time, cause and key of a row of a derived table."""

    table: str
    time: int
    seq: int
    cause: str
    what: str
    rebalance_id: str


@dataclass(frozen=True)
class Api:
    """A running server of the tables of a runtime root."""

    address: str
    root: Path

    def queues(self, place: Place, instant: int) -> dict[Queue, Shown]:
        """Return every queue of a group at an instant; none if its history begins later."""
        cluster, group = place
        return queues_of(self._ask(f"groups/{quote(group, safe='')}/queues", cluster=cluster, at=instant, retry="true"))

    def rebalances(self, place: Place, settled: dict[str, int]) -> list[ShownRebalance]:
        """Return every rebalance of a group; ``settled`` has the time at which the row of each was written."""
        cluster, group = place
        path = f"groups/{quote(group, safe='')}/rebalances"
        found = self._ask(path, cluster=cluster, last=10_000)
        return [_rebalance(one, settled[one["rebalance_id"]]) for one in found or ()]

    def members(self, place: Place, instant: int) -> frozenset[str] | None:
        """Return the members of a group at an instant; None if its history begins later."""
        found = self._ask("clients", group=place[1], cluster=place[0], at=instant)
        return None if found is None else members_of(found)

    def members_of_all(self, instant: int) -> dict[Place, frozenset[str]]:
        """Return the members of every group that has clients at an instant."""
        clients = self._ask("clients", at=instant)
        places = {(one["cluster"], one["group"]) for one in clients}
        return {
            place: members_of([one for one in clients if (one["cluster"], one["group"]) == place]) for place in places
        }

    def incidents(self) -> dict[str, "ShownIncident"]:
        """Return every incident by its id."""
        return incidents_of(self._ask("incidents", all="true", unfold="true"))

    def _ask(self, path: str, **parameters: object) -> Any:
        try:
            with urlopen(f"{self.address}/api/v1/{path}?{urlencode(parameters)}", timeout=300) as answer:
                return json.load(answer)
        except HTTPError as error:
            body = error.read()
            if error.code in (400, 404) and b"begins at" in body:
                return None
            raise AssertionError(f"{path}: {body.decode()}") from error


class ShownIncident(NamedTuple):
    """The begin and end of an incident; None: it is open."""

    code: str
    place: Place
    queue: Queue | None
    client: str | None
    begin: int
    end: int | None


Queues: TypeAlias = Callable[[Place, int], dict[Queue, Shown]]
"""Asks for the queues of a group at an instant."""
Members: TypeAlias = Callable[[Place, int], frozenset[str] | None]
"""Asks for the members of a group at an instant; None if its history begins later."""


def queues_of(answered: list[dict[str, Any]] | None) -> dict[Queue, Shown]:
    """Return the queues of an answer; none if the history begins later."""
    return {(one["topic"], one["broker"], one["queue_id"]): _shown(one) for one in answered or ()}


def members_of(clients: list[dict[str, Any]]) -> frozenset[str]:
    """Return the members of an answer about clients."""
    return frozenset(one["client_id"] for one in clients if one["is_member"])


def incidents_of(answered: list[dict[str, Any]]) -> dict[str, ShownIncident]:
    """Return the incidents of an answer by their ids."""
    return {one["incident_id"]: _incident(one) for one in answered}


def _incident(answer: dict[str, Any]) -> ShownIncident:
    queue = None if answer["queue_id"] is None else (answer["topic"], answer["broker"], answer["queue_id"])
    place = answer["cluster"], answer["group"]
    return ShownIncident(answer["code"], place, queue, answer["client_id"], answer["opened_at"], answer["resolved_at"])


def _shown(queue: dict[str, Any]) -> Shown:
    waits = queue["waiting_ms"]
    return Shown(
        owner=queue["owner"],
        lag=queue["lag"],
        lag_at_least=queue["lag_is_at_least"],
        lag_time=queue["lag_time"],
        lag_stale=queue["lag_is_stale"],
        wait=None if waits is None else (waits, queue["waiting_is_at_most"]),
        wait_stale=queue["waiting_is_stale"],
        lock_age_ms=queue["lock_age_ms"],
        in_flight=queue["in_flight"],
        in_flight_since=queue["in_flight_since"],
    )


def _rebalance(answer: dict[str, Any], settled: int) -> ShownRebalance:
    return ShownRebalance(
        answer["rebalance_id"],
        answer["start_time"],
        answer["end_time"],
        settled,
        answer["queues_moved"],
        answer["converged"],
        tuple(_move(move) for move in answer["moves"]),
    )


def _move(move: dict[str, Any]) -> ShownMove:
    return ShownMove(
        (move["topic"], move["broker"], move["queue_id"]),
        move["from_client"],
        move["to_client"],
        move["pause_ms"],
        move["reconsumed_min"],
        move["reconsumed_max"],
    )


def rows(root: Path) -> list[Row]:
    """Return every row of the derived tables."""
    from deltalake import DeltaTable  # noqa: PLC0415  a library that reads files, not the program

    derived = []
    for table in DERIVED:
        for row in DeltaTable(str(root / "tables" / table)).to_pyarrow_table().to_pylist():
            what = " ".join(str(row[name]) for name in _SAYS if row.get(name) not in (None, ""))
            time = round(row["time"].timestamp() * 1000)
            derived.append(Row(table, time, row["seq"], row["cause"], what, row.get("rebalance_id", "")))
    return derived


class ShownProgress(NamedTuple):
    """One queue in a row of a broker's answer or of a hook in the progress table; None: nothing."""

    place: Place
    queue: Queue
    time: int
    former: int | None
    """The time of the former row of the hook of this broker; None: this is an answer's row, or the hook's first."""
    by_hook: bool
    at_least: bool
    lag: int | None
    in_flight: int | None
    in_flight_since: int | None
    newest: int | None
    commit: int | None
    pull: int | None
    commit_at: int | None
    pull_at: int | None
    lock_at: int | None


def progress(root: Path) -> Iterator[ShownProgress]:
    """Yield what each row of brokers' answers and of hooks says of each queue, in order of time."""
    from deltalake import DeltaTable  # noqa: PLC0415  as above

    former: dict[tuple[Place, str], int] = {}
    kinds = [("kind", "in", ["CONSUME_STATS", "HOOK"])]
    read = DeltaTable(str(root / "tables/queue_progress")).to_pyarrow_table(filters=kinds).to_pylist()
    for row in sorted(read, key=lambda row: row["time"]):
        place, by_hook, before = (row["cluster"], row["group"]), row["kind"] == "HOOK", None
        time = round(row["time"].timestamp() * 1000)
        if by_hook:
            before, former[place, row["broker"]] = former.get((place, row["broker"])), time
        columns = [map(_ms, row[name] or [None] * len(row["topic"])) for name in _PROGRESS]
        for topic, number, least, *values in zip(row["topic"], row["queue_id"], *columns, strict=True):
            yield ShownProgress(place, (topic, row["broker"], number), time, before, by_hook, bool(least), *values)


def _ms(value: Any) -> Any:
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else value


_PROGRESS = (
    "lag_is_at_least", "lag", "in_flight", "in_flight_since", "broker_offset", "commit_offset", "pull_offset",
    "commit_at", "pull_at", "lock_at",
)  # fmt: skip
_SAYS = ("group", "topic", "broker", "queue_id", "client_id", "action", "evidence", "trigger", "code", "transition")


@contextmanager
def serving(root: Path) -> Iterator[Api]:
    """Serve the tables of a runtime root on a free port until the end of the block."""
    argv = [sys.executable, "-m", "streaming.cli", "--root", str(root), "dashboard", "--port", "0"]
    log = root.parent / "audit-dashboard.log"
    with log.open("w") as output:
        process = subprocess.Popen(argv, stderr=output, env={**os.environ, "COLUMNS": "200"})
    try:
        yield Api(_address(process, log), root)
    finally:
        process.terminate()
        process.wait(120)


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    deadline = time.monotonic() + STARTS_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.search(r"Dashboard: (http://[^;/\s]+)", log.read_text()):
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"the server has not started: {log.read_text()}")
