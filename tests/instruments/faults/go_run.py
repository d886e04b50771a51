"""Run real Go consumers (apache/rocketmq-client-go) in a lab of their own, and record hooks and polls.

    python -m tests.instruments.faults.go_run FOLDER

writes `recording.jsonl` and `run.json` to the folder; `test_go_client` judges them. An ordered and a concurrent group
have only members of `support/go/consumer`, a third has one of Java, too. First nothing happens; then the listeners of
one ordered and of the concurrent member hang; the other ordered member is frozen; at last one more joins and leaves.
"""

import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from tests.instruments.faults.case import Group
from tests.instruments.faults.run import collecting, recorded, settings_of
from tests.instruments.figures import commit
from tests.live.conftest import Watch, eventually
from tests.support.go_programs import SOURCES, build, toolchain

GROUPS = {"orders": Group(True, 4, 0, ()), "audit": Group(False, 4, 0, ()), "mixed": Group(True, 4, 1, ())}
MEMBERS = {"orders": ("o1", "o2"), "audit": ("c1",), "mixed": ("m1",)}
QUIET_SECONDS = 90
"""A lock's stamp of an idle client may be 35 s old; it is renewed, and seen, several times."""
HANG_SECONDS, FREEZE_SECONDS, JOIN_SECONDS = 125, 90, 60
HEAL_SECONDS = 80
"""Go's client unlocks nothing that it gives up, so the broker's lock has to expire first, 60 s later."""
_JOIN_SECONDS_MAX = 240
_LEAVE_SECONDS_MAX = 60


class Step(msgspec.Struct, frozen=True):
    """An action on some clients, from when to when (epoch ms)."""

    kind: str
    clients: tuple[str, ...]
    began: int
    ended: int


class Run(msgspec.Struct, frozen=True):
    """The description of a recording."""

    commit: str
    go: str
    began: int
    ended: int
    steps: tuple[Step, ...]

    def step(self, kind):
        """Return the step of a kind."""
        return next(one for one in self.steps if one.kind == kind)


class GoClient:
    """One consumer, from outside."""

    def __init__(self, program, lab, settings, key, instance, folder):
        self._log = folder / f"{instance}.log"
        group, mode = settings.lab.groups[key], "ordered" if GROUPS[key].ordered else "concurrent"
        command = [program, lab.name_server, group.group, group.topic, instance, mode]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
        eventually(lambda: b"started\n" in self._log.read_bytes())

    def send(self, number):
        """Send a signal."""
        self._process.send_signal(number)

    def leave(self):
        """Let it leave the group."""
        self.send(signal.SIGTERM)
        assert self._process.wait(_LEAVE_SECONDS_MAX) == 0, self._log.read_text()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()


def play(folder):
    """Record the run into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    program, settings = build(SOURCES / "consumer", folder), settings_of(GROUPS, folder / "root")
    return recorded(folder, settings, lambda lab: _record(program, lab, settings, folder))


def _record(program, lab, settings, folder):
    with ExitStack() as stack, collecting(lab, folder).start() as collector:
        collector.wait_for("round", 300)
        clients = {
            instance: stack.enter_context(GoClient(program, lab, settings, key, instance, folder))
            for key, instances in MEMBERS.items()
            for instance in instances
        }
        _await_shares(lab, settings)
        began, steps = _now(), []

        @contextmanager
        def step(kind, *instances):
            since = _now()
            yield [clients[instance] for instance in instances]
            steps.append(Step(kind, instances, since, _now()))

        with step("quiet"):
            time.sleep(QUIET_SECONDS)
        with step("hang", "o1", "c1") as hung:
            _send(hung, signal.SIGUSR1)
            time.sleep(HANG_SECONDS)
            _send(hung, signal.SIGUSR2)
        time.sleep(HEAL_SECONDS)
        with step("freeze", "o2") as frozen:
            _send(frozen, signal.SIGSTOP)
            time.sleep(FREEZE_SECONDS)
            _send(frozen, signal.SIGCONT)
        time.sleep(HEAL_SECONDS)
        with step("join"), GoClient(program, lab, settings, "orders", "o3", folder) as third:
            time.sleep(JOIN_SECONDS)
            third.leave()
        time.sleep(HEAL_SECONDS)
        assert collector.interrupt() == 0, collector.said()
    return Run(commit(), _version(), began, _now(), tuple(steps))


def _await_shares(lab, settings):
    watch = Watch(lab.name_server)
    for key, group in settings.lab.groups.items():
        members = len(MEMBERS[key]) + GROUPS[key].consumers
        eventually(lambda group=group, members=members: _is_shared_out(watch, group, members), _JOIN_SECONDS_MAX)


def _is_shared_out(watch, group, members):
    owners = watch.owners(group.group, group.topic)
    return len(owners) == group.queues and len(set(owners.values())) == members


def _send(clients, number):
    for client in clients:
        client.send(number)


def _version():
    return subprocess.run([toolchain(), "version"], capture_output=True, text=True, check=True).stdout.split()[2]


def _now():
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    play(Path(sys.argv[1]))
