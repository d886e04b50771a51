"""The properties of Spark: those that the job needs, and why, with those of the section [spark] over them.

Where a property may be secret, it must not be in a command line, which every user of the machine can list. So the
properties of [spark], and the secrets of Kafka for the executors, reach the JVM by a file that only its owner can read.
"""

import os
import re
import shlex
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import streaming
from streaming.base import jars
from streaming.base.settings import Settings, conf_file
from streaming.log.kafka_properties import java_value
from streaming.pipeline import environment, jvm_jar
from streaming.pipeline.hadoop import s3a_keys, s3a_properties, scratch_folder, uses_s3a
from streaming.pipeline.sources import java_options, kafka_environment

WORKER_DAEMON = "streaming.pipeline.worker_daemon"
"""The module of the process that Spark forks its Python workers from."""
_EXECUTOR_VARIABLE = "spark.executorEnv."
_ENVIRONMENT = "environment"
"""The folder into which an executor unpacks `job.environment`, below its working directory."""
_JOINED = {
    "spark.driver.extraJavaOptions": " ",
    "spark.executor.extraJavaOptions": " ",
    "spark.archives": ",",
    "spark.plugins": ",",
}
"""Properties that are lists, with the separator: what [spark] gives is added to what the job needs."""
_WITHOUT_OPTIMIZER = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
"""No optimizing compiler in a JVM that shares its cores with the Python workers, which do most of the work: with two
cores it still took a third of the JVM's time after ten minutes, while events waited. Without it Java reserves too
little for code."""
_SERIAL = ("-XX:+UseSerialGC", "-Xms128m", "-XX:MinHeapFreeRatio=30", "-XX:MaxHeapFreeRatio=60")
"""A collector whose heap grows with what lives in it. Java's own choice, G1, takes nearly all that it may have: the JVM
of a job that catches up with 1,000 groups had 1.8 GB instead of 1.0, and was no faster."""
_SERIAL_CORES_MAX = 4
"""With more cores there is more to collect than one thread should, for which all others wait."""
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
_JAVA_PROPERTIES = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_JAVA_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
"""Properties and environment variables by which Java gets options, too: with two collectors it does not start."""
_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    jvm_jar.FILE_SYSTEM: jvm_jar.LOCAL_FILES,
}


class SparkProperties(NamedTuple):
    """The properties of a session."""

    visible: dict[str, str]
    """Properties that hold no secret, without those of [spark]."""
    hidden: dict[str, str]
    """Properties that may hold a secret: those of [spark], and the executors' environment variables."""


def spark_properties(settings: Settings, logs: Path) -> SparkProperties:
    """Return the properties of the job's session, which writes its log below ``logs``.

    Raises:
        UserError: the jars can't be fetched, `job.environment` was not packed by this release, or the settings of Kafka
            do not fit together.
    """
    needed = _needed(settings, logs)
    given = {name: java_value(value) for name, value in settings.spark.items()}
    for name in given.keys() & needed.keys() & _JOINED.keys():
        given[name] = f"{needed[name]}{_JOINED[name]}{given[name]}"
    shown = {name: value for name, value in needed.items() if name not in given}
    keys = s3a_keys(settings) if uses_s3a(settings) else {}
    return SparkProperties(shown, _executor_secrets(settings) | keys | given)


def worker_python(settings: Settings) -> str:
    """Return the Python of the workers: that of this process, unless the executors have an environment of their own."""
    if "spark.pyspark.python" in settings.spark:
        return str(settings.spark["spark.pyspark.python"])
    if settings.job.environment:
        return f"python{sys.version_info.major}.{sys.version_info.minor}"
    return _without_zip(settings) if settings.job.is_local else sys.executable


def _without_zip(settings: Settings) -> str:
    """Write a script that starts this process's Python without Spark's copy of pyspark in its path; return its path.

    Spark puts that copy, a zip file without compiled modules, first. To compile them takes a worker 1.3 s of processor
    time; on a busy machine a start then takes more than the ten seconds after which Spark gives a worker up.
    """
    script = _scratch(settings) / "python"
    script.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="${{PYTHONPATH#*/pyspark.zip:}}"\nexec {shlex.quote(sys.executable)} "$@"\n'
    )
    script.chmod(0o700)
    return str(script) if os.access(script, os.X_OK) else sys.executable  # it is not where no program may be executed


def worker_environment(settings: Settings) -> dict[str, str]:
    """Return the variables with which the driver starts Python workers, on executors and on its own machine.

    Even with executors elsewhere one runs here: it checks the operator's state before the first batch. By the name of
    the executors' Python it finds this program's Python first, and by any path our packages.
    """
    variables = {"PYSPARK_PYTHON": worker_python(settings)}
    if settings.job.environment:
        path = os.environ.get("PATH", os.defpath).split(os.pathsep)
        first = dict.fromkeys([str(Path(sys.executable).parent), *path])
        packages = (str(Path(streaming.__file__).parents[1]), sysconfig.get_path("purelib"))
        variables |= {"PATH": os.pathsep.join(first), "PYTHONPATH": os.pathsep.join(packages)}
    return variables


def jar_of_ours(settings: Settings) -> Path:
    """Return the path of the jar that `jvm_jar.write_jar` has to write before the session starts."""
    return _scratch(settings) / "rebalance-watch.jar"


def _scratch(settings: Settings) -> Path:
    return scratch_folder(settings.runtime.root / "spark")


def as_file(properties: Mapping[str, str]) -> str:
    """Return properties as the text of a Java properties file."""
    return "".join(f"{_escaped(name, ' :=#!')}={_escaped(value, ' ')}\n" for name, value in properties.items())


def _needed(settings: Settings, logs: Path) -> dict[str, str]:
    jar_files = jars.ensure("spark", settings.runtime.jars)
    if uses_s3a(settings):
        jar_files += jars.ensure("s3a", settings.runtime.jars)
    jar_files += [jar_of_ours(settings)]
    log_config = conf_file("log4j2.properties").as_uri()
    java = java_options(settings.kafka)
    return {
        "spark.jars": ",".join(jar.as_uri() for jar in jar_files),
        **({"spark.plugins": jvm_jar.PLUGIN} if jvm_jar.NEEDED else {}),
        "spark.driver.memory": settings.job.driver_memory,
        "spark.driver.extraJavaOptions": " ".join(
            (
                *(_WITHOUT_OPTIMIZER if settings.job.is_local else ()),
                *(_SERIAL if _is_small(settings) and not _has_collector(settings) else ()),
                f"-Dlog4j2.configurationFile={log_config}",
                _quoted(f"-Drebalance.watch.log={logs / 'spark.log'}"),
                *java,
            )
        ),
        "spark.local.dir": str(_scratch(settings)),
        "spark.sql.warehouse.dir": str(settings.runtime.root / "spark" / "warehouse"),
        # Hadoop gives each file its rights by a umask of its own: that of this process, see `close_to_others`.
        "spark.hadoop.fs.permissions.umask-mode": "027",
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
        # By default 64 MB, of which a Python worker has several copies.
        "spark.sql.execution.arrow.maxBytesPerBatch": "4m",
        # transformWithState requires RocksDB; a commit uploads the changes, the maintenance thread complete files.
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.minBatchesToRetain": "20",
        # By default Hadoop's FileContext, which starts `readlink` eight times for each local file of a checkpoint: some
        # 45 processes a batch.
        **({} if settings.storage.checkpoints else {"spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER}),
        # Spark deletes a shuffle's files once the JVM has collected the object that stands for them, and asks it to
        # collect at this interval; by default every half hour. By then a busy job had 2,100 such files (170 MB), and a
        # heap that had grown to its limit. Python frees its part first (`pipeline.job`).
        "spark.cleaner.periodicGC.interval": "5min",
        # By default 100, of some kB each; all of it is read after each batch.
        "spark.sql.streaming.numRecentProgressUpdates": "20",
        # By default a stop waits without end for a batch that cannot be interrupted, as in a write that hangs. The job
        # gives both queries 5 s, then each this time: it ends before `up` or a service manager kills it.
        "spark.sql.streaming.stopTimeout": "2s",
        # The archive's rows come to the driver if the tables are in an object store; a batch limits them.
        **({"spark.driver.maxResultSize": "0"} if settings.storage.tables else {}),
        "spark.python.daemon.module": WORKER_DAEMON,
        # Collects a Python stack trace for every column expression.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # It differs between the operators of the two queries, and workers with another environment are not shared.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
        **(s3a_properties(settings) if uses_s3a(settings) else {}),
        **(_LOCAL if settings.job.is_local else _of_executors(settings, java)),
    }


def _is_small(settings: Settings) -> bool:
    return settings.job.is_local and settings.job.cores <= _SERIAL_CORES_MAX


def _has_collector(settings: Settings) -> bool:
    """Return whether the user has chosen Java's garbage collector."""
    given = (*map(settings.spark.get, _JAVA_PROPERTIES), *map(os.environ.get, _JAVA_VARIABLES))
    return any(_COLLECTOR.search(str(options)) for options in given)


def _quoted(option: str) -> str:
    """Return an option of Java quoted as one word."""
    escaped = _escaped(option, '"')
    return f'"{escaped}"' if {" ", "'", '"'} & set(option) else option


def _of_executors(settings: Settings, java: list[str]) -> dict[str, str]:
    """Return what executors in other processes need in addition."""
    properties = {"spark.cores.max": str(settings.job.cores)}
    if java:
        properties["spark.executor.extraJavaOptions"] = " ".join(java)
    if settings.job.environment:
        archive = Path(settings.job.environment).expanduser().resolve()
        environment.check(archive)
        properties["spark.archives"] = f"{archive}#{_ENVIRONMENT}"
        properties[f"{_EXECUTOR_VARIABLE}PYTHONPATH"] = _ENVIRONMENT
    return properties


def _executor_secrets(settings: Settings) -> dict[str, str]:
    """Return the variables that hold Kafka's secrets; not on Kubernetes, where a pod's spec would show them."""
    if settings.job.is_local or settings.job.master.startswith("k8s:") or settings.source.kind != "kafka":
        return {}
    return {f"{_EXECUTOR_VARIABLE}{name}": value for name, value in kafka_environment(settings.kafka).items()}


def _escaped(text: str, special: str) -> str:
    escapes = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"} | {one: f"\\{one}" for one in special}
    return "".join(escapes.get(one, one) for one in text)
