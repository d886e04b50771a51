"""The servers' configurations and command lines, as small as possible.

Brokers of two replicas, by kind of replication. slave: the second replica is a slave; while the master is away, it
serves reads and grants no lock. acting: the slave acts as master meanwhile (enableSlaveActingMaster): it grants locks
and keeps offsets. controller: a controller in the name server elects one replica as master, and another one when that
is gone.
"""

import json
import os
import shlex
import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from typing import TypeAlias

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from streaming.base.errors import UserError
from streaming.base.files import write_private
from streaming.base.java import java_executable
from streaming.base.sections.lab import Replication
from streaming.lab.processes import JVM_FRUGAL
from streaming.lab.security import SecuredKafka, SecuredRocketMq
from streaming.lab.state import ProxyPorts
from streaming.log.kafka_properties import KafkaConnection, client_of

_SECOND = "-2"

_SLAVE = """\
brokerRole=SLAVE
brokerId=1
"""

_ACTING = """\
enableSlaveActingMaster=true
totalReplicas=2
# without it a master that returns waits forever: it copies the timer's checkpoint from the slave (5.4.0)
timerWheelEnable=true
mappedFileSizeTimerLog=4194304
# each flush copies the whole wheel: by default a fifth of a core, once a second
timerFlushIntervalMs=10000
"""

_CONTROLLED = """\
enableControllerMode=true
controllerAddr={controller}
totalReplicas=2
# a lab's replicas are small: let a returning one catch up from its first file
syncFromLastFile=false
"""

_CONTROLLER = """\
enableControllerInNamesrv=true
controllerDLegerGroup=lab
controllerDLegerPeers=n0-{controller}
controllerDLegerSelfId=n0
controllerStorePath={store}
mappedFileSize=33554432
"""


def second_of(broker: str) -> str:
    """Return the name of the process that is a broker's second replica."""
    return broker + _SECOND


def broker_of(process: str) -> str:
    """Return the broker's name (brokerName) of a replica's process."""
    return process.removesuffix(_SECOND)


def replica_id(process: str) -> int:
    """Return 0 for the first replica of a broker, 1 for the second; in controller mode it is not RocketMQ's id."""
    return int(process.endswith(_SECOND))


def broker_properties(
    replication: Replication, process: str, controller: str, more: Mapping[str, str | int | float | bool]
) -> str:
    """Return the lines of broker.conf that are about replication, and further properties."""
    lines = {"none": "", "slave": "", "acting": _ACTING, "controller": _CONTROLLED.format(controller=controller)}
    is_slave = replication in ("slave", "acting") and replica_id(process)
    given = "".join(f"{name}={str(value).lower()}\n" for name, value in more.items())
    return lines[replication] + (_SLAVE if is_slave else "") + given


def name_server_properties(replication: Replication, controller: str, home: Path) -> str:
    """Return the lines of namesrv.conf that are about replication."""
    if replication == "acting":
        return "supportActingMaster=true\n"
    return _CONTROLLER.format(controller=controller, store=home / "controller") if replication == "controller" else ""


LOOPBACK = "127.0.0.1"
Command: TypeAlias = list[str | Path]
ROCKETMQ_READY = "boot success"  # the line of NamesrvStartup and BrokerStartup
PROXY_READY = "rocketmq-proxy startup successfully"
CLUSTER_NAME = "lab"

# Below Linux's ephemeral range (32768…), so that no outgoing connection can take a port between two starts.
_PORTS = range(20_000, 32_000)

# RocketMQ 5.4 on Java 17 reads fields of the JDK that its modules hide.
_ROCKETMQ_OPENS = (
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.nio", "sun.nio.ch", "java.lang", "java.util", "java.util.concurrent")
    ),
)

_BROKER_CONF = """\
brokerClusterName={cluster}
brokerName={name}
namesrvAddr={name_server}
brokerIP1={loopback}
brokerIP2={loopback}
bindAddress={loopback}
listenPort={port}
storePathRootDir={store}
storePathCommitLog={store}/commitlog
# small files: the store of a lab fits in a few hundred MB
mappedFileSizeCommitLog=33554432
mappedFileSizeConsumeQueue=600000
timerWheelEnable=false
autoCreateTopicEnable=false
# its thread spins until the first flush (5.4.0: TransactionMetricsFlushService.run): by default for 10 s
transactionMetricFlushInterval=300
# a full disk of the developer's is no reason to refuse messages
diskMaxUsedSpaceRatio=99
"""

_NAME_SERVER_CONF = """\
bindAddress={loopback}
listenPort={port}
"""

_KAFKA_CONF = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{loopback}:{controller_port}
controller.listener.names=CONTROLLER
log.dirs={logs}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
# up to the largest row that the telemetry topic takes (streaming.log.kafka)
message.max.bytes=16777216
"""

_KAFKA_UNSECURED = "listeners=PLAINTEXT://{loopback}:{port},CONTROLLER://{loopback}:{controller_port}\n"


def free_port(*, beside: Sequence[int] = (0,)) -> int:
    """Return a free port of the loopback; the ports at the distances `beside` are free as well.

    None of them is given a second time while this process runs, in whichever process: a server takes seconds to start.

    Raises:
        UserError: none was found.
    """
    for port in SystemRandom().sample(_PORTS, 200):
        places = [port + distance for distance in beside]
        if all(map(port_is_free, places)) and all(map(_claim_port, places)):
            return port
    raise UserError("No free port was found between 20000 and 32000: stop some servers and start again.")


def _claim_port(port: int) -> bool:
    """Take a port in the name of this process; return False if it was given before. Only Linux has such names."""
    if sys.platform != "linux":
        return True
    holder = socket.socket(socket.AF_UNIX)
    try:
        holder.bind(f"\0rebalance-watch-port-{port}")  # an abstract name, which ends with its socket
    except OSError:
        holder.close()
        return False
    holder.detach()  # it stays open until this process ends
    return True


def port_is_free(port: int) -> bool:
    """Return whether a server could listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: TIME_WAIT doesn't matter
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


BROKER_PORTS_BESIDE = (-2, 0, 1)
"""The broker also listens two below its port (VIP channel) and one above (replication, which bindAddress does not
reach: it listens on every interface)."""


def name_server_command(
    jars: Sequence[Path], home: Path, port: int, *, properties: str = "", secured: SecuredRocketMq | None = None
) -> Command:
    """Return the command line of NamesrvStartup; heap 128 MB.

    Args:
        jars: RocketMQ's.
        home: its folder.
        port: the port on which it listens.
        properties: further lines of its configuration.
        secured: its security; with it, it accepts only TLS.
    """
    conf = _write(home / "namesrv.conf", _NAME_SERVER_CONF.format(loopback=LOOPBACK, port=port) + properties)
    options = secured.java_options() if secured else []
    return [*_rocketmq(jars, home, "-Xmx128m"), *options, "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", conf]


def broker_command(
    jars: Sequence[Path],
    home: Path,
    port: int,
    name_server: str,
    *,
    properties: str = "",
    spool: Path | None = None,
    secured: SecuredRocketMq | None = None,
) -> Command:
    """Return the command line of BrokerStartup; heap 512 MB, and as much again outside of it.

    Args:
        jars: RocketMQ's, with the broker hook's if there is a spool.
        home: its folder, named as its process.
        port: the port on which it listens; see `BROKER_PORTS_BESIDE`.
        name_server: the name server's address.
        properties: further lines of its configuration.
        spool: the folder to which the broker hook writes; None: without the hook.
        secured: the security of the broker; None: everybody may do everything.
    """
    broker = broker_of(home.name)
    text = _BROKER_CONF.format(
        cluster=CLUSTER_NAME,
        name=broker,
        name_server=name_server,
        loopback=LOOPBACK,
        port=port,
        store=home / "store",
    )
    text += properties
    home.mkdir(parents=True, exist_ok=True)
    conf = home / "broker.conf"
    conf = secured.write_broker_conf(conf, text) if secured else _write(conf, text)
    options = secured.java_options() if secured else []
    java = _rocketmq(jars, home, "-Xmx512m", "-XX:MaxDirectMemorySize=512m")
    # In controller mode the configuration does not tell two replicas apart; otherwise it says the same.
    identity = f"-Drebalance.watch.brokerId={replica_id(home.name)}"
    hook = [f"-Drebalance.watch.spool={spool}", identity] if spool else []
    return [*java, *hook, *options, "org.apache.rocketmq.broker.BrokerStartup", "-c", conf]


def proxy_command(jars: Sequence[Path], home: Path, ports: ProxyPorts, name_server: str) -> Command:
    """Return the command line of a proxy in cluster mode; heap 192 MB, and as much again outside of it.

    Its two servers can't be bound to one address: they listen on every interface, and accept every connection.

    Args:
        jars: RocketMQ's, and the proxy's.
        home: its folder; as RMQ_PROXY_HOME it leads to its configuration.
        ports: on which it listens.
        name_server: the name server's address.
    """
    settings = {
        "rocketMQClusterName": CLUSTER_NAME,
        "proxyName": home.name,
        "namesrvAddr": name_server,
        "localServeAddr": LOOPBACK,
        "grpcServerPort": ports.grpc,
        "remotingListenPort": ports.remoting,
    }
    _write(home / "conf" / "rmq-proxy.json", json.dumps(settings, indent=2))
    java = _rocketmq(jars, home, "-Xmx192m", "-XX:MaxDirectMemorySize=192m")
    return [*java, "org.apache.rocketmq.proxy.ProxyStartup", "-pm", "cluster", "-n", name_server]


def kafka_command(
    jars: Sequence[Path], home: Path, port: int, controller_port: int, *, secured: SecuredKafka | None = None
) -> Command:
    """Return the command line of a Kafka node, broker and controller (KRaft), heap 384 MB; format its storage once.

    Args:
        jars: Kafka's.
        home: its folder.
        port: the port of its one listener, which is not secured; unused with ``secured``.
        controller_port: the port of the controller.
        secured: the listeners of a secured node; None: an open one.

    Raises:
        UserError: Kafka's own tool could not format it.
    """
    logs = home / "logs"
    open_ = _KAFKA_UNSECURED.format(loopback=LOOPBACK, port=port, controller_port=controller_port)
    listeners = secured.properties(LOOPBACK, controller_port) if secured else open_
    text = _KAFKA_CONF.format(loopback=LOOPBACK, controller_port=controller_port, logs=logs) + listeners
    conf = write_private(home / "server.properties", text)
    options = secured.java_options() if secured else []
    given = shlex.split(os.environ.get("KAFKA_OPTS", ""))  # as Kafka's own scripts do
    java: Command = [java_executable(), "-Xmx384m", *JVM_FRUGAL, *given, *options, "-cp", _class_path(jars)]
    if not (logs / "meta.properties").exists():
        tool: Command = [*java, "kafka.tools.StorageTool", "format", "-t", str(uuid.uuid4()), "-c", conf]
        made = subprocess.run(tool, capture_output=True, text=True, timeout=60, check=False)
        if made.returncode:
            raise UserError(f"Kafka's storage in {home} can't be formatted: {made.stderr.strip().splitlines()[-1:]}.")
    return [*java, "kafka.Kafka", conf]


def kafka_answers(connection: KafkaConnection) -> bool | None:
    """Return True as soon as Kafka takes part in its own cluster, else None."""
    try:
        admin = client_of(KafkaAdminClient, connection, bootstrap_timeout_ms=500)
    except KafkaError:
        return None
    try:
        return True if admin.describe_cluster()["brokers"] else None
    except KafkaError:
        return None
    finally:
        admin.close()


def _rocketmq(jars: Sequence[Path], home: Path, *memory: str) -> Command:
    return [
        java_executable(),
        *(*memory, *JVM_FRUGAL, *_ROCKETMQ_OPENS),
        f"-Duser.home={home}",  # its logs go below
        "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
        *("-cp", _class_path(jars)),
    ]


def _class_path(jars: Sequence[Path]) -> str:
    return ":".join(map(str, jars))


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
