"""The demo's capture as the log of a job that runs as a process, and what it must leave in the archive."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from rebalance_model.observe.policy import Policy
from schemas.tables import DERIVED
from streaming.base.settings import load_settings
from streaming.lab.demo import CAPTURE
from streaming.log.files import FilePublisher
from streaming.log.recording import replayed_rows
from tests.support.plain import as_json, derived_rows
from tests.support.tables import read_rows


def write_capture(log: Path, partitions: int, *, file_bytes: int = 1_000_000) -> None:
    """Write the capture as a file log, into files of this size."""
    with FilePublisher(log, partitions, file_bytes_max=file_bytes, roll_seconds=1e9) as publisher:
        for rows in replayed_rows(CAPTURE, partitions):
            publisher.write(rows)


def job_settings(root: Path, partitions: int) -> dict[str, object]:
    """Return the settings, for `Command`, of a job over a file log that takes one batch after the other."""
    return {
        "RUNTIME__ROOT": root,
        "RUNTIME__JARS": load_settings().runtime.jars,
        "SOURCE__KIND": "files",
        "SOURCE__PARTITIONS": partitions,
        "SOURCE__FILES_PER_BATCH": 2,
        "JOB__TRIGGER_SECONDS": 0,
        "JOB__ARCHIVE_TRIGGER_SECONDS": 0,
    }


def check_rows(root: Path, partitions: int) -> dict[str, int]:
    """Check that the tables of a job over the capture have each row once, the derived ones as the core in a loop.

    Return how many rows each has; `archived` are accepted and rejected ones.
    """
    tables = {table: read_rows(root / "tables", table) for table in DERIVED}
    expected = derived_rows(root / "log", partitions, Policy())
    assert {table: sorted(map(as_json, rows)) for table, rows in tables.items()} == expected
    archived = [row for table in ("telemetry", "telemetry_rejected") for row in read_rows(root / "tables", table)]
    check_archived(archived, partitions)
    return {table: len(rows) for table, rows in tables.items()} | {"archived": len(archived)}


def check_archived(telemetry: Iterable[Mapping[str, object]], partitions: int) -> None:
    """Check that the archive has each row of the capture's log once."""
    places = [(row["partition"], row["offset"]) for row in telemetry]
    assert len(places) == len(set(places)) == sum(1 for rows in replayed_rows(CAPTURE, partitions) for _ in rows)
