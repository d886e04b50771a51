"""The Spark session: every setting that the job rests on, and why.

Spark runs inside this process's machine (``local[cores]``), listens on the loopback alone and talks to a log file
instead of the terminal. Its jars are files that `streaming.jars` has checked: no start resolves anything.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from streaming import jars
from streaming.errors import UserError
from streaming.java import java_home
from streaming.settings import Settings, conf_file

OPERATOR_POOL = "operator"
ARCHIVE_POOL = "archive"


def spark_session(settings: Settings, app_name: str) -> SparkSession:
    """Start Spark, or take the session that this process already has.

    Raises:
        UserError: no Java, no jars, or Spark did not start.
    """
    logs = settings.runtime.root / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else the workers start whatever `python3` is first on PATH
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(f"local[{settings.job.cores}]").appName(app_name)
    for name, value in _options(settings, logs).items():
        builder = builder.config(name, value)
    try:
        with _stderr_to(logs / "jvm.log"):
            return builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise UserError(f"Spark did not start: see {logs}, then run `rebalance-watch doctor`.") from error


def in_pool(spark: SparkSession, pool: str) -> None:
    """Let the queries that this thread starts next share the cores fairly with those of other pools."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)


def _options(settings: Settings, logs: Path) -> dict[str, str]:
    jar_files = jars.ensure("spark", settings.runtime.jars)
    log_config = conf_file("log4j2.properties").as_uri()
    return {
        "spark.jars": ",".join(str(jar) for jar in jar_files),
        "spark.driver.memory": settings.job.driver_memory,
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={log_config} -Drebalance.watch.log={logs / 'spark.log'}"
        ),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(settings.runtime.root / "spark"),
        "spark.sql.warehouse.dir": str(settings.runtime.root / "spark" / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Without it every commit to a small table runs a job of 50 tasks: twice the time of a batch.
        "spark.databricks.delta.snapshotPartitions": "1",
        # The number of RocksDB stores; frozen by the first batch of a checkpoint.
        "spark.sql.shuffle.partitions": str(settings.job.state_partitions),
        # Streaming state rules it out, and the other plans here are too small to gain from it.
        "spark.sql.adaptive.enabled": "false",
        # transformWithState runs on RocksDB alone; a commit uploads the changes, the maintenance thread whole files.
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.minBatchesToRetain": "20",
        # Collects a Python stack trace for every column expression.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Give the JVM that starts now, and its Python workers, the log as their standard error."""
    sys.stderr.flush()
    terminal = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
