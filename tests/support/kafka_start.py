"""Kafka for short runs, as RocketMQ (`tests.support.rocketmq_start`): it starts with less processor time.

    python -m tests.support.kafka_start

makes the archive of its classes. Each program has an archive of its own, because the class path must begin with the
jars that are archived; KAFKA_OPTS, which Kafka's own scripts read too, names this one.
"""

import os
import sys
import tempfile
from pathlib import Path

from tests.support.spark_start import JAVA_OPTIONS, QUIET, keep

ARCHIVE = Path(sys.prefix) / "kafka.jsa"
_OPTIONS = "KAFKA_OPTS"
_END_SECONDS_MAX = 60


def use_archive() -> None:
    """Let every Kafka that this process or a child of it starts use the archive, if it is there."""
    if ARCHIVE.exists():
        os.environ.setdefault(_OPTIONS, f'-XX:SharedArchiveFile="{ARCHIVE}" {QUIET}')


def make_archive() -> None:
    """Run a Kafka, and archive the classes that it has loaded."""
    from streaming.lab import processes  # noqa: PLC0415  what imports this module for the options needs no broker
    from tests.live.commands import Kafka  # noqa: PLC0415  as above

    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as folder:
        made = Path(folder) / ARCHIVE.name
        os.environ["JDK_JAVA_OPTIONS"] = JAVA_OPTIONS
        os.environ.pop(_OPTIONS, None)
        kafka = Kafka(Path(folder))  # formats its storage, by a JVM of its own, which is not archived
        kafka.add_options(f"-XX:ArchiveClassesAtExit={made}", QUIET)
        with kafka.start():
            processes.end(kafka.process, grace_seconds=_END_SECONDS_MAX)
        keep(made, ARCHIVE)


if __name__ == "__main__":
    make_archive()
