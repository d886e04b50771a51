"""Close the connections of Spark's state server, which Spark 4.2.0 leaves open (SPARK-58932).

Each task of the operator asks the JVM for its state through a connection of its own. Spark 4.2.0 never closes the JVM's
end: at two tasks in a batch of two seconds it has no port left after half a day. Spark 4.2.1 closes it, but delta-spark
accepts no pyspark after 4.2.0 yet, and of a class that the JVM has not loaded another version can be given: the same,
which closes the connection before each return. Without this module once pyspark is newer.

Only the driver's JVM is reached, which runs the tasks of ``local``; for executors see streaming/README.md.
"""

from functools import cache
from typing import Any

import pyspark
from py4j.java_gateway import get_field
from pyspark.sql import SparkSession

LEAVES_OPEN = "4.2.0"
"""The release that needs it."""
_CLASS = "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkStateServer"
_CHANNEL = "java/nio/channels/SocketChannel"
_ALOAD, _RETURN, _INVOKEVIRTUAL = 25, 177, 182


def close_connections(spark: SparkSession) -> None:
    """Let the state server of this session's JVM close its connections; before the first query with state."""
    if pyspark.__version__ != LEAVES_OPEN:
        return
    context: Any = spark.sparkContext
    _define(context._gateway)  # noqa: SLF001  nothing public reaches the JVM


@cache
def _define(gateway: Any) -> None:
    """Define the class in the JVM of a gateway, once: its later sessions have it."""
    jvm = gateway.jvm
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
    content = _closing(jvm, loader.getResourceAsStream(_CLASS.replace(".", "/") + ".class").readAllBytes())
    kinds, values = gateway.new_array(jvm.java.lang.Class, 4), gateway.new_array(jvm.java.lang.Object, 4)
    number = jvm.java.lang.Integer.TYPE
    named = jvm.java.lang.Class.forName
    for place, kind in enumerate((named("java.lang.String"), named("[B"), number, number)):
        kinds[place] = kind
    for place, value in enumerate((_CLASS, content, 0, len(content))):
        values[place] = value
    define = named("java.lang.ClassLoader").getDeclaredMethod("defineClass", kinds)
    define.setAccessible(True)
    define.invoke(loader, values)


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
