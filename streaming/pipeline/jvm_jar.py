"""The classes of this program in Spark's JVM: a jar that is compiled by a library that Spark brings, Janino.

One of them is Hadoop's local file system without processes. Without its native library Hadoop sets the rights of each
new file by a process ``chmod``: ten for a micro-batch, which took 20 to 30 ms of processor time. Only in a JVM on this
machine: an executor elsewhere reads files before it has this jar.

Another closes the connections of Spark's state server, which Spark 4.2.0 leaves open (SPARK-58932). Each task of the
operator asks the JVM for its state through a connection of its own. Spark 4.2.0 never closes the JVM's end: at two
tasks in a batch of two seconds it has no port left after half a day. Spark 4.2.1 closes it, but delta-spark accepts no
pyspark after 4.2.0 yet, and of a class that a JVM has not loaded another version can be given: the same, which closes
the connection before each return. A plugin of Spark gives it to each JVM that runs tasks: the driver's for ``local``,
else those of the executors. Without this class, and the plugin, once pyspark is newer.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyspark
from py4j.java_gateway import get_field

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
    """Write the jar, and let the gateway's JVM, the driver, find its classes; its session has not started yet.

    It is one of ``spark.jars``, from which executors get it.
    """
    with ZipFile(jar, "w") as file:
        for name, content in entries.items():
            file.writestr(name, content)
    jvm = gateway.jvm
    jvm.java.lang.Thread.currentThread().getContextClassLoader().addURL(jvm.java.net.URL(jar.as_uri()))
    jvm.org.apache.hadoop.fs.FileSystem.closeAll()  # those that Hadoop kept since the JVM started


NEEDED = pyspark.__version__ == "4.2.0"
PLUGIN = "rebalancewatch.StateServerPlugin"
_SOURCE = Path(__file__).parent / "StateServerPlugin.java"
_CLASS = "org/apache/spark/sql/execution/python/streaming/TransformWithStateInPySparkStateServer.class"
_CLOSING = "rebalancewatch/StateServer.class"
"""The entry of the jar that has the other version."""
_CHANNEL = "java/nio/channels/SocketChannel"
_ALOAD, _RETURN, _INVOKEVIRTUAL = 25, 177, 182


@cache
def entries(gateway: Any) -> dict[str, bytes]:
    """Return what the jar has of this, made by libraries that Spark brings: its compiler Janino, and ASM."""
    jvm = gateway.jvm
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
    return compiled(gateway, _SOURCE) | {_CLOSING: _closing(jvm, loader.getResourceAsStream(_CLASS).readAllBytes())}


def _closing(jvm: Any, content: bytes) -> bytes:
    """Return the class with ``channel.close()`` before each return of `run`, where the channel is what it accepted."""
    asm = jvm.org.apache.xbean.asm9
    node = asm.tree.ClassNode()
    asm.ClassReader(content).accept(node, 0)
    (run,) = (method for method in get_field(node, "methods") if get_field(method, "name") == "run")
    steps = get_field(run, "instructions")
    for step in list(steps.toArray()):
        kind = step.getOpcode()
        if kind == _INVOKEVIRTUAL and get_field(step, "name") == "accept":
            variable = get_field(step.getNext(), "var")  # into which it is stored
        elif kind == _RETURN:
            steps.insertBefore(step, asm.tree.VarInsnNode(_ALOAD, variable))
            steps.insertBefore(step, asm.tree.MethodInsnNode(_INVOKEVIRTUAL, _CHANNEL, "close", "()V"))
    writer = asm.ClassWriter(0)
    node.accept(writer)
    return bytes(writer.toByteArray())
