"""The dead-man check: alert when the job stops, or a source stops while others continue, and when they resume.

The core cannot detect its own silence: its time advances only with telemetry. A stopped job and missing telemetry are
indistinguishable here and raise the same alert: without rows the job finishes no batch. The times are those of the
transport and of the tables' writer, compared with the clock of this process.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from checkpoints.manifest import OPERATOR
from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.events import instance_of
from schemas.arrow import in_epoch_ms
from schemas.tables import DERIVED
from streaming.base.language import marked
from streaming.base.place import Place
from streaming.serve.alerting import own_incidents
from streaming.serve.alerting.config import JOB_SILENT, SOURCE_SILENT, DeadMan
from streaming.serve.alerting.follow import Follower, LostError
from streaming.serve.alerting.state import TrackedIncident
from streaming.tables.files import delta_time

_JOB = "job"
_LOOK_BACK_MS = 3_600_000
"""Sources that reported within this time before the start are watched, and those with an open incident."""
_ADVICE = {
    JOB_SILENT: (
        marked(
            "The job has finished no batch: it has stopped, or it receives no telemetry. The cluster is not monitored."
        ),
        marked(
            "Check that `rebalance-watch run`, `rebalance-watch collect` and Kafka are running: "
            "`rebalance-watch doctor`."
        ),
    ),
    SOURCE_SILENT: (
        marked("The source stopped reporting while others continue; checks that need it are suspended."),
        marked(
            "Check that its collector, or the broker and the shipper of its hook, is running and can reach the log."
        ),
    ),
}


class Watch:
    """Watches the job and the sources."""

    def __init__(self, tables: Place, checkpoints: Path, settings: DeadMan, now: int) -> None:
        """Begin with the state in the tables.

        Args:
            tables: the tables of the job.
            checkpoints: its checkpoints, which record finished batches even without rows; may be on another machine.
            settings: the configured durations.
            now: epoch milliseconds.

        Raises:
            UserError: a table is missing.
        """
        self._settings = settings
        self._batches = checkpoints / OPERATOR / "commits"
        self._derived = [Follower(tables / table) for table in DERIVED]
        self._telemetry = Follower(tables / "telemetry", ("cluster", "source_id", "ingest_time"))
        appends = [one.last_append() for one in (*self._derived, self._telemetry)]
        self._begin = now
        self._job = max((time for time in appends if time is not None), default=0)
        """The time of the last sign of the job, in epoch milliseconds; 0 if unknown."""
        self._sources: dict[tuple[str, str], int] = {}
        """The time of the last telemetry of each (cluster, source), by the transport's clock."""
        self._newest = 0
        """The time of the last telemetry of any source."""
        for batch in self._telemetry.whole(f"ingest_time >= {delta_time(now - _LOOK_BACK_MS)}"):
            self._note(pa.Table.from_batches([batch]))

    def look(self, now: int, incidents: Mapping[str, TrackedIncident]) -> list[IncidentTransition]:
        """Return transitions for what has stopped and what has resumed.

        Args:
            now: epoch milliseconds.
            incidents: the unresolved incidents, including those of earlier calls.
        """
        self._read_new()
        self._recall(incidents)
        silent = dict(self._silent(now))
        over = [
            _over(incident.last, now)
            for incident in incidents.values()
            if incident.last.code in _ADVICE
            and silent.pop((incident.last.code, incident.last.cluster, incident.last.subject), None) is None
        ]
        return over + [_opened(*name, since, now) for name, since in silent.items()]

    def _read_new(self) -> None:
        with suppress(FileNotFoundError):
            self._job = max(self._job, self._batches.stat().st_mtime_ns // 1_000_000)
        for follower in self._derived:
            try:
                for commit in follower.new():
                    self._job = max(self._job, commit.time)
            except LostError:
                follower.whole().close()
        try:
            for commit in self._telemetry.new():
                self._job = max(self._job, commit.time)
                self._note(commit.rows)
        except LostError:
            self._telemetry.whole().close()

    def _note(self, rows: pa.Table) -> None:
        last = rows.group_by(["cluster", "source_id"]).aggregate([("ingest_time", "max")])
        for row in in_epoch_ms(last).to_pylist():
            name = row["cluster"], instance_of(row["source_id"])[0]
            self._sources[name] = max(self._sources.get(name, 0), row["ingest_time_max"])
            self._newest = max(self._newest, row["ingest_time_max"])

    def _recall(self, incidents: Mapping[str, TrackedIncident]) -> None:
        """Restore from the open incidents what a restart cannot read: sources silent for longer than the look-back."""
        for last in (incident.last for incident in incidents.values()):
            name = last.cluster, last.subject
            if last.code == JOB_SILENT:
                self._job = max(self._job, last.opened_at)
            elif last.code == SOURCE_SILENT and name not in self._sources:
                self._sources[name] = last.opened_at
                # Another source reported this much later, or it would not have been open: it stays silent in any case.
                self._newest = max(self._newest, last.opened_at + self._settings.sources)

    def _silent(self, now: int) -> Iterator[tuple[tuple[str, str, str], int]]:
        """Yield (code, cluster, subject) of everything that is silent, and since when."""
        settings = self._settings
        job = self._job or self._begin
        if settings.job and now - job >= settings.job:
            yield (JOB_SILENT, "", _JOB), job
        for (cluster, source), last in self._sources.items():
            if settings.sources and settings.sources <= self._newest - last < settings.forget:
                yield (SOURCE_SILENT, cluster, source), last


def _opened(code: str, cluster: str, subject: str, since: int, now: int) -> IncidentTransition:
    return own_incidents.opened(
        code, cluster, subject, since=since, now=now, severity="critical", evidence={"silent_ms": now - since},
        advice=_ADVICE[code],
    )  # fmt: skip


def _over(opened: IncidentTransition, now: int) -> IncidentTransition:
    return own_incidents.resolved(opened, now, {"silent_ms": max(0, now - opened.opened_at)})
