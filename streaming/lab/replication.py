"""Brokers of two replicas: the configurations of the servers in each kind of replication.

slave: the second replica is a slave; while the master is away, it serves reads, and no lock is to be had. acting: the
slave acts as master meanwhile (enableSlaveActingMaster): it grants locks and keeps offsets. controller: a controller in
the name server elects one replica as master, and another one when that is gone.
"""

from collections.abc import Mapping
from pathlib import Path

from streaming.base.sections.lab import Replication

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
