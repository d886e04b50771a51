"""Spark for short runs: it starts and plans with less processor time than in production, and gives the same rows.

A JVM of a test ends before optimised code pays: most of its processor time went into loading classes and compiling
queries that run once. At load 15 to 20 `tests.tables.test_read_model` took 105 s of it, and takes 58 s; a job of two
batches 62 and 44 s.

    python -m tests.support.spark_start

makes the archive of the loaded classes (class data sharing), once for a virtual environment; ``make test`` does so.
Java ignores an archive of other jars or of another Java, and tests without an archive only take longer.
"""

import os
import shlex
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "spark.jsa"
"""Beside the jars whose classes it has."""
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""For every ``java`` (JDK_JAVA_OPTIONS): no optimising compiler, no threads for garbage collection. Without that
compiler Java reserves 48 MB for code instead of 240: the JVM that Spark's tests share filled them, and failed then."""
QUIET = "-Xlog:disable"
"""Else a JVM prints to stdout why it ignores an archive."""
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def submit_arguments(driver: str, executor: str = QUIET, *, compiled: bool = False) -> str:
    """Return the value of PYSPARK_SUBMIT_ARGS: interpreted or compiled queries, and these options of Spark's JVMs."""
    java = {"spark.driver.defaultJavaOptions": driver, "spark.executor.defaultJavaOptions": executor}
    conf = java | ({} if compiled else _INTERPRETED)
    return shlex.join([*(part for item in conf.items() for part in ("--conf", "=".join(item))), "pyspark-shell"])


def archive_options() -> str:
    """Return the options of a JVM of Spark: it uses the archive if that is there."""
    return f'-XX:SharedArchiveFile="{ARCHIVE}" {QUIET}' if ARCHIVE.exists() else QUIET


def with_archive(*, compiled: bool = False) -> str:
    """Return the value of PYSPARK_SUBMIT_ARGS for tests."""
    return submit_arguments(archive_options(), archive_options(), compiled=compiled)


def make_archive() -> None:
    """Run a small job, and archive the classes that its JVM has loaded."""
    from pyspark import SparkContext  # noqa: PLC0415  Spark takes seconds to import

    from streaming.base.settings import load_policy, load_settings  # noqa: PLC0415  only where the archive is made
    from streaming.log.files import FilePublisher  # noqa: PLC0415  only where the archive is made
    from streaming.log.rows import publish  # noqa: PLC0415  only where the archive is made
    from streaming.pipeline.job import run_available_now  # noqa: PLC0415  only where the archive is made
    from tests.support.telemetry import telemetry  # noqa: PLC0415  only where the archive is made

    jars = load_settings().runtime.jars
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as folder:
        made = Path(folder) / ARCHIVE.name
        os.environ["JDK_JAVA_OPTIONS"] = JAVA_OPTIONS
        os.environ["PYSPARK_SUBMIT_ARGS"] = submit_arguments(f'-XX:ArchiveClassesAtExit="{made}" {QUIET}')
        settings = load_settings(
            runtime={"root": Path(folder), "jars": jars}, source={"kind": "files", "partitions": 2}
        )
        with FilePublisher(settings.log_path, 2) as publisher:
            publish(publisher, telemetry(4, 20))
        run_available_now(settings, load_policy())
        jvm = SparkContext._gateway.proc
        jvm.stdin.close()  # it ends when this pipe does, and writes the archive at its end
        jvm.wait()
        keep(made, ARCHIVE)


def keep(made: Path, archive: Path) -> None:
    """Move an archive that was made to its place, or print that this Java made none."""
    if made.exists():
        made.rename(archive)
    else:
        print("This Java made no archive; the tests only take longer.", file=sys.stderr)


if __name__ == "__main__":
    make_archive()
