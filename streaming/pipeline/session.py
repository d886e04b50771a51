"""The Spark session, whose driver is this process; `streaming.pipeline.spark_properties` has its properties.

By default Spark runs only on this machine (``local[cores]``) and listens only on the loopback interface. It writes to a
log file instead of the terminal. Its jars are files that `streaming.base.jars` has checked: a start resolves nothing,
and executors elsewhere get them from the driver.
"""

import logging
import os
import shlex
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark import SparkConf, SparkContext, accumulators, java_gateway
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from streaming.base.errors import UnavailableError, UserError
from streaming.base.files import write_private
from streaming.base.java import java_home
from streaming.base.settings import Settings
from streaming.pipeline import jvm_jar
from streaming.pipeline.sources import kafka_environment
from streaming.pipeline.spark_properties import as_file, jar_of_ours, spark_properties, worker_environment

OPERATOR_POOL = "operator"
ARCHIVE_POOL = "archive"
_STANDALONE = "spark://"
_YARN_CONFIGURATION = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_CONNECT_SECONDS_MAX = 3.0
_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


def spark_session(settings: Settings, app_name: str) -> SparkSession:
    """Start Spark, or return the session that this process already has.

    Raises:
        UserError: no Java, no jars, no master, or Spark did not start or was killed meanwhile.
    """
    logs = settings.runtime.root / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.update(worker_environment(settings))
    if settings.job.is_local:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    if settings.source.kind == "kafka":
        os.environ.update(kafka_environment(settings.kafka))
    master = f"local[{settings.job.cores}]" if settings.job.is_local else settings.job.master
    check_master(master)
    properties = spark_properties(settings, logs)
    visible = {"spark.master": master, "spark.app.name": app_name, **properties.visible}
    try:
        with (
            alive(logs),
            _submitted(properties.hidden, settings.runtime.root / "spark"),
            _stderr_to(logs / "jvm.log"),
            _ends_with_this_process(),
            _own_handler(signal.SIGINT),
        ):
            session = _started(visible, jar_of_ours(settings))
    except PySparkRuntimeError as error:
        raise UserError(f"Spark did not start: see {logs}, then run `rebalance-watch doctor`.") from error
    except Py4JJavaError as error:
        cause = str(error.java_exception).splitlines()[0]
        raise UserError(f"Spark did not start at {master}: {cause} (details are in {logs}).") from error
    _quiet_at_the_end()
    return session


def _started(properties: dict[str, str], jar: Path) -> SparkSession:
    """Start the JVM, then the session; in between the JVM's libraries make the jar of our classes."""
    if SparkContext._active_spark_context is None:  # noqa: SLF001  nothing public says so
        first = {name: value for name, value in properties.items() if name != jvm_jar.FILE_SYSTEM}  # made below
        conf = SparkConf(loadDefaults=False).setAll(list(first.items()))
        SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001  nothing public starts the JVM alone
        gateway = SparkContext._gateway  # noqa: SLF001  nothing public reaches the JVM
        of_state_server = jvm_jar.entries(gateway) if jvm_jar.NEEDED else {}
        jvm_jar.write_jar(gateway, jar, jvm_jar.local_files(gateway) | of_state_server)
    return SparkSession.builder.config(map=dict(properties)).getOrCreate()


def check_master(master: str) -> None:
    """Check that a standalone master, or one of several, accepts connections: Spark itself would try for a minute.

    Of YARN only the configuration is looked for, of Kubernetes nothing.

    Raises:
        UserError: none does.
    """
    if master == "yarn" and not any(os.environ.get(name) for name in _YARN_CONFIGURATION):
        raise UserError("job.master is yarn, but YARN is unknown: let HADOOP_CONF_DIR name its configuration's folder.")
    if not master.startswith(_STANDALONE):
        return
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        with suppress(OSError), socket.create_connection((host, int(port)), _CONNECT_SECONDS_MAX):
            return
    raise UnavailableError(f"No Spark master answers at {master}: start it, or correct job.master.")


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


@contextmanager
def _submitted(properties: dict[str, str], folder: Path) -> Iterator[None]:
    """Let the JVM that is about to start read properties from a file that only its owner can read."""
    if not properties:
        yield
        return
    file = write_private(folder / f"{os.getpid()}.properties", as_file(properties))
    before = os.environ.get(_SUBMIT_ARGUMENTS)
    os.environ[_SUBMIT_ARGUMENTS] = shlex.join(
        ["--properties-file", str(file), "--load-spark-defaults", *shlex.split(before or "pyspark-shell")]
    )
    try:
        yield
    finally:
        file.unlink()
        del os.environ[_SUBMIT_ARGUMENTS]
        if before is not None:
            os.environ[_SUBMIT_ARGUMENTS] = before


@contextmanager
def _ends_with_this_process() -> Iterator[None]:
    """Let the JVM that is about to start ignore SIGTERM, which a service manager sends to all, as it ignores Ctrl-C.

    So it can end its batch; it ends with this process, however that ends, because it reads its pipe. This process keeps
    its handlers: what it ignored for a while would be lost.
    """
    names = vars(java_gateway)
    popen = names["Popen"]

    def started(command: list[str], *, preexec_fn: Callable[[], object], **given: Any) -> Any:
        def ignore() -> None:
            preexec_fn()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

        return popen(command, preexec_fn=ignore, **given)

    names["Popen"] = started
    try:
        yield
    finally:
        names["Popen"] = popen


@contextmanager
def _own_handler(number: signal.Signals) -> Iterator[None]:
    """Keep the handler of a signal, though Spark sets one of its own, in the main thread."""
    former = signal.getsignal(number)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
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
