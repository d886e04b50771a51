"""Our commands and servers as processes that a test starts, kills and starts again."""

import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from streaming.base import jars
from streaming.base.errors import UserError
from streaming.base.java import java_home
from streaming.base.settings import load_settings
from streaming.cli.main import app
from streaming.lab import servers
from streaming.lab.processes import end, spawn, wait_until
from streaming.log.kafka_properties import KafkaConnection

STOP_SECONDS_MAX = 200
SHOWN_CHARACTERS = 3_000
"""Of the output of each command when a test fails."""


def said(settings, *arguments):
    """Run one of our commands in this process, which saves a start of a second; return its output, or its error.

    Args:
        settings: override the defaults: SECTION__NAME and a value each.
        arguments: the command's words.
    """
    with pytest.MonkeyPatch.context() as environment:
        for name, value in settings.items():
            environment.setenv(f"REBALANCE_WATCH_{name}", str(value))
        ended = CliRunner().invoke(app, list(map(str, arguments)))
    assert ended.exception is None or isinstance(ended.exception, UserError | SystemExit), ended.exc_info
    return str(ended.exception) if isinstance(ended.exception, UserError) else ended.output


class Command:
    """One of our commands, which can be started repeatedly; the output of all runs is in one file."""

    def __init__(self, folder, settings, *arguments, program=("-m", "streaming.cli"), python=sys.executable, name=""):
        """Prepare the command.

        Args:
            folder: of its output.
            settings: override the defaults: SECTION__NAME and a value each.
            arguments: the words after the program.
            program: how Python is called.
            python: the interpreter.
            name: of the file with its output; empty: by the first two arguments.
        """
        self._log = folder / f"{name or '-'.join(arguments[:2])}.log"
        self._arguments = [python, *program, *map(str, arguments)]
        self._environment = os.environ | {f"REBALANCE_WATCH_{name}": str(value) for name, value in settings.items()}
        self._process = None
        self._said_before = 0

    def start(self, *more):
        """Start or restart it; `more` are further arguments of this run."""
        self._said_before = len(self.said())
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._arguments, *more],
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    @property
    def pid(self):
        """The process id of this run."""
        return self._process.pid

    @property
    def is_running(self):
        """Return whether this run has not ended."""
        return self._process is not None and self._process.poll() is None

    def said(self):
        """Return the output of all runs."""
        return self._log.read_text() if self._log.exists() else ""

    def said_now(self):
        """Return the output of this run."""
        return self.said()[self._said_before :]

    def wait_for(self, words, seconds):
        """Wait until the output of this run contains a text, or one of several."""
        several = (words,) if isinstance(words, str) else words
        deadline = time.monotonic() + seconds
        while True:
            ended = self._process.poll() is not None  # checked first: its last output counts
            said = self.said_now()
            if any(one in said for one in several):
                return
            assert not ended, said
            assert time.monotonic() < deadline, f"{words!r} was not said within {seconds} s: {said}"
            time.sleep(0.1)

    def wait_for_last(self, words, among, seconds):
        """Wait until a text is in the last line of this run's output that contains another one."""
        deadline = time.monotonic() + seconds
        while not any(words in line for line in [line for line in self.said_now().splitlines() if among in line][-1:]):
            assert self.is_running, self.said_now()
            assert time.monotonic() < deadline, f"{words!r} was not said within {seconds} s: {self.said_now()}"
            time.sleep(0.1)

    def send_signal(self, number):
        """Send a signal to the process."""
        self._process.send_signal(number)

    def kill(self):
        """Kill every process of its session at once (SIGKILL)."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(STOP_SECONDS_MAX)

    def interrupt(self):
        """Interrupt it as by Ctrl-C; return the exit code."""
        self._process.send_signal(signal.SIGINT)
        return self.ended()

    def ended(self, seconds=STOP_SECONDS_MAX):
        """Wait until it has ended; return the exit code."""
        return self._process.wait(seconds)

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        if error is not None and self._process is not None:
            state = "runs" if self.is_running else f"exit code {self._process.returncode}"
            print(f"{self._log.name} ({state}): {self.said_now()[-SHOWN_CHARACTERS:]}")
        self.kill()


class Kafka:
    """A Kafka node of the test, open or secured, which can be killed and restarted."""

    def __init__(self, home, secured=None):
        self._port = servers.free_port()
        controller = servers.free_port()
        self._log = home / "kafka.log"
        kafka_jars = jars.ensure("kafka", load_settings().runtime.jars)
        self._command = servers.kafka_command(kafka_jars, home, self._port, controller, secured=secured)
        self.bootstrap = f"{servers.LOOPBACK}:{self._port}"
        self.administrator = secured.administrator(servers.LOOPBACK) if secured else KafkaConnection(self.bootstrap)
        self.process = None

    def add_options(self, *options):
        """Start it with these options of its JVM."""
        self._command[1:1] = options

    def start(self):
        self.process = spawn(self._command, self._log, {"JAVA_HOME": str(java_home())})
        wait_until(self._answers, self.process, self._log, 200)
        return self

    def _answers(self):
        if servers.port_is_free(int(self.administrator.servers.rpartition(":")[2])):
            return None  # a client that cannot connect leaves sockets to the garbage collector
        return servers.kafka_answers(self.administrator)

    def kill(self):
        if self.process is not None:
            end(self.process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
