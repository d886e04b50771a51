"""The Spark session: every setting that the job needs, and why.

Spark runs only on this machine (``local[cores]``), listens only on the loopback interface and writes to a log file
instead of the terminal. Its jars are files that `streaming.base.jars` has checked: a start resolves nothing.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JNetworkError
from pyspark import accumulators
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from streaming.base import jars
from streaming.base.errors import UserError
from streaming.base.java import java_home
from streaming.base.settings import Settings, conf_file
from streaming.pipeline.kafka_options import java_options, kafka_environment

OPERATOR_POOL = "operator"
ARCHIVE_POOL = "archive"


def spark_session(settings: Settings, app_name: str) -> SparkSession:
    """Start Spark, or return the session that this process already has.

    Raises:
        UserError: no Java, no jars, or Spark did not start.
    """
    logs = settings.runtime.root / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else the workers start whatever `python3` is first on PATH
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    if settings.source.kind == "kafka":
        os.environ.update(kafka_environment(settings.kafka))
    builder = SparkSession.builder.master(f"local[{settings.job.cores}]").appName(app_name)
    for name, value in _options(settings, logs).items():
        builder = builder.config(name, value)
    try:
        with _stderr_to(logs / "jvm.log"), _ignored(signal.SIGTERM):
            session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise UserError(f"Spark did not start: see {logs}, then run `rebalance-watch doctor`.") from error
    _quiet_at_the_end()
    return session


@contextmanager
def alive(logs: Path) -> Iterator[None]:
    """Turn the unexpected end of Spark's JVM into a `UserError`.

    Raises:
        UserError: the JVM no longer answers.
    """
    try:
        yield
    except (Py4JNetworkError, ConnectionError) as error:
        raise UserError(
            f"Spark has ended: its JVM was killed or ran out of memory (job.driver_memory); {logs} has details. A "
            "restart resumes after the last finished batch."
        ) from error


def in_pool(spark: SparkSession, pool: str) -> None:
    """Put the queries that this thread starts next into a pool of the fair scheduler."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)


def _options(settings: Settings, logs: Path) -> dict[str, str]:
    jar_files = jars.ensure("spark", settings.runtime.jars)
    log_config = conf_file("log4j2.properties").as_uri()
    return {
        "spark.jars": ",".join(str(jar) for jar in jar_files),
        "spark.driver.memory": settings.job.driver_memory,
        "spark.driver.extraJavaOptions": " ".join(
            (
                f"-Dlog4j2.configurationFile={log_config}",
                f"-Drebalance.watch.log={logs / 'spark.log'}",
                *java_options(settings.kafka),
            )
        ),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(settings.runtime.root / "spark"),
        "spark.sql.warehouse.dir": str(settings.runtime.root / "spark" / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.sql.session.timeZone": "UTC",
        # Not Spark's INT96: that has no statistics, by which readers skip row groups.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # By default every commit to a small table runs a job of 50 tasks, which doubles the time of a batch.
        "spark.databricks.delta.snapshotPartitions": "1",
        # The number of RocksDB stores; frozen by the first batch of a checkpoint.
        "spark.sql.shuffle.partitions": str(settings.job.state_partitions),
        # Stateful streaming does not support it, and the other plans here are too small to benefit.
        "spark.sql.adaptive.enabled": "false",
        # transformWithState requires RocksDB; a commit uploads the changes, the maintenance thread complete files.
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.minBatchesToRetain": "20",
        # Collects a Python stack trace for every column expression.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }


@contextmanager
def _ignored(number: signal.Signals) -> Iterator[None]:
    """Let a child process ignore a signal that a service manager sends to all processes, so that it can end its batch.

    pyspark does the same for SIGINT. The JVM ends with this process, however that ends, because it reads its pipe.
    """
    if threading.current_thread() is not threading.main_thread():  # a handler can be set only there
        yield
        return
    former = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, former)


def _quiet_at_the_end() -> None:
    """Suppress the traces of pyspark's servers and py4j's log when the JVM ends unexpectedly."""
    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # there is no other way
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(lambda record: "py4j" not in record.pathname)  # it logs to the root, too


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Redirect the standard error of the JVM that is about to start, and of its Python workers, to the log."""
    sys.stderr.flush()
    terminal = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
