"""The dead-man check: silence of the job, or of a source while others speak, is an alert, and so is its end.

The observer cannot tell its own silence: without telemetry no time passes for it (design.md §4). Silence of the job
and silence of all telemetry look the same from here, and are one alert: without rows it finishes no batch. Times here
are the transport's and the writer's, compared with the clock of this process.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa

from checkpoints.generation import OPERATOR
from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.events import instance_of
from rebalance_model.observe.identity import stable_id
from schemas.tables import DERIVED
from streaming.alerting.book import Known
from streaming.alerting.config import JOB_SILENT, SOURCE_SILENT, DeadMan
from streaming.alerting.follow import Follower, LostError

_JOB = "job"
_LOOK_BACK_MS = 3_600_000
"""Sources that told something within so long before the start are watched, and those whose silence is still open."""
_ADVICE = {
    JOB_SILENT: (
        "The job has finished no batch: it stands, or no telemetry reaches it. What happens there is not seen.",
        "Look whether `rebalance-watch run` and `rebalance-watch collect` run, and Kafka: `rebalance-watch doctor`.",
    ),
    SOURCE_SILENT: (
        "The source tells nothing any more, while others do: what only it tells is not seen.",
        "Look whether its collector, or the broker and the shipper of its hook, runs and reaches the log.",
    ),
}


class Watch:
    """Hears the job and the sources."""

    def __init__(self, tables: Path, checkpoints: Path, settings: DeadMan, now: int) -> None:
        """Begin with what is in the tables.

        Args:
            tables: what the job writes.
            checkpoints: where it keeps which batches are finished, also those that led to nothing; may be elsewhere.
            settings: the spans.
            now: epoch milliseconds.

        Raises:
            UserError: a table is not there.
        """
        self._settings = settings
        self._batches = checkpoints / OPERATOR / "commits"
        self._derived = [Follower(tables / table) for table in DERIVED]
        self._telemetry = Follower(tables / "telemetry", ("cluster", "source_id", "ingest_time"))
        appends = [one.last_append() for one in (*self._derived, self._telemetry)]
        self._begin = now
        self._job = max((time for time in appends if time is not None), default=0)
        """When the job was heard last; 0: nothing tells."""
        self._sources: dict[tuple[str, str], int] = {}
        """When each (cluster, source) was heard last, by the transport's clock."""
        self._newest = 0
        """When any source was."""
        for batch in self._telemetry.whole(f"ingest_time >= {now - _LOOK_BACK_MS}"):
            self._hear(pa.Table.from_batches([batch]))

    def look(self, now: int, known: Mapping[str, Known]) -> list[IncidentTransition]:
        """What fell silent, and what speaks again.

        Args:
            now: epoch milliseconds.
            known: the incidents that are not over, in which those of an earlier look are.
        """
        self._listen()
        self._recall(known)
        silent = dict(self._silent(now))
        over = [
            _over(one.last, now)
            for one in known.values()
            if one.last.code in _ADVICE
            and silent.pop((one.last.code, one.last.cluster, one.last.subject), None) is None
        ]
        return over + [_opened(*name, since, now) for name, since in silent.items()]

    def _listen(self) -> None:
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
                self._hear(commit.rows)
        except LostError:
            self._telemetry.whole().close()

    def _hear(self, rows: pa.Table) -> None:
        heard = rows.group_by(["cluster", "source_id"]).aggregate([("ingest_time", "max")])
        for row in heard.to_pylist():
            name = row["cluster"], instance_of(row["source_id"])[0]
            self._sources[name] = max(self._sources.get(name, 0), row["ingest_time_max"])
            self._newest = max(self._newest, row["ingest_time_max"])

    def _recall(self, known: Mapping[str, Known]) -> None:
        """Take from the open incidents what a start can't see: who has been silent for longer than the tables tell."""
        for last in (one.last for one in known.values()):
            name = last.cluster, last.subject
            if last.code == JOB_SILENT:
                self._job = max(self._job, last.opened_at)
            elif last.code == SOURCE_SILENT and name not in self._sources:
                self._sources[name] = last.opened_at
                # Another was heard so long after it, or nothing had been told: so it is silent also if nobody speaks.
                self._newest = max(self._newest, last.opened_at + self._settings.sources)

    def _silent(self, now: int) -> Iterator[tuple[tuple[str, str, str], int]]:
        """(code, cluster, subject) of everything that is silent, and since when."""
        settings = self._settings
        job = self._job or self._begin
        if settings.job and now - job >= settings.job:
            yield (JOB_SILENT, "", _JOB), job
        for (cluster, source), heard in self._sources.items():
            if settings.sources and settings.sources <= self._newest - heard < settings.forget:
                yield (SOURCE_SILENT, cluster, source), heard


def _opened(code: str, cluster: str, subject: str, since: int, now: int) -> IncidentTransition:
    explanation, first_step = _ADVICE[code]
    return IncidentTransition(
        cluster=cluster, group="", time=now, known_at=now, seq=1, cause="",
        incident_id=stable_id(cluster, "", code, subject, since),
        code=code, sub_cause="", severity="critical", transition="OPENED", subject=subject, opened_at=since, topic=None,
        broker=None, queue_id=None, client_id=None, evidence=f'{{"silent_ms":{now - since}}}', explanation=explanation,
        first_step=first_step, parent=None,
    )  # fmt: skip


def _over(opened: IncidentTransition, now: int) -> IncidentTransition:
    return msgspec.structs.replace(
        opened,
        time=max(now, opened.time),
        known_at=max(now, opened.time),
        seq=opened.seq + 1,
        transition="RESOLVED",
        evidence=f'{{"silent_ms":{max(0, now - opened.opened_at)}}}',
    )
