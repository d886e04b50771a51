"""RocketMQ for short runs: its servers start with less processor time than in production.

    python -m tests.support.rocketmq_start

makes the archive of the classes of a broker (class data sharing), once for a virtual environment; ``make test`` does
so. A broker's start took 5.4 s of processor time, and takes 2.9 s. As for Spark (`tests.support.spark_start`), Java
ignores an archive of other jars or of another Java, and tests without an archive only take longer. The class path must
begin with the jars that are archived.
"""

import os
import sys
import tempfile
from pathlib import Path

from tests.support.spark_start import JAVA_OPTIONS, QUIET, keep

ARCHIVE = Path(sys.prefix) / "rocketmq.jsa"
_END_SECONDS_MAX = 60


def java_options() -> str:
    """Return the options of every ``java`` (JDK_JAVA_OPTIONS), with the archive if it is there."""
    return f'{JAVA_OPTIONS} -XX:SharedArchiveFile="{ARCHIVE}" {QUIET}' if ARCHIVE.exists() else JAVA_OPTIONS


def make_archive() -> None:
    """Run a broker, and archive the classes that it has loaded."""
    from streaming.lab import processes  # noqa: PLC0415  what imports this module for the options needs no broker
    from tests.support import hooked  # noqa: PLC0415  as above

    hooked.shared_hook_jar()  # later, several tests at once would build it
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as folder:
        made = Path(folder) / ARCHIVE.name
        os.environ["JDK_JAVA_OPTIONS"] = f'{JAVA_OPTIONS} -XX:ArchiveClassesAtExit="{made}" {QUIET}'
        with hooked.broker(Path(folder), spool=None) as broker:
            processes.end(broker.process, grace_seconds=_END_SECONDS_MAX)
        keep(made, ARCHIVE)


if __name__ == "__main__":
    make_archive()
