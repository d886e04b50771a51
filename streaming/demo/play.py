"""Runs the job over the bundled capture, in a runtime root of its own."""

import shutil
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from streaming.job import Batch, run_available_now
from streaming.log.files import FilePublisher
from streaming.log.recording import replayed_rows
from streaming.settings import Settings, load_policy, load_settings

CAPTURE = Path(str(resources.files("streaming.demo").joinpath("capture.jsonl.gz")))
FAULT_LOG = Path(str(resources.files("streaming.demo").joinpath("faults.jsonl")))


def demo_settings(settings: Settings) -> Settings:
    """The defaults, in ``demo`` under the user's runtime root, and with the user's jars."""
    runtime = {"root": settings.runtime.root / "demo", "jars": settings.runtime.jars}
    return load_settings(runtime=runtime, source={"kind": "files", "path": ""}, job={"trigger_seconds": 0})


def play(settings: Settings, say: Callable[[str], None]) -> list[Batch]:
    """Replay the capture into an empty root and run the job until all of it is in the tables.

    Args:
        settings: of `demo_settings`; what an earlier demo left in that root is removed.
        say: told what is under way.
    """
    root = settings.runtime.root
    shutil.rmtree(root, ignore_errors=True)
    say("replaying the capture into a telemetry log")
    with FilePublisher(settings.log_path, settings.source.partitions) as log:
        for rows in replayed_rows(CAPTURE, settings.source.partitions):
            log.write(rows)
    say("running the job: the stateful operator and the archive")
    return run_available_now(settings, load_policy())
