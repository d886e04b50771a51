"""The classes of this program in Spark's JVM: a jar that is compiled by a library that Spark brings, Janino.

One of them is Hadoop's local file system without processes. Without its native library Hadoop sets the rights of each
new file by a process ``chmod``: ten for a micro-batch, which took 20 to 30 ms of processor time. Only in a JVM on this
machine: an executor elsewhere reads files before it has this jar.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

LOCAL_FILES = "rebalancewatch.LocalFiles"
"""The file system of ``file:``."""
FILE_SYSTEM = "spark.hadoop.fs.file.impl"
"""The property that names it, for a session whose JVM has the jar: Hadoop looks for it when it first reads a file."""
_SOURCES = Path(__file__).parent


def local_files(gateway: Any) -> dict[str, bytes]:
    """Return the classes of `LOCAL_FILES`, by their names in a jar."""
    return compiled(gateway, _SOURCES / "LocalFiles.java")


def compiled(gateway: Any, source: Path) -> dict[str, bytes]:
    """Return the classes of a Java file, by their names in a jar."""
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(source.read_text())
    return {f"{name.replace('.', '/')}.class": bytes(code) for name, code in compiler.getBytecodes().items()}


def write_jar(gateway: Any, jar: Path, entries: Mapping[str, bytes]) -> None:
    """Write the jar, and let the gateway's JVM, the driver, find its classes.

    Args:
        gateway: py4j's, to a JVM whose session has not started yet.
        jar: the file, one of ``spark.jars``, from which executors get it.
        entries: its content.
    """
    with ZipFile(jar, "w") as file:
        for name, content in entries.items():
            file.writestr(name, content)
    jvm = gateway.jvm
    jvm.java.lang.Thread.currentThread().getContextClassLoader().addURL(jvm.java.net.URL(jar.as_uri()))
    jvm.org.apache.hadoop.fs.FileSystem.closeAll()  # those that Hadoop kept since the JVM started
