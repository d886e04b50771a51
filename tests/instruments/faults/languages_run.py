"""Run clients of four languages through faults in a lab of their own, and record hooks and polls.

    python -m tests.instruments.faults.languages_run FOLDER

writes `recording.jsonl` and `run.json` to the folder; `test_languages` judges them. The consumers: Go (remoting 2.1.2),
Java (the lab's), Node (gRPC 1.0.8) and Python (gRPC 5.1.2) behind a real proxy. First nothing happens; then one queue
of a concurrent group hangs, retried messages of another hang, a simple consumer acknowledges nothing, and a group
without members is reset to now. After their cure the proxy is down for 90 s, and at last another broker registers by
the name of the first one.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from streaming.base import jars
from streaming.base.java import java_home
from streaming.base.settings import load_settings
from streaming.lab import servers
from streaming.lab.processes import end, spawn
from tests.instruments.faults.field import FieldFaults
from tests.instruments.faults.go_run import Step
from tests.instruments.faults.run import collecting, recorded
from tests.instruments.figures import commit
from tests.live.conftest import eventually
from tests.support.go_programs import SOURCES, build

NODE, PYTHON = "rocketmq-client-nodejs@1.0.8", "rocketmq-python-client==5.1.2"
CLIENTS = SOURCES.with_name("grpc_clients")
QUIET_SECONDS = 60
AWAY_SECONDS = 45
"""How long the group that is reset has no member: shorter than NO_ACTIVE_CLIENTS_WITH_LAG needs."""
HANG_SECONDS = 260
"""A concurrent queue is stalled by the hook alone after 212 s."""
HEAL_SECONDS = 60
DOWN_SECONDS, BACK_SECONDS = 90, 45
TWINS_SECONDS = 80
"""Two of a broker's registrations, which are 30 s apart, and as many polls."""
_INSTALL_SECONDS_MAX = 300
_LEAVE_SECONDS_MAX = 60


class Run(msgspec.Struct, frozen=True):
    """The description of a recording."""

    commit: str
    began: int
    ended: int
    steps: tuple[Step, ...]

    def step(self, kind: str) -> Step:
        """Return the step of a kind."""
        return next(one for one in self.steps if one.kind == kind)


class Client:
    """One consumer, from outside."""

    def __init__(self, folder, name, command, **environment):
        """Start it, and wait until it says so."""
        self._log = folder / f"{name}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                list(map(str, command)), stdout=log, stderr=subprocess.STDOUT, cwd=folder, **environment
            )
        eventually(lambda: b"started\n" in self._log.read_bytes(), 120)

    def send(self, number):
        """Send a signal."""
        self._process.send_signal(number)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait(_LEAVE_SECONDS_MAX)


def settings_of(folder):
    """Return a lab whose consumers are those of this run; only `java` has one of the lab's."""
    pulls = {key: _group(key, ordered=key == "orders", consumers=key == "java") for key in GO | {"java": None}}
    pops = {key: _group(key) | {"client": f"grpc-{kind}"} for key, kind in GRPC.items()}
    unused = {key: {"consumers": 0} for key in load_settings().lab.groups if key not in pulls}
    return load_settings(
        runtime={"root": folder, "jars": load_settings().runtime.jars},
        lab={
            "groups": pulls | unused,
            "brokers": 1,
            "kafka": False,
            "messages_per_second": 1.5,
            "pop": True,
            "pop_groups": pops,
        },
    )


GO = {"orders": ("ordered",), "audit": ("concurrent", "1"), "bills": ("concurrent", "2", "retries")}
GRPC = {"letters": "push", "parcels": "simple"}


def _group(key, *, ordered=False, consumers=0):
    return {
        "group": f"{key}-group",
        "topic": key.capitalize(),
        "ordered": ordered,
        "queues": 4,
        "consumers": int(consumers),
    }


def play(folder):
    """Record the run into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    program, settings = build(SOURCES / "consumer", folder), settings_of(folder / "root")
    python = install(folder)
    return recorded(folder, settings, lambda lab: _record(program, python, lab, settings, folder))


def install(folder):
    """Install the clients of Node and Python into the folder; return its Python."""
    (folder / "push.js").write_bytes((CLIENTS / "push.js").read_bytes())
    python = folder / "venv" / "bin" / "python"
    for command in (
        ["npm", "install", "--no-save", "--ignore-scripts", "--prefix", folder, NODE],
        [sys.executable, "-m", "venv", folder / "venv"],
        [python, "-m", "pip", "install", "-q", PYTHON],
    ):
        subprocess.run(list(map(str, command)), check=True, timeout=_INSTALL_SECONDS_MAX, cwd=folder)
    return python


def _record(program, python, lab, settings, folder):
    faults = FieldFaults(settings, lab.name_server)
    with faults.cluster() as cluster:
        grpc = f"{servers.LOOPBACK}:{cluster.state.proxy.grpc}"
    groups = settings.lab.groups | settings.lab.pop_groups

    def names(key):
        return groups[key].group, groups[key].topic

    def simple(name):
        return Client(folder, name, [python, CLIENTS / "consumer.py", grpc, *names("parcels"), "simple"])

    steps = []

    @contextmanager
    def step(kind: str, *clients: str) -> Iterator[None]:
        since = _now()
        print(kind, flush=True)
        yield
        steps.append(Step(kind, clients, since, _now()))

    with ExitStack() as stack, collecting(lab, folder).start() as collector:
        collector.wait_for("round", 300)
        go = {
            key: stack.enter_context(
                Client(folder, key, [program, lab.name_server, *names(key), f"{key}-go", *kind_and_queue])
            )
            for key, kind_and_queue in GO.items()
        }
        stack.enter_context(Client(folder, "node", ["node", folder / "push.js", grpc, *names("letters")]))
        stack.enter_context(
            Client(folder, "python", [python, CLIENTS / "consumer.py", grpc, *names("letters"), "push"])
        )
        parcels = simple("simple")
        stack.callback(parcels.__exit__)
        time.sleep(20)
        began = _now()
        with step("quiet"):
            time.sleep(QUIET_SECONDS)
        with step("hang", "audit-go", "bills-go"):
            for client in (go["audit"], go["bills"], parcels):
                client.send(signal.SIGUSR1)
            with step("reset"):
                faults.end("java-1")
                time.sleep(AWAY_SECONDS)
                print(faults.run("resetOffsetByTime", "-g", names("java")[0], "-t", names("java")[1], "-s", "now"))
                faults.start(groups["java"], "java-1")
            time.sleep(max(0.0, HANG_SECONDS - (_now() - steps[-1].began) / 1000))
            for client in (go["audit"], go["bills"], parcels):
                client.send(signal.SIGUSR2)
        time.sleep(HEAL_SECONDS)
        with step("proxy"):
            with faults.cluster() as cluster:
                cluster.end("proxy", cleanly=False)
            time.sleep(DOWN_SECONDS)
            with faults.cluster() as cluster:
                cluster.start_proxy()
        time.sleep(BACK_SECONDS)
        with step("restart"):  # this client receives nothing ("settings is null") until it is started again
            parcels.__exit__()
            stack.enter_context(simple("simple-again"))
        time.sleep(HEAL_SECONDS)
        with step("twins"), second_broker(settings, lab, folder):
            time.sleep(TWINS_SECONDS)
        ended = _now()
        assert collector.interrupt() == 0, collector.said()
    return Run(commit(), began, ended, tuple(steps))


@contextmanager
def second_broker(settings, lab, folder):
    """Run another broker that registers by the name of the first one."""
    name = "broker-a"
    port = servers.free_port(beside=servers.BROKER_PORTS_BESIDE)
    home = folder / "other" / name
    command = servers.broker_command(jars.ensure("rocketmq", settings.runtime.jars), home, port, lab.name_server)
    process = spawn(command, folder / "other.log", {"JAVA_HOME": str(java_home()), "ROCKETMQ_HOME": str(home)})
    try:
        yield
    finally:
        end(process)


def _now():
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    play(Path(sys.argv[1]))
