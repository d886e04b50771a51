"""The Java side of a client process: one JVM for each, so consumers are processes and never threads of one."""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, NoReturn, TypeAlias

import jpype

from streaming.lab.control import ClientSecurity, ConsumerOrders, ProducerOrders

JavaObject: TypeAlias = Any
"""An object of a Java class; mypy knows none of them."""

_HEAP = "-Xmx96m"
_TLS_ANSWER_MS = 15_000  # the first handshake of many cold JVMs takes longer than RocketMQ's default of 3 s
JVM_FRUGAL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k")
"""Options for many small JVMs on few cores: no parallel garbage collector, no optimising compiler threads."""


def start_jvm(jars: list[str], home: Path, security: ClientSecurity | None = None) -> Event:
    """Start the JVM of this process; the event is set when the process is asked to end.

    Args:
        jars: the class path.
        home: the folder for RocketMQ's own client log.
        security: of the clients that it will have.
    """
    tls = [f"-Dtls.config.file={security.tls_config}"] if security else []
    # -Xrs leaves SIGTERM to Python: the JVM's own handler would end the process before the client has shut down.
    jpype.startJVM(_HEAP, *JVM_FRUGAL, "-Xrs", f"-Duser.home={home}", *tls, classpath=jars, convertStrings=True)
    asked_to_end = Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_end.set())
    return asked_to_end


def new_client(kind: str, orders: ConsumerOrders | ProducerOrders, *arguments: str) -> JavaObject:
    """Create a client of this class with its name server and its security."""
    security = orders.security
    signing = [_signing(security.user, Path(security.password_file))] if security else []
    client = jpype.JClass(kind)(*arguments, *signing)
    client.setNamesrvAddr(orders.name_server)
    if security:
        client.setUseTLS(True)
        client.setMqClientApiTimeout(_TLS_ANSWER_MS)
    return client


def _signing(user: str, password_file: Path) -> JavaObject:
    credentials = jpype.JClass("org.apache.rocketmq.acl.common.SessionCredentials")(user, password_file.read_text())
    return jpype.JClass("org.apache.rocketmq.acl.common.AclClientRPCHook")(credentials)


def run(work: Callable[[], None]) -> NoReturn:
    """Run a client process and end it explicitly: RocketMQ leaves threads behind that would keep the JVM alive."""
    code = 0
    try:
        work()
    except Exception:  # noqa: BLE001  after any error: a client must not continue without its main thread
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    os._exit(code)
