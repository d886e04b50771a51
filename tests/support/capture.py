"""The demo's capture as the log of a job that runs as a process, and what it must leave in the archive."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from streaming.base.settings import load_settings
from streaming.lab.demo.play import CAPTURE
from streaming.log.files import FilePublisher
from streaming.log.recording import replayed_rows


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


def check_archived(telemetry: Iterable[Mapping[str, object]], partitions: int) -> None:
    """Check that the archive has each row of the capture's log once."""
    places = [(row["partition"], row["offset"]) for row in telemetry]
    assert len(places) == len(set(places)) == sum(1 for rows in replayed_rows(CAPTURE, partitions) for _ in rows)
