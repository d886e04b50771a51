"""The memory of each process: ``python -m tests.instruments.bench memory``, for a small and a large number of groups.

The commands run as a user starts them: `collect poll` against a server that speaks RocketMQ's protocol, `run` over a
log of 40 rounds of polls, which it processes as fast as it can, and over its tables `alert run` and `dashboard`, of
which lists and pages of groups are requested. Memory is proportional set size (PSS, as in smaps_rollup), which divides
shared pages among the processes that share them; of each process its highest value is printed, and of those of `run`
also the highest sum at one moment.
"""

import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import httpx
import typer
from rich.console import Console
from rich.table import Table

from streaming.base.settings import load_settings
from streaming.log.files import FilePublisher
from streaming.log.rows import publish
from streaming.pipeline.spark_properties import WORKER_DAEMON
from tests.instruments.bench.bench_job import set_times
from tests.instruments.figures import keep
from tests.live.commands import Command
from tests.support.counted_cluster import CountedCluster
from tests.support.processes import command_of, descendants
from tests.support.served import served
from tests.support.telemetry import spread_telemetry

ROUNDS, BATCHES = 40, 5
CLIENTS, QUEUES = 3, 8
SECONDS = 900
COLLECTOR_ROUNDS = 4
PAGES = 30
_ALERTS = """
routes = [{channels = ["nowhere"]}]
channels.nowhere = {kind = "webhook", url = "http://127.0.0.1:9"}
"""

Peaks = dict[str, int]
"""Bytes by process."""


def main(
    groups: Annotated[list[int] | None, typer.Option(help="Numbers of consumer groups: 100 and 1,000.")] = None,
) -> None:
    """Measure and print the results."""
    sizes = groups or [100, 1_000]
    peaks_by_name: dict[str, dict[int, int]] = defaultdict(dict)
    for size in sizes:
        with TemporaryDirectory(prefix="rebalance-watch-bench-") as folder:
            for name, peak in _measured(Path(folder), size).items():
                peaks_by_name[name][size] = peak
    table = Table(
        f"MB at most, groups of {CLIENTS} clients and {QUEUES} queues", *(f"{size:,} groups" for size in sizes)
    )
    for name, peaks in peaks_by_name.items():
        table.add_row(name, *(f"{peaks[size] / 1e6:,.0f}" for size in sizes))
    console = Console(highlight=False)
    console.print(
        table, f"Load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end; job.driver_memory is the default."
    )
    figures = {
        f"{size:,} groups, {name}, MB": peak / 1e6
        for name, peaks in peaks_by_name.items()
        for size, peak in peaks.items()
    }
    console.print(keep("memory", figures, writes=groups is None))


def _measured(root: Path, groups: int) -> Peaks:
    jars = load_settings().runtime.jars
    partitions = load_settings().source.partitions
    given = {
        "RUNTIME__ROOT": root, "RUNTIME__JARS": jars, "SOURCE__KIND": "files", "ALERTS__FILE": root / "alerts.toml",
        "SOURCE__FILES_PER_BATCH": 2 * partitions,
    }  # fmt: skip
    (root / "alerts.toml").write_text(_ALERTS)
    peaks = _of_collector(root / "collector", groups)
    rows = _write_log(root / "log", partitions, groups)
    with Command(root, given, "run") as job:
        with watched(job.start().pid, part_of_job, peaks):
            job.wait_for(f"operator batch {BATCHES - 1}:", SECONDS)
            job.wait_for(f"archive batch {BATCHES - 1}:", SECONDS)
            with Command(root, given, "alert", "run") as alerts:
                alerts.start().wait_for("following", SECONDS)
                with watched(alerts.pid, lambda _: "alert run", peaks):
                    _ask(root, peaks)
        assert job.interrupt() == 0, job.said()
    Console(stderr=True).print(f"{groups:,} groups: {rows:,} events")
    return peaks


def _of_collector(root: Path, groups: int) -> Peaks:
    root.mkdir()
    peaks: Peaks = {}
    with CountedCluster([f"group-{number}" for number in range(groups)], CLIENTS) as cluster:
        servers = f'["{cluster.address}"]'
        given = {
            "RUNTIME__ROOT": root, "SOURCE__KIND": "files", "COLLECTOR__NAME_SERVERS": servers, "LOG__FORMAT": "json"
        }  # fmt: skip
        with Command(root, given, "collect", "poll") as collector:
            with watched(collector.start().pid, lambda _: "collect poll", peaks):
                while collector.is_running and collector.said().count('"event": "round"') < COLLECTOR_ROUNDS:
                    time.sleep(0.2)
            collector.interrupt()
    return peaks


def _write_log(log: Path, partitions: int, groups: int) -> int:
    """Write the log, each partition in two files for each batch; return the number of its events."""
    events = list(spread_telemetry(groups, ROUNDS))
    size = len(events) * 950 // (partitions * BATCHES * 2)
    with FilePublisher(log, partitions, file_bytes_max=size, roll_seconds=1e9) as publisher:
        publish(publisher, events)
    set_times(log, partitions)
    return len(events)


def _ask(root: Path, peaks: Peaks) -> None:
    with served("dashboard", root) as address, httpx.Client(base_url=address, timeout=60) as client:
        [server] = [pid for pid in descendants(os.getpid()) if b"dashboard" in command_of(pid)]
        with watched(server, lambda _: "dashboard", peaks):
            listed = client.get("/api/v1/groups").raise_for_status().json()
            for group in listed[:PAGES]:
                for page in ("", "/queues", "/rebalances", "/lag"):
                    client.get(f"/api/v1/groups/{group['group']}{page}").raise_for_status()
                client.get(f"/group/{group['group']}").raise_for_status()


def part_of_job(pid: int) -> str:
    command = b" ".join(command_of(pid))
    if b"java" in command.split(b" ")[0]:
        return "run: JVM"
    return "run: Python workers" if WORKER_DAEMON.encode() in command else "run: driver"


@contextmanager
def watched(pid: int, name: Callable[[int], str], peaks: Peaks) -> Iterator[None]:
    """Note the highest memory of a process and those below it, by name, until the end of the block."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            sizes = _sizes(pid, name)
            if len(sizes) > 1:
                sizes |= {"run: in all": sum(sizes.values())}
            for part, size in sizes.items():
                peaks[part] = max(peaks.get(part, 0), size)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()


def _sizes(pid: int, name: Callable[[int], str]) -> dict[str, int]:
    sizes: dict[str, int] = defaultdict(int)
    for one in (pid, *descendants(pid)):
        with suppress(FileNotFoundError, ProcessLookupError):
            sizes[name(one)] += _pss(one)
    return sizes


def _pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    sys.exit(typer.run(main))
