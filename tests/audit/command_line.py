"""Ask the command line, and SQL through it: one process, since each start of the program takes a second."""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.audit.answers import Shown, ShownIncident, incidents_of, members_of, queues_of
from tests.audit.telemetry import Place, Queue, Series

_COMMANDS = """
import json, sys
from typer.testing import CliRunner
from streaming.cli import main

for line in sys.stdin:
    ended = CliRunner().invoke(main.app, json.loads(line))
    print(json.dumps([ended.exit_code, ended.stdout, f"{ended.stderr}{ended.exception or ''}"]), flush=True)
"""


@dataclass(frozen=True)
class CommandLine:
    """A process that runs commands, each given as a line."""

    process: "subprocess.Popen[str]"
    root: Path

    def queues(self, place: Place, instant: int) -> dict[Queue, Shown]:
        """Return every queue of a group at an instant; none if its history begins later."""
        return queues_of(self._run("group", "assignments", place[1], "-c", place[0], "--retry", *_at(instant)))

    def members(self, place: Place, instant: int) -> frozenset[str] | None:
        """Return the members of a group at an instant; None if its history begins later."""
        found = self._run("client", "list", place[1], "-c", place[0], *_at(instant))
        return None if found is None else members_of(found)

    def incidents(self) -> dict[str, ShownIncident]:
        """Return every incident by its id."""
        return incidents_of(self._run("incident", "list", "--all", "--unfold"))

    def queues_by_sql(self, place: Place, instant: int) -> dict[Queue, Shown]:
        """Return every queue of a group at an instant, without the age of its lock."""
        cluster, group = place
        found = self._sql(_QUEUES.format(instant=instant * 1000, cluster=cluster, group=group))
        return queues_of([row | {"lock_age_ms": None} for row in found])

    def members_by_sql(self) -> dict[Place, Series[frozenset[str]]]:
        """Return the members of every group as series."""
        by_place: dict[Place, Series[frozenset[str]]] = defaultdict(Series)
        for row in self._sql(_MEMBERS):
            by_place[row["cluster"], row["group"]].add(row["since"], frozenset(row["members"]))
        return by_place

    def incidents_by_sql(self) -> dict[str, tuple[int, int | None]]:
        """Return the begin and the end of every incident by its id."""
        return {row["incident_id"]: (row["begin"], row["end"]) for row in self._sql(_BEGINS_AND_ENDS)}

    def _sql(self, query: str) -> list[dict[str, Any]]:
        found = self._run("sql", query)
        return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]

    def _run(self, *argv: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(["--root", str(self.root), *argv, "-o", "json"]), file=self.process.stdin, flush=True)
        code, output, error = json.loads(self.process.stdout.readline())
        if code and "begins at" in error:
            return None
        assert code == 0, (argv, error)
        return json.loads(output)


@contextmanager
def commands(root: Path) -> Iterator[CommandLine]:
    """Run commands about a runtime root until the end of the block."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", _COMMANDS], stdin=pipe, stdout=pipe, text=True) as process:
        yield CommandLine(process, root)


def _at(instant: int) -> tuple[str, str]:
    return "--at", datetime.fromtimestamp(instant / 1000, UTC).isoformat()


_QUEUES = """
    SELECT
        topic, broker, queue_id, o.client_id AS owner, p.lag, coalesce(p.lag_is_at_least, false) AS lag_is_at_least,
        epoch_ms(p.lag_time) AS lag_time, coalesce(p.lag_is_stale, false) AS lag_is_stale, p.waiting_ms,
        coalesce(p.waiting_is_at_most, false) AS waiting_is_at_most,
        coalesce(p.waiting_is_stale, false) AS waiting_is_stale, p.in_flight,
        epoch_ms(p.in_flight_since) AS in_flight_since
    FROM (SELECT * FROM owners_at(make_timestamptz({instant})) WHERE cluster = '{cluster}' AND "group" = '{group}') o
    FULL JOIN (
        SELECT * FROM progress_at(make_timestamptz({instant})) WHERE cluster = '{cluster}' AND "group" = '{group}'
    ) p USING (topic, broker, queue_id)
"""
_MEMBERS = 'SELECT cluster, "group", epoch_ms(time) AS since, members FROM group_state ORDER BY cluster, "group", seq'
_BEGINS_AND_ENDS = """
    SELECT incident_id, epoch_ms(min(time)) AS begin, epoch_ms(max(time) FILTER (transition = 'RESOLVED')) AS "end"
    FROM anomalies GROUP BY incident_id
"""
