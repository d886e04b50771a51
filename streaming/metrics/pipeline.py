"""rebalance-watch's own metrics: how old the telemetry is, what the job last did, how large it all is."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from deltalake import DeltaTable
from prometheus_client import Metric

from checkpoints.generation import ARCHIVE, OPERATOR
from schemas.tables import TABLES
from streaming.metrics.facts import Facts
from streaming.metrics.family import family
from streaming.read_model.files import files_of


def telemetry_families(facts: Facts) -> Iterator[Metric]:
    """When sources were heard, what was rejected, what the quality gate said."""
    labels = ("cluster", "kind", "source")  # Prometheus itself has an instance
    yield family(
        "rebalance_watch_telemetry_timestamp_seconds",
        "The last event of a source, by its own clock: time() less this is its age.",
        labels,
        ((source, heard.time / 1000) for source, heard in sorted(facts.sources.items())),
    )
    yield family(
        "rebalance_watch_telemetry_ingest_timestamp_seconds",
        "When the log took in the last archived event of a source.",
        labels,
        ((source, heard.ingest_time / 1000) for source, heard in sorted(facts.sources.items())),
    )
    yield family(
        "rebalance_watch_rows_rejected_total",
        "Rows of the log that were refused. A counter that begins anew at midnight UTC.",
        ("reason",),
        (((row["reason"],), row["today"]) for row in facts.rejected),
        kind="counter",
    )
    yield family(
        "rebalance_watch_quality_check_success",
        "Whether the archive's last batch passed an expectation: 1 or 0.",
        ("suite", "expectation", "column"),
        (((row["suite"], row["expectation"], row["column"]), row["success"]) for row in facts.judged),
    )


class Size(NamedTuple):
    """What a table holds at one version."""

    version: int
    rows: int
    bytes: int
    files: int


class Sizes:
    """The tables' sizes, from their Delta logs."""

    def __init__(self, tables: Path) -> None:
        self._tables = {name: DeltaTable(tables / name) for name in TABLES}
        self._known: dict[str, Size] = {}

    def families(self) -> Iterator[Metric]:
        """Rows, bytes and files of each table."""
        sizes = {(name,): self._size(name) for name in self._tables}
        for field, text in (("rows", "Rows"), ("bytes", "Bytes on disk"), ("files", "Files")):
            yield family(
                f"rebalance_watch_table_{field}",
                f"{text} of a Delta table at its latest version.",
                ("table",),
                ((labels, getattr(size, field)) for labels, size in sizes.items()),
            )

    def _size(self, name: str) -> Size:
        table = self._tables[name]
        table.update_incremental()
        known = self._known.get(name)
        if known is None or known.version != table.version():
            files = files_of(name, table)
            rows, size = sum(file.rows for file in files), sum(file.size for file in files)
            known = self._known[name] = Size(table.version(), rows, size, len(files))
        return known


def job_families(checkpoints: Path) -> Iterator[Metric]:
    """The last finished micro-batch of each query, and the state on disk; no series where the job runs elsewhere."""
    batches = {(query,): found for query in (OPERATOR, ARCHIVE) if (found := _last_batch(checkpoints / query))}
    yield family(
        "rebalance_watch_batch_number",
        "The last micro-batch that a query of the job finished.",
        ("query",),
        ((labels, found.number) for labels, found in batches.items()),
    )
    yield family(
        "rebalance_watch_batch_timestamp_seconds",
        "When a query of the job finished its last micro-batch.",
        ("query",),
        ((labels, found.ended) for labels, found in batches.items()),
    )
    yield family(
        "rebalance_watch_batch_seconds",
        "How long the last micro-batch took, from its plan to its commit.",
        ("query",),
        ((labels, found.ended - found.began) for labels, found in batches.items()),
    )
    state = checkpoints / OPERATOR / "state"
    yield family(
        "rebalance_watch_state_bytes",
        "The operator's state on disk, with the versions that are kept to go back to.",
        (),
        [((), sum(_size_of(path) for path in state.rglob("*")))] if state.is_dir() else [],
    )


class _Batch(NamedTuple):
    number: int
    began: float
    ended: float


def _last_batch(query: Path) -> _Batch | None:
    """From Spark's own log: it writes ``offsets/N`` when batch N is planned, and ``commits/N`` when it is done."""
    numbers = [int(path.name) for path in (query / "commits").glob("[0-9]*") if path.name.isdigit()]
    if not numbers:
        return None
    last = max(numbers)
    planned, done = (query / folder / str(last) for folder in ("offsets", "commits"))
    try:
        return _Batch(last, planned.stat().st_mtime, done.stat().st_mtime)
    except FileNotFoundError:  # taken away meanwhile: far newer ones are there
        return None


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0
