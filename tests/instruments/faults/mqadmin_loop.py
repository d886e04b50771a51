"""Run a command of `mqadmin` for many groups, round after round, in one JVM: starting Java each time takes too long.

`run` starts it as ``python -m tests.instruments.faults.mqadmin_loop NAME_SERVER HOME COMMAND GROUP…``; it prints one
`Answer` per line. It calls RocketMQ's own MQAdminStartup and keeps all its output.
"""

import os
import sys
import time
from pathlib import Path

import jpype
import msgspec

from streaming.base import jars
from streaming.base.settings import load_settings
from streaming.lab import processes
from tests.instruments.faults.mqadmin import QUIET, Said


class Answer(msgspec.Struct, frozen=True):
    """The output for one group, between two moments (epoch ms)."""

    group: str
    asked: int
    answered: int
    out: str
    err: str

    clients = Said.clients
    verdicts = Said.verdicts


def _printed(command, group, name_server):
    system, stream = jpype.JClass("java.lang.System"), jpype.JClass("java.io.PrintStream")
    out, err = (jpype.JClass("java.io.ByteArrayOutputStream")() for _ in range(2))
    before = system.out, system.err
    system.setOut(stream(out))
    system.setErr(stream(err))
    asked = time.time_ns() // 1_000_000
    try:
        startup = jpype.JClass("org.apache.rocketmq.tools.command.MQAdminStartup")
        startup.main0([command, "-n", name_server, "-g", group], None)
    finally:
        system.setOut(before[0])
        system.setErr(before[1])
    return Answer(group, asked, time.time_ns() // 1_000_000, out.toString(), err.toString())


def main(name_server, home, command, groups):
    """Run until SIGTERM."""
    home.mkdir(parents=True, exist_ok=True)
    (home / QUIET).write_text("<configuration/>")
    class_path = [home.resolve(), *(jar.resolve() for jar in jars.ensure("rocketmq", load_settings().runtime.jars))]
    os.chdir(home)  # the folder to which the command writes every client's answer
    asked_to_end = processes.start_jvm(list(map(str, class_path)), home)
    jpype.JClass("java.lang.System").setProperty("rocketmq.home.dir", str(home))
    while not asked_to_end.is_set():
        for group in groups:
            sys.stdout.write(msgspec.json.encode(_printed(command, group, name_server)).decode() + "\n")
            sys.stdout.flush()
            if asked_to_end.wait(0.2):
                break


if __name__ == "__main__":
    processes.run(lambda: main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4:]))
