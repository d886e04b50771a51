"""The demo: the job over a recording of a real cluster, and a report of what it found."""

import shutil
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from streaming.base.settings import Settings, load_policy, load_settings
from streaming.log.files import FilePublisher
from streaming.log.recording import replayed_rows

if TYPE_CHECKING:  # who reads the capture needs no Spark
    from streaming.pipeline.batches import Batch

CAPTURE = Path(str(resources.files("streaming.lab.demo").joinpath("capture.jsonl.gz")))
FAULT_LOG = Path(str(resources.files("streaming.lab.demo").joinpath("faults.jsonl")))


def demo_settings(settings: Settings) -> Settings:
    """Return the default settings, with ``demo`` under the user's runtime root, and the user's jars."""
    runtime = {"root": settings.runtime.root / "demo", "jars": settings.runtime.jars}
    return load_settings(
        runtime=runtime,
        storage={"tables": ""},
        source={"kind": "files", "path": ""},
        job={"trigger_seconds": 0, "master": "local"},
        spark=settings.spark,
    )


def play(settings: Settings, say: Callable[[str], None]) -> "list[Batch]":
    """Replay the capture into an empty root and run the job until all of it is in the tables.

    Args:
        settings: from `demo_settings`; the results of an earlier demo in that root are removed.
        say: called with each step of the progress.
    """
    from streaming.pipeline.job import run_available_now

    root = settings.runtime.root
    shutil.rmtree(root, ignore_errors=True)
    say("replaying the capture into a telemetry log")
    with FilePublisher(settings.log_path, settings.source.partitions) as log:
        for rows in replayed_rows(CAPTURE, settings.source.partitions):
            log.write(rows)
    say("running the job: the stateful operator and the archive")
    return run_available_now(settings, load_policy())
