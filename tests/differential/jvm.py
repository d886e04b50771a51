"""Start the JVM with the real RocketMQ classes."""

import sys
from pathlib import Path

import jpype

from streaming.base import jars
from streaming.base.java import java_home
from streaming.base.settings import load_settings

# RocketMQ's logback looks for this file first; without it every class writes a log of its own.
_NO_LOG = '<configuration><statusListener class="{}"/><root level="OFF"/></configuration>'
_QUIET = "org.apache.rocketmq.logging.ch.qos.logback.core.status.NopStatusListener"


def start(home: Path, *more_options: str) -> None:
    """Start this process's JVM with RocketMQ's jars and the classes in `home`, to which they also write."""
    (home / "rmq.logback-test.xml").write_text(_NO_LOG.format(_QUIET))
    class_path = [str(home), *map(str, jars.ensure("rocketmq", load_settings().runtime.jars))]
    server = java_home() / "lib" / "server"
    library = server / ("libjvm.dylib" if sys.platform == "darwin" else "libjvm.so")
    options = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xrs", f"-Duser.home={home}", *more_options)
    jpype.startJVM(*options, jvmpath=str(library), classpath=class_path, convertStrings=True)
