"""A real HDFS on loopback: a name node and a data node in one JVM."""

from pathlib import Path

import pyspark

from streaming.base import jars
from streaming.base.java import java_executable
from streaming.base.settings import load_settings
from streaming.lab.processes import end, spawn, wait_until
from streaming.lab.servers import LOOPBACK, free_port

_MANAGER = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
_OF_SPARK = ("hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "log4j", "commons-logging", "jcl-over")
_START_SECONDS_MAX = 120


class Hdfs:
    """The file system; it ends with the block."""

    def __init__(self, folder: Path) -> None:
        """Start it; its blocks are below ``folder``."""
        folder.mkdir()
        port, ready, log = free_port(), folder / "ready.xml", folder / "hdfs.log"
        self.url = f"hdfs://{LOOPBACK}:{port}"
        of_spark = (Path(pyspark.__file__).parent / "jars").glob("*.jar")
        found = [*jars.ensure("hdfs", load_settings().runtime.jars)]
        found += (jar for jar in of_spark if jar.name.startswith(_OF_SPARK))
        command = [java_executable(), "-Xmx400m", f"-Dtest.build.data={folder}", "-cp", ":".join(map(str, found))]
        options = ["-nomr", "-format", "-nnport", str(port), "-writeConfig", ready]
        self._process = spawn([*command, _MANAGER, *options], log)
        wait_until(lambda: ready.exists() or None, self._process, log, _START_SECONDS_MAX)

    def __enter__(self) -> "Hdfs":
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process)
