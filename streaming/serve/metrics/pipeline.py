"""Metrics of rebalance-watch itself: age of the telemetry, batches of the job, sizes of tables and state."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from prometheus_client import Metric

from checkpoints.manifest import ARCHIVE, OPERATOR
from schemas.tables import TABLES
from streaming.base.errors import UserError
from streaming.base.place import Place
from streaming.queries.results import QualityCheck
from streaming.serve.metrics.snapshot import Snapshot, family
from streaming.tables.delta import any_delta_at, check_readable
from streaming.tables.files import files_of
from streaming.tables.unreadable import cause


def telemetry_families(snapshot: Snapshot) -> Iterator[Metric]:
    """Yield the last event of each source, rejected rows and results of the quality checks."""
    labels = ("cluster", "kind", "source")  # Prometheus itself has an instance
    sources, judged = sorted((snapshot.sources or {}).items()), snapshot.judged or ()
    checked = {one.suite: one.checked_at for one in _in_order(judged) if one.checked_at is not None}
    yield family(
        "rebalance_watch_telemetry_timestamp_seconds",
        "Time of the last event of a source by its own clock; time() minus this is its age.",
        labels,
        ((source, last.time / 1000) for source, last in sources),
    )
    yield family(
        "rebalance_watch_telemetry_ingest_timestamp_seconds",
        "Time at which the log received the last archived event of a source.",
        labels,
        ((source, last.ingest_time / 1000) for source, last in sources),
    )
    yield family(
        "rebalance_watch_rows_rejected_total",
        "Rejected rows of the log. A counter that restarts at midnight UTC.",
        ("reason",),
        (((row["reason"],), row["today"]) for row in snapshot.rejected or ()),
        kind="counter",
    )
    yield family(
        "rebalance_watch_quality_check_success",
        "Whether the archive's last batch (suite telemetry), or the tables, passed their last quality check: 1 or 0.",
        ("suite", "expectation", "column"),
        _success(judged).items(),
    )
    yield family(
        "rebalance_watch_quality_check_timestamp_seconds",
        "Time at which the tables were last checked by a suite; no series for batches of the archive.",
        ("suite",),
        (((suite,), time / 1000) for suite, time in checked.items()),
    )


def _in_order(judged: Iterable[QualityCheck]) -> list[QualityCheck]:
    return sorted(judged, key=lambda one: (one.suite, one.expectation, one.column or ""))


def _success(judged: Iterable[QualityCheck]) -> dict[tuple[str, str, str], bool]:
    """Return whether each check passed; of an expectation that a suite has twice, whether both did."""
    passed: dict[tuple[str, str, str], bool] = {}
    for result in _in_order(judged):
        check = (result.suite, result.expectation, result.column or "")
        passed[check] = result.success and passed.get(check, True)
    return passed


class Size(NamedTuple):
    """The size of a table at one version."""

    version: int
    rows: int
    bytes: int
    files: int


class Sizes:
    """The sizes of the tables, from their Delta logs."""

    def __init__(self, tables: Place) -> None:
        self._place = tables
        self._tables: dict[str, DeltaTable] = {}
        self._sizes: dict[str, Size] = {}
        self.unread: set[str] = set()
        """Why tables could not be read the last time."""

    def families(self) -> Iterator[Metric]:
        """Yield rows, bytes and files of each table that can be read; all of them exist."""
        self.unread.clear()
        sizes = {(name,): size for name in TABLES if (size := self._size(name)) is not None}
        for field, text in (("rows", "Rows"), ("bytes", "Bytes on disk"), ("files", "Files")):
            yield family(
                f"rebalance_watch_table_{field}",
                f"{text} of a Delta table at its latest version.",
                ("table",),
                ((labels, getattr(size, field)) for labels, size in sizes.items()),
            )

    def _size(self, name: str) -> Size | None:
        """Return the size of a table; None if its log can't be read, or has not what is deleted within its files."""
        try:
            return self._size_of(name)
        except UserError as error:
            self.unread.add(str(error))
        except (DeltaError, OSError) as error:
            self.unread.add(f"The Delta log of the table {name} can't be read: {cause(error)}.")
        return None

    def _size_of(self, name: str) -> Size:
        if name not in self._tables:
            self._tables[name] = any_delta_at(self._place / name)
        table = self._tables[name]
        table.update_incremental()
        size = self._sizes.get(name)
        if size is None or size.version != table.version():
            check_readable(table)
            files = files_of(name, table)
            rows, data = sum(file.rows for file in files), sum(file.size for file in files)
            size = self._sizes[name] = Size(table.version(), rows, data, len(files))
        return size


def job_families(checkpoints: Path) -> Iterator[Metric]:
    """Yield the last micro-batch of each query and the state size; no series if the job runs on another machine."""
    batches = {(query,): batch for query in (OPERATOR, ARCHIVE) if (batch := _last_batch(checkpoints / query))}
    yield family(
        "rebalance_watch_batch_number",
        "Number of the last finished micro-batch of a query of the job.",
        ("query",),
        ((labels, batch.number) for labels, batch in batches.items()),
    )
    yield family(
        "rebalance_watch_batch_timestamp_seconds",
        "Time at which a query of the job finished its last micro-batch.",
        ("query",),
        ((labels, batch.ended) for labels, batch in batches.items()),
    )
    yield family(
        "rebalance_watch_batch_seconds",
        "Duration of the last micro-batch, from its plan to its commit.",
        ("query",),
        ((labels, batch.ended - batch.began) for labels, batch in batches.items()),
    )
    state = checkpoints / OPERATOR / "state"
    yield family(
        "rebalance_watch_state_bytes",
        "Size of the operator's state on disk, including the versions kept for recovery.",
        (),
        [((), sum(_size_of(path) for path in state.rglob("*")))] if state.is_dir() else [],
    )


class _Batch(NamedTuple):
    number: int
    began: float
    ended: float


def _last_batch(query: Path) -> _Batch | None:
    """Read the last batch from Spark's log: ``offsets/N`` is the start of batch N, ``commits/N`` its end."""
    numbers = [int(path.name) for path in (query / "commits").glob("[0-9]*") if path.name.isdigit()]
    if not numbers:
        return None
    last = max(numbers)
    planned, done = (query / folder / str(last) for folder in ("offsets", "commits"))
    try:
        return _Batch(last, planned.stat().st_mtime, done.stat().st_mtime)
    except FileNotFoundError:  # removed in the meantime: there are newer batches
        return None


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0
