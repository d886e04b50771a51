"""Run a name server and a broker with the hook in this process's JVM, so that the broker's lock table can be read.

No admin command shows `RebalanceLockManager.mqLockTable`, so it is read by reflection. Started by a test as
``python -m tests.live.broker_in_process HOME SPOOL BROKER_PORT NAME_SERVER_PORT``; it answers each line on its standard
input with the table, one line of JSON, and ends when its input ends. Locks expire after ten seconds instead of sixty.
"""

import json
import os
import sys
import time
from pathlib import Path

import jpype

from streaming.base.java import java_home
from streaming.lab import servers
from tests.support import hooked

_OPTIONS = (
    "-Drocketmq.broker.rebalance.lockMaxLiveTime=10000",
    "-Drebalance.watch.cluster=lab",  # the hook reads them from the command line, which differs here
    f"-Drebalance.watch.broker={hooked.NAME}",
)


def start(home, spool, broker_port, name_server_port):
    """The running BrokerController."""
    class_path = [*hooked.rocketmq_jars(), hooked.shared_hook_jar()]
    name_server = servers.name_server_command(class_path, home / "namesrv", name_server_port)
    address = f"{servers.LOOPBACK}:{name_server_port}"
    command = servers.broker_command(class_path, home / hooked.NAME, broker_port, address, spool=spool)
    jpype.startJVM(
        *(str(option) for option in command if str(option).startswith(("-X", "-D", "--add"))),
        *_OPTIONS,
        "-Xrs",
        jvmpath=str(java_home() / "lib" / "server" / "libjvm.so"),
        classpath=list(map(str, class_path)),
        convertStrings=True,
    )
    jpype.JClass("org.apache.rocketmq.namesrv.NamesrvStartup").main0(_arguments(name_server))
    startup = jpype.JClass("org.apache.rocketmq.broker.BrokerStartup")
    return startup.start(startup.createBrokerController(_arguments(command)))


def _arguments(command):
    return jpype.JArray(jpype.JString)(list(map(str, command[command.index("-c") :])))


def lock_table(controller):
    """Return for each group and queue the holder of the lock, and the time of its last renewal."""
    return {
        str(group.getKey()): {
            f"{lock.getKey().getTopic()}@{lock.getKey().getBrokerName()}:{lock.getKey().getQueueId()}": [
                str(lock.getValue().getClientId()),
                int(lock.getValue().getLastUpdateTimestamp()),
            ]
            for lock in group.getValue().entrySet()
        }
        for group in _field(controller.getRebalanceLockManager(), "mqLockTable").entrySet()
    }


def _field(owner, name):
    field = owner.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(owner)


def _say(**answer):
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main(home, spool, *ports):
    controller = start(Path(home), Path(spool), *map(int, ports))
    _say(ready=True)
    for _ in sys.stdin:
        asked = time.time_ns() // 1_000_000
        locks = lock_table(controller)
        _say(asked=asked, time=time.time_ns() // 1_000_000, locks=locks)
    controller.shutdown()
    os._exit(0)  # RocketMQ leaves threads behind that would keep the JVM up


if __name__ == "__main__":
    main(*sys.argv[1:])
