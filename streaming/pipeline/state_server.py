"""Close the connections of Spark's state server, which Spark 4.2.0 leaves open (SPARK-58932).

Each task of the operator asks the JVM for its state through a connection of its own. Spark 4.2.0 never closes the JVM's
end: at two tasks in a batch of two seconds it has no port left after half a day. Spark 4.2.1 closes it, but delta-spark
accepts no pyspark after 4.2.0 yet, and of a class that a JVM has not loaded another version can be given: the same,
which closes the connection before each return. A plugin of Spark gives it to each JVM that runs tasks: the driver's
for ``local``, else those of the executors. Without this module, and the plugin, once pyspark is newer.
"""

from functools import cache
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import get_field

from streaming.pipeline.jvm_jar import compiled

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
