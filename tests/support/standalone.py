"""A real Spark standalone cluster on loopback: a master, and workers of one core each, which a test kills."""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyspark

from streaming.base.java import java_home
from streaming.lab.processes import end, spawn, wait_until
from streaming.lab.servers import LOOPBACK, free_port
from tests.support import spark_start
from tests.support.processes import command_of, descendants

SPARK_HOME = Path(pyspark.__file__).parent
START_SECONDS_MAX = 200
DAEMON_MEMORY = "256m"
WORKER_MEMORY = "1g"
ON_LOOPBACK = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.executor.memory": "600m",
}
"""Properties of a job whose driver such executors reach, and whose executors fit into a worker."""
_EXECUTOR = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"


class Standalone:
    """A master and its workers; all of them end with the block."""

    def __init__(self, folder, workers=2):
        self._folder = folder
        self._environment = {
            "JAVA_HOME": str(java_home()),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": LOOPBACK,
            "PATH": f"{Path(sys._base_executable).parent}:{os.environ['PATH']}",  # a Python without our packages
            "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
            "SPARK_DAEMON_JAVA_OPTS": spark_start.archive_options().replace('"', ""),
        }
        self._wanted = workers
        self._started = 0
        self.workers = []
        port = free_port()
        self.url = f"spark://{LOOPBACK}:{port}"
        ports = ("--host", LOOPBACK, "--port", str(port), "--webui-port", str(free_port()))
        self._master = self._spawn("master", "org.apache.spark.deploy.master.Master", *ports)

    def add_worker(self):
        """Start one more worker and wait until the master knows it."""
        self._started += 1
        name = f"worker-{self._started}"
        port = ("--host", LOOPBACK, "--port", str(free_port()), "--webui-port", str(free_port()))
        size = ("--cores", "1", "--memory", WORKER_MEMORY, "--work-dir", str(self._folder / name))
        process = self._spawn(name, "org.apache.spark.deploy.worker.Worker", *port, *size, self.url)
        self.workers.append(process)
        log = self._log(name)
        wait_until(lambda: "registered with master" in log.read_text() or None, process, log, START_SECONDS_MAX)

    def kill_worker(self, index=0):
        """Kill a worker together with its executors, as if its machine had gone."""
        worker = self.workers.pop(index)
        below = descendants(worker.pid)
        os.kill(worker.pid, signal.SIGKILL)
        _kill(below)
        end(worker)

    def executors(self):
        """The process ids of the executors that run."""
        below = [one for worker in self.workers for one in descendants(worker.pid)]
        return [one for one in below if _EXECUTOR in command_of(one) and b"java" in command_of(one)[0]]

    def kill_executor(self, job, seconds=START_SECONDS_MAX):
        """Kill an executor as soon as there is one, unless the job has ended before."""
        deadline = time.monotonic() + seconds
        while not (executors := self.executors()):
            if not job.is_running:
                return
            assert time.monotonic() < deadline, "there is no executor"
            time.sleep(0.1)
        _kill({executors[0], *descendants(executors[0])})

    def __enter__(self):
        try:
            log = self._log("master")
            wait_until(
                lambda: "I have been elected leader" in log.read_text() or None, self._master, log, START_SECONDS_MAX
            )
            for _ in range(self._wanted):
                self.add_worker()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        while self.workers:
            self.kill_worker()
        end(self._master)

    def _spawn(self, name, *arguments):
        command = [SPARK_HOME / "bin" / "spark-class", *arguments]
        return spawn(command, self._log(name), self._environment)

    def _log(self, name):
        return self._folder / f"{name}.log"


def _kill(pids):
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
