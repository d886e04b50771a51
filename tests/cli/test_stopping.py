"""A process that runs on ends soon after SIGINT or SIGTERM, at whatever moment it comes."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest
from pyspark import java_gateway

from checkpoints.generation import claimed
from schemas.tables import TABLES
from streaming.cli.maintain import _failure
from streaming.pipeline.session import _ends_with_this_process
from tests.support.basis import BASIS
from tests.support.counted_cluster import CountedCluster
from tests.support.tables import append_rows, small_row

SIGNALS = (signal.SIGINT, signal.SIGTERM)
ENDED = 60.0
"""On a machine that is busy with other tests; one that has eaten a signal never ends."""
PROCESSES = {
    "maintain": ["maintain", "--every", "1s"],
    "dashboard": ["dashboard", "--port", "0"],
    "metrics": ["metrics", "--port", "0"],
    "alert": ["alert", "run"],
    "collect": ["collect", "poll"],
    "spool": ["collect", "spool", "{root}/spool"],
    "mcp": ["mcp"],
    "run": ["run"],
    "up": ["up"],
}
MOMENTS = 100
OF_ALERTING = {"anomalies", "alert_controls", "alert_deliveries"}
"""Tables whose rows `alert run` reads: the values of a small row are none of theirs."""
EATEN = """
import os, signal, sys, time
from streaming.cli import main
from streaming.tables import maintenance

number, root = int(sys.argv[1]), sys.argv[2]

def eat(*_given, **_named):
    os.kill(os.getpid(), number)
    try:
        time.sleep(0.5)
    except BaseException:  # as a library that calls back has done
        pass
    raise maintenance.UserError("The round has failed.")

maintenance.maintain = eat
sys.argv = ["rebalance-watch", "--root", root, "maintain", "--every", "1s", "--table", "anomalies"]
main.main()
"""


@pytest.fixture
def root(tmp_path):
    with claimed(tmp_path / "checkpoints", tmp_path / "tables", BASIS):
        for table in set(TABLES) - OF_ALERTING:
            for _ in range(3):
                append_rows(tmp_path / "tables", table, [small_row(table) | {"date": 1}])
    return tmp_path


@pytest.fixture
def new_root(tmp_path):
    """Give a root without tables, and a log of files for the job, which makes them."""
    (tmp_path / "new" / "log").mkdir(parents=True)
    return tmp_path / "new"


@pytest.fixture
def name_server():
    """Give the address of a server that answers, so that `collect poll` goes on."""
    with CountedCluster(["g"]) as cluster:
        yield cluster.address


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.prove)], ids=lambda number: number.name
)
def test_maintain_ends_though_a_library_eats_the_exception(root, number):
    command = [sys.executable, "-c", EATEN, str(int(number)), str(root)]
    ended = subprocess.run(command, timeout=ENDED, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("The round has failed.") == 1
    assert "stopped" in ended.stderr


@pytest.mark.parametrize(
    "error", [duckdb.InterruptException("INTERRUPT Error: Interrupted!"), RuntimeError("Query interrupted")]
)
def test_an_interrupted_query_is_an_interruption_and_no_failure(error):
    def work() -> None:
        raise error

    with pytest.raises(KeyboardInterrupt):
        _failure("anomalies", work)


STARTING = """
import importlib, os, signal, sys, time
from streaming.cli import __main__

root, command, module, name = sys.argv[1:]

def eat(*_given, **_named):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(600)
    except BaseException:  # as pydantic's core does, and Python where an object is deleted
        time.sleep(600)

setattr(importlib.import_module(module), name, eat)
sys.argv = ["rebalance-watch", "--root", root, command]
__main__.main()
"""


@pytest.mark.parametrize(
    "step",
    [
        "run streaming.pipeline.job running",
        "up streaming.cli.up load_settings",
        "metrics streaming.cli.serve load_settings",
    ],
)
def test_a_command_that_is_still_starting_ends_at_once(new_root, step):
    ended = subprocess.run([sys.executable, "-c", STARTING, str(new_root), *step.split()], timeout=ENDED, check=False)
    assert ended.returncode == -signal.SIGINT


def test_only_the_jvm_ignores_sigterm_even_while_it_starts():
    former = signal.getsignal(signal.SIGTERM)
    with _ends_with_this_process():
        jvm = java_gateway.Popen(["sleep", "600"], preexec_fn=lambda: None)
        assert signal.getsignal(signal.SIGTERM) is former
    try:
        status = Path(f"/proc/{jvm.pid}/status").read_text("utf-8")
        ignored = int(re.search(r"SigIgn:\s+(\w+)", status)[1], 16)
        assert ignored & 1 << signal.SIGTERM - 1
    finally:
        jvm.kill()
        jvm.wait()


def start(name: str, root: Path, name_server: str) -> subprocess.Popen[bytes]:
    arguments = [one.format(root=root) for one in PROCESSES[name]]
    (root / "spool").mkdir(exist_ok=True)
    alerts = root / "alerts.toml"
    alerts.write_text('[channels.log]\nkind = "webhook"\nurl = "http://127.0.0.1:9/"\n[[routes]]\nchannels = ["log"]\n')
    environment = os.environ | {
        "REBALANCE_WATCH_SOURCE__KIND": "files",
        "REBALANCE_WATCH_ALERTS__FILE": str(alerts),
        "REBALANCE_WATCH_COLLECTOR__NAME_SERVERS": f'["{name_server}"]',
        "REBALANCE_WATCH_QUALITY__CHECK_SECONDS": "1",
        "REBALANCE_WATCH_WEB__PORT": "0",
    }
    command = [sys.executable, "-m", "streaming.cli", "--root", str(root), *arguments]
    nowhere = subprocess.DEVNULL
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what runs in its background ignore it
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere)


def stopped_at_random(name: str, root: Path, name_server: str, chance: random.Random, longest: float) -> float:
    """Start a process and end it at a random moment; return the seconds that the end takes."""
    with start(name, root, name_server) as process:
        try:
            time.sleep(chance.uniform(0.2, longest))
            assert process.poll() is None, "it has ended by itself"
            asked = time.monotonic()
            process.send_signal(chance.choice(SIGNALS))
            process.wait(ENDED)
            return time.monotonic() - asked
        finally:
            process.kill()


def test_maintain_and_its_checks_end_at_a_random_moment(root):
    stopped_at_random("maintain", root, "127.0.0.1:9", random.Random(), 4.0)


@pytest.mark.prove
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("name", PROCESSES)
def test_each_process_ends_at_a_hundred_random_moments_in_10_s(root, new_root, name_server, name, record_property):
    chance, place = random.Random(name), new_root if name in {"run", "up"} else root
    longest = max(stopped_at_random(name, place, name_server, chance, 15.0) for _ in range(MOMENTS))
    record_property("moments, longest end", f"{MOMENTS}, {longest:.1f} s")
    assert longest < 10.0
