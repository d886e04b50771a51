"""Incidents about rebalance-watch itself, not from the core's rules: silent telemetry, and checks that fail.

The core cannot detect its own silence: its time advances only with telemetry. A stopped job and missing telemetry are
indistinguishable here and raise the same alert: without rows the job finishes no batch. The times are those of the
transport and of the tables' writer, compared with the clock of this process.

Checks of the archive's batches send no alert: what a source sends may be good and bad in turn, every ten seconds. They
have a metric.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa

from checkpoints.manifest import OPERATOR
from checkpoints.quality import SUITE as OF_BATCHES
from rebalance_model.observe.effects import IncidentTransition, stable_id
from rebalance_model.observe.events import instance_of
from schemas.arrow import in_epoch_ms
from schemas.rows import QualityResult
from schemas.tables import DERIVED
from streaming.base.language import marked
from streaming.base.place import Place
from streaming.serve.alerting.config import JOB_SILENT, QUALITY_CHECK_FAILED, SOURCE_SILENT, DeadMan
from streaming.serve.alerting.follow import Follower, LostError, converted
from streaming.serve.alerting.state import TrackedIncident
from streaming.tables.delta import delta_at
from streaming.tables.files import delta_time


def opened(
    code: str, cluster: str, subject: str, *, since: int, now: int, severity: str, evidence: object,
    advice: tuple[str, str],
) -> IncidentTransition:  # fmt: skip
    """Return the opening of an incident, about all clusters if that is empty; times are epoch milliseconds.

    ``advice`` says what it means, and what to do first.
    """
    explanation, first_step = advice
    return msgspec.convert(
        {
            "cluster": cluster, "group": "", "time": now, "known_at": now, "seq": 1, "cause": "",
            "incident_id": stable_id(cluster, "", code, subject, since), "code": code, "sub_cause": "",
            "severity": severity, "transition": "OPENED", "subject": subject, "opened_at": since, "topic": None,
            "broker": None, "queue_id": None, "client_id": None, "evidence": _json(evidence),
            "explanation": explanation, "first_step": first_step, "parent": None,
        },
        IncidentTransition,
    )  # fmt: skip


def resolved(last: IncidentTransition, now: int, evidence: object) -> IncidentTransition:
    """Return the end of an incident."""
    time = max(now, last.time)
    return msgspec.structs.replace(
        last, time=time, known_at=time, seq=last.seq + 1, transition="RESOLVED", evidence=_json(evidence)
    )


def _json(evidence: object) -> str:
    return msgspec.json.encode(evidence).decode()


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

        The checkpoints record finished batches even without rows; they may be on another machine.

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

    def transitions(self, now: int, incidents: Mapping[str, TrackedIncident]) -> list[IncidentTransition]:
        """Return transitions for what has stopped and what has resumed, beside the unresolved incidents."""
        self._read_new()
        self._recall(incidents)
        silent = dict(self._silent(now))
        over = [
            resolved(incident.last, now, {"silent_ms": max(0, now - incident.last.opened_at)})
            for incident in incidents.values()
            if incident.last.code in _ADVICE
            and silent.pop((incident.last.code, incident.last.cluster, incident.last.subject), None) is None
        ]
        return over + [_opened(*name, since, now) for name, since in silent.items()]

    def _read_new(self) -> None:
        with suppress(FileNotFoundError):
            self._job = max(self._job, self._batches.stat().st_mtime_ns // 1_000_000)
        for follower in (*self._derived, self._telemetry):
            try:
                for commit in follower.new():
                    self._job = max(self._job, commit.time)
                    if follower is self._telemetry:
                        self._note(commit.rows)
            except LostError:
                follower.whole().close()

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
    return opened(
        code, cluster, subject, since=since, now=now, severity="critical", evidence={"silent_ms": now - since},
        advice=_ADVICE[code],
    )  # fmt: skip


_RESULTS = "quality_results"
_FIRST_STEP = marked("Run `rebalance-watch quality` for examples, and see streaming/RUNBOOK.md.")


class FailedChecks:
    """Follows the results of the checks."""

    def __init__(self, tables: Place) -> None:
        """Begin with the results that are there.

        Raises:
            UserError: the table is missing.
        """
        there = {field.name for field in delta_at(tables / _RESULTS).schema().fields}
        names = [name for name in QualityResult.__struct_fields__ if name in there]
        self._follower = Follower(tables / _RESULTS, names)
        self._last: dict[tuple[str, str], QualityResult] = {}
        """The last result of each check, by its subject and expectation."""
        self._read_all()

    def transitions(self, now: int, incidents: Mapping[str, TrackedIncident]) -> list[IncidentTransition]:
        """Return transitions for the checks that fail and those that succeed again, beside the unresolved incidents."""
        try:
            for commit in self._follower.new():
                self._note(commit.rows)
        except LostError:
            self._read_all()
        failing = {subject: result for (subject, _), result in self._last.items() if not result.success}
        over = [
            resolved(incident.last, now, {})
            for incident in incidents.values()
            if incident.last.code == QUALITY_CHECK_FAILED and failing.pop(incident.last.subject, None) is None
        ]
        return over + [_opened_check(subject, result, now) for subject, result in failing.items()]

    def _read_all(self) -> None:
        self._last.clear()
        for batch in self._follower.whole(f"suite <> '{OF_BATCHES}'"):
            self._note(pa.Table.from_batches([batch]))

    def _note(self, rows: pa.Table) -> None:
        results = [result for result in converted(rows, QualityResult) if result.suite != OF_BATCHES]
        for result in sorted(results, key=_order):
            check = _subject(result), result.expectation
            if check not in self._last or _order(result) >= _order(self._last[check]):
                self._last[check] = result
        self._forget_removed()

    def _forget_removed(self) -> None:
        """Forget the checks that a suite no longer has."""
        newest: dict[str, int] = {}
        for result in self._last.values():
            newest[result.suite] = max(newest.get(result.suite, 0), _checked_at(result))
        for check, result in list(self._last.items()):
            if _checked_at(result) < newest[result.suite]:
                del self._last[check]


def _checked_at(result: QualityResult) -> int:
    return result.checked_at or result.time


def _order(result: QualityResult) -> tuple[int, bool]:
    """Return the order of results: a suite may have an expectation twice, and then the one that failed counts."""
    return _checked_at(result), not result.success


def _subject(result: QualityResult) -> str:
    return f"{result.suite} {result.column or result.expectation}"


def _opened_check(subject: str, result: QualityResult, now: int) -> IncidentTransition:
    evidence = {"failed": result.unexpected_count, "checked": result.row_count, "observed": result.observed}
    return opened(
        QUALITY_CHECK_FAILED, "", subject, since=_checked_at(result), now=now,
        severity="critical" if result.stops_job else "warning", evidence=evidence, advice=(result.why, _FIRST_STEP),
    )  # fmt: skip
