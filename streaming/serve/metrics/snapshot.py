"""The values of a scrape, read from the tables in a few queries.

The last state of every queue is expensive, so it is read once and aggregated here. Quantities are those of the newest
observation by this machine's clock; stale ones are omitted, so that their series end.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, TypeVar

from prometheus_client import Metric

from streaming.base.errors import NotReadyError, UserError
from streaming.base.limits import METRIC_GROUPS
from streaming.base.statements import statements_of, with_parts
from streaming.base.times import DAY_MS, now_ms
from streaming.queries.groups import is_divided
from streaming.queries.health import HEALTH, Health
from streaming.queries.incidents import incidents
from streaming.queries.ownership import LOCK_AGE, LOCK_IS_STALE, LOCK_LIMITS
from streaming.queries.present import SilenceByCluster
from streaming.queries.quality import quality
from streaming.queries.results import Incident, QualityCheck, TelemetryCoverage
from streaming.tables import ReadModel
from streaming.tables.database import connected
from streaming.tables.reader import Row

Sample = tuple[Sequence[str], float | None]
"""The label values and the measured value; None is unknown and creates no series."""


def family(
    name: str,
    documentation: str,
    labels: Sequence[str],
    samples: Iterable[Sample],
    kind: Literal["gauge", "counter", "unknown"] = "gauge",
) -> Metric:
    """Create a family with exactly this name, which ends with its unit.

    ``kind`` is ``counter`` only where the name ends in ``_total``; one with another name is ``unknown``.
    """
    metric = Metric(name.removesuffix("_total") if kind == "counter" else name, documentation, kind)
    for values, measured in samples:
        if measured is not None:
            metric.add_sample(name, dict(zip(labels, map(str, values), strict=True)), measured)
    return metric


LOOK_BACK_MS = 6 * 3_600_000
"""The look-back of the first read; sources silent for longer are unknown."""
FORGET_MS = 24 * 3_600_000
"""A source silent for longer is considered removed."""

_SQL = statements_of(__name__)


class SourceInstance(NamedTuple):
    """A hook or a collector, in all its incarnations."""

    cluster: str
    source: str
    instance: str


class LastEvent(NamedTuple):
    """The times of the last event, in epoch milliseconds."""

    time: int
    """By the clock of the source."""
    ingest_time: int
    """By the clock of the transport."""


class Sources:
    """Tracks the sources; each call reads only the rows archived since the previous one."""

    def __init__(self) -> None:
        self._last_events: dict[SourceInstance, LastEvent] = {}
        self._lock = threading.Lock()

    def last_events(self, model: ReadModel) -> dict[SourceInstance, LastEvent]:
        """Return the last event of each source."""
        with self._lock:
            for row in model.rows(_SQL["last_events"], {"since": self._since(model)}):
                source = SourceInstance(row["cluster"], row["source"], row["instance"])
                before = self._last_events.get(source, LastEvent(0, 0))
                self._last_events[source] = LastEvent(
                    max(before.time, row["time"]), max(before.ingest_time, row["ingest_time"])
                )
            newest = self._newest()
            self._last_events = {
                s: last for s, last in self._last_events.items() if last.ingest_time > newest - FORGET_MS
            }
            return dict(self._last_events)

    def _since(self, model: ReadModel) -> int:
        """Return the time of the newest row read, inclusive: others may have the same timestamp."""
        if self._last_events:
            return self._newest()
        return (model.rows(_SQL["archived"])[0]["time"] or 0) - LOOK_BACK_MS

    def _newest(self) -> int:
        return max((last.ingest_time for last in self._last_events.values()), default=0)


T = TypeVar("T")

_QUEUES = with_parts(_SQL["queues"], lock_age=LOCK_AGE, lock_is_stale=LOCK_IS_STALE)

QUIET_CAUSE_DAYS = 7
"""A cause that occurred within this number of days has a series, with 0 if it has not occurred today: ``increase`` does
not see the first event of a counter without an earlier value."""


class GroupSample(NamedTuple):
    """The last state of a group."""

    cluster: str
    group: str
    time: int
    health: Health
    members: list[str]
    message_model: str
    consume_type: str
    coverage: TelemetryCoverage
    proxied_clients: list[str] | None = None

    @property
    def divided(self) -> bool:
        """Return whether each queue has one owner."""
        sharing = self.coverage.sharing
        return is_divided(message_model=self.message_model, consume_type=self.consume_type, sharing=sharing)


class Snapshot(NamedTuple):
    """The values of one scrape; None is a part that can't be read."""

    groups: list[GroupSample] | None
    topics: list[Row] | None
    unwell: list[Row] | None
    """Queues that are not OK; those beyond the limit are one row per group, without a name."""
    dead_letters: list[Row] | None
    incidents: list[Incident] | None
    """The open incidents."""
    rebalances: list[Row] | None
    rejected: list[Row] | None
    judged: list[QualityCheck] | None
    """The last result of each quality check."""
    sources: dict[SourceInstance, LastEvent] | None
    last_time: int
    """The latest time in the tables, in epoch milliseconds."""
    unread: frozenset[str]
    """Why parts can't be read, each reason once."""
    groups_left_out: int = 0
    """Groups beyond `limits.METRIC_GROUPS`, which are in none of the rows above."""


class _PartReader:
    """Reads the parts of a snapshot, each for itself."""

    def __init__(self) -> None:
        self.failures: dict[str, None] = {}

    def read(self, part: Callable[[], T]) -> T | None:
        """Return a part; None if it can't be read."""
        try:
            return part()
        except NotReadyError:
            raise
        except UserError as error:
            self.failures[str(error)] = None
            return None


def read_snapshot(model: ReadModel, sources: Sources, queue_series: int) -> Snapshot:
    """Read the values of a scrape.

    Raises:
        NotReadyError: there are no rows yet.
    """
    now, reader = now_ms(), _PartReader()
    groups = reader.read(lambda: _groups(model, now))
    last = reader.read(lambda: sources.last_events(model))
    seen = (last or {}).values()
    last_time = max((*(event.time for event in seen), *(group.time for group in groups or ())), default=0)
    ingested = max((event.ingest_time for event in seen), default=0)
    topics, unwell = reader.read(lambda: _queues(model, now, queue_series)) or (None, None)
    snapshot = Snapshot(
        groups=groups,
        topics=topics,
        unwell=unwell,
        dead_letters=reader.read(lambda: model.rows(_SQL["dead_letters"], {"now": now})),
        incidents=reader.read(lambda: incidents(model, only_open=True)),
        rebalances=reader.read(lambda: model.rows(_SQL["rebalances"], _days(last_time))) if last_time else None,
        rejected=reader.read(lambda: model.rows(_SQL["rejected"], _days(ingested))) if last is not None else None,
        judged=reader.read(lambda: quality(model)),
        sources=last,
        last_time=last_time,
        unread=frozenset(reader.failures),
    )
    return _limited(snapshot, groups) if groups is not None and len(groups) > METRIC_GROUPS else snapshot


def _queues(model: ReadModel, now: int, queue_series: int) -> tuple[list[Row], list[Row]]:
    """Return the rows of the topics, and those of the queues that are not OK."""
    with connected() as here:
        here.register("queues", model.sql(_QUEUES, LOCK_LIMITS | {"now": now}))
        topics = here.sql(_SQL["topics"]).to_arrow_table().to_pylist()
        return topics, here.sql(
            _SQL["unwell"], params={"limit": queue_series, "healths": list(HEALTH)}
        ).to_arrow_table().to_pylist()


def _limited(snapshot: Snapshot, groups: list[GroupSample]) -> Snapshot:
    """Return the values without the groups beyond the limit; anybody who may connect may invent groups."""
    by_need = sorted(groups, key=lambda group: (group.health == "OK", group.cluster, group.group))
    names = {(group.cluster, group.group) for group in by_need[:METRIC_GROUPS]}
    most_needed = [group for group in groups if (group.cluster, group.group) in names]

    def of_kept(rows: list[Row] | None) -> list[Row] | None:
        return None if rows is None else [row for row in rows if (row["cluster"], row["group"]) in names]

    return snapshot._replace(
        groups=most_needed,
        topics=of_kept(snapshot.topics),
        unwell=of_kept(snapshot.unwell),
        dead_letters=of_kept(snapshot.dead_letters),
        rebalances=of_kept(snapshot.rebalances),
        incidents=snapshot.incidents
        and [one for one in snapshot.incidents if not one.group or (one.cluster, one.group) in names],
        groups_left_out=len(groups) - len(most_needed),
    )


def _groups(model: ReadModel, now: int) -> list[GroupSample]:
    """Return the groups, each with its health as far as telemetry is fresh."""
    rows = model.rows(_SQL["groups"])
    silence = SilenceByCluster(model, now, ((row["cluster"], row["time"]) for row in rows))
    for row in rows:
        row["coverage"] = TelemetryCoverage.model_validate_json(row["coverage"])
        row["health"], _ = silence.of(row["cluster"], row["time"]).health(row["health"]) or (row["health"], "")
    return [GroupSample(**row) for row in rows]


def _days(now: int) -> dict[str, int]:
    """Return the bounds of the counters, which restart at midnight UTC.

    Retention removes rows. A counter of all rows would fall then, which Prometheus interprets as a restart and counts
    the rest again. A counter of the day's rows falls only at midnight, to the true value in every process.
    """
    midnight = now // DAY_MS * DAY_MS
    return {"midnight": midnight, "since": midnight - QUIET_CAUSE_DAYS * DAY_MS}
