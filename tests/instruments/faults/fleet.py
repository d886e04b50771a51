"""Many real consumers of one group in one JVM, each a client with its own id, connections and threads.

Run by `run` as ``python -m tests.instruments.faults.fleet NAME_SERVER GROUP TOPIC HOME``. It reads a line at a time of
its standard input, ``NUMBER… stop NUMBER…``: start the consumers before the word, once those after it have left; it
answers each line with ``done`` when all of it came about. A process for each consumer is what the lab has; fifty of
them are more than two cores bear.
"""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import jpype

from streaming.base import jars
from streaming.base.settings import load_settings
from streaming.lab import processes
from streaming.lab.consumer import ListenerBehaviour, start_consumer
from streaming.lab.control import ConsumerOrders
from streaming.lab.network import Relay

_AT_ONCE = 16
_END_SECONDS_MAX = 60


class Fleet:
    """The process, from outside."""

    def __init__(self, name_server, group, folder):
        command = [
            sys.executable,
            "-m",
            "tests.instruments.faults.fleet",
            name_server,
            group.group,
            group.topic,
            str(folder),
        ]
        with (folder / "fleet.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def change(self, start=(), stop=()):
        """Stop some, then start others; returns when they have left and are started."""
        self._process.stdin.write(" ".join([*map(str, start), "stop", *map(str, stop)]) + "\n")
        self._process.stdin.flush()
        while (line := self._process.stdout.readline()) != "done\n":
            assert line, "the fleet has ended: see fleet.log"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(_END_SECONDS_MAX)


def _start(number, name_server, group, topic, class_path):
    """Start a consumer; what is given back ends it, and then its network."""
    orders = ConsumerOrders(
        name=f"fleet-{number}",
        jars=class_path,
        name_server=name_server,
        group=group,
        topic=topic,
        ordered=True,
        instance=f"fleet-{number}",
    )
    with ExitStack() as ends:
        relay = ends.enter_context(Relay())
        ends.callback(start_consumer(orders, ListenerBehaviour(orders), relay).shutdown)
        return ends.pop_all()


def main(name_server, group, topic, home):
    """Do as told until the input ends."""
    class_path = list(map(str, jars.ensure("rocketmq", load_settings().runtime.jars)))
    memory = ("-Xmx768m", "-XX:MaxDirectMemorySize=512m", "-Dio.netty.eventLoopThreads=2")
    jpype.startJVM(
        *memory, *processes.JVM_FRUGAL, "-Xrs", f"-Duser.home={home}", classpath=class_path, convertStrings=True
    )
    running = {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for line in sys.stdin:
            start, _, stop = line.partition("stop")
            list(pool.map(lambda number: running.pop(number).close(), stop.split()))
            numbers = start.split()
            started = pool.map(lambda number: _start(number, name_server, group, topic, class_path), numbers)
            running.update(zip(numbers, started, strict=True))
            sys.stdout.write("done\n")
            sys.stdout.flush()
        list(pool.map(lambda ends: ends.close(), running.values()))


if __name__ == "__main__":
    processes.run(lambda: main(*sys.argv[1:4], Path(sys.argv[4])))
