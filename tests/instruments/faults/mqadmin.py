"""RocketMQ's own `mqadmin`: any command once, as an operator would, or consumerStatus repeatedly."""

import os
import subprocess
import time
from dataclasses import dataclass
from threading import Event, Thread

from streaming.base import jars
from streaming.base.java import java_executable, java_home
from streaming.base.settings import load_settings

ANSWER_SECONDS_MAX = 120
QUIET = "rmq.logback-test.xml"
"""The first file that RocketMQ's logging reads; without it, mqadmin prints 100 KB about its own logging."""
TRIES = 3
"""How often a command that changes the cluster is run, while servers do not answer in time."""


@dataclass(frozen=True)
class Said:
    """One run: the times of its start and its end (epoch ms), and its output."""

    asked: int
    answered: int
    code: int
    out: str
    err: str

    @property
    def clients(self):
        """Return the client ids of the table."""
        rows = [line.split() for line in self.out.splitlines()]
        return {row[1] for row in rows if len(row) == 4 and row[0].isdigit()}

    @property
    def verdicts(self):
        """Return the output beside the table: its analyses, and the first line of each trace."""
        lines = [line for line in self.out.splitlines() if line and not line[0].isdigit() and line[0] != "#"]
        return [*lines, *(line for line in self.err.splitlines() if line and not line[0].isspace())]

    @property
    def found_the_broker(self):
        """Return whether the name server answered in time: on a busy machine it may not, which says nothing."""
        return not ("RemotingTimeoutException" in self.err and "getTopicRouteInfoFromNameServer" in self.err)


class MqAdmin:
    """Runs commands in a folder, each in a JVM of its own."""

    def __init__(self, home, name_server):
        self._home = home
        self._name_server = name_server
        home.mkdir(parents=True, exist_ok=True)
        (home / QUIET).write_text("<configuration/>")
        class_path = ":".join(map(str, [home, *jars.ensure("rocketmq", load_settings().runtime.jars)]))
        java = [java_executable(), "-Xmx128m", "-XX:TieredStopAtLevel=1", f"-Duser.home={home}", "-cp", class_path]
        self._java = [*map(str, java), "org.apache.rocketmq.tools.command.MQAdminStartup"]
        self._environment = os.environ | {"JAVA_HOME": str(java_home()), "ROCKETMQ_HOME": str(home)}
        self._environment.pop("JDK_JAVA_OPTIONS", None)  # Java would print a note about it

    def run(self, command, *arguments):
        """Run a command, whatever it says."""
        asked = _now()
        ran = subprocess.run(
            [*self._java, command, "-n", self._name_server, *arguments],
            cwd=self._home,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS_MAX,
            check=False,
        )
        return Said(asked, _now(), ran.returncode, ran.stdout, ran.stderr)

    def change(self, command, *arguments):
        """Run a command that changes the cluster; it must say that it did (its exit code says nothing).

        One that a busy server did not answer in time is run again.
        """
        for _ in range(TRIES):
            said = self.run(command, *arguments)
            if "RemotingTimeoutException" not in said.err:
                break
        assert "success" in said.out, (command, arguments, said)


class ConsumerStatus:
    """Runs it repeatedly until the end of a with-block."""

    def __init__(self, home, name_server, group):
        self._admin = MqAdmin(home, name_server)
        self._group = group
        self._stop = Event()
        self._thread = Thread(target=self._ask)
        self.answers = []

    def _ask(self):
        while not self._stop.is_set():
            self.answers.append(self._admin.run("consumerStatus", "-g", self._group))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def _now():
    return time.time_ns() // 1_000_000
