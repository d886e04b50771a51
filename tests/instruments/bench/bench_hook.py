"""`python -m tests.instruments.bench.bench_hook`: the cost of the hook for a broker.

There are two brokers with the same configuration, one with the hook. One client repeatedly sends a message and pulls
it, on several threads, in short rounds that alternate between the two brokers (A B, B A, …), so that other load on the
machine affects both equally. Each round is compared with its neighbour: the results are medians of these ratios, their
confidence intervals, and the spread of the ratios. The broker's processor time per call is the more precise measure,
because other load changes it little.
"""

import math
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from streaming.base.java import java_executable
from streaming.lab.processes import ProcessId
from tests.support import hooked

WITHOUT, WITH = "broker-without", "broker-with"
TOPIC = "Load"
LOSS_MAX = 0.02


@dataclass(frozen=True)
class Round:
    """One round at one broker."""

    pairs: int
    nanos: int
    send_p50: int
    send_p99: int
    pull_p50: int
    pull_p99: int
    cpu_nanos: int
    """The broker's processor time."""

    @property
    def pairs_per_second(self) -> float:
        return self.pairs / self.nanos * 1e9

    @property
    def cpu_by_pair(self) -> float:
        return self.cpu_nanos / self.pairs / 1e3


def main(
    rounds: Annotated[int, typer.Option(help="Rounds at each broker.")] = 300,
    round_ms: Annotated[int, typer.Option(help="Duration of a round.")] = 250,
    threads: Annotated[int, typer.Option(help="Threads of the client.")] = 4,
    warm_up: Annotated[int, typer.Option(help="Rounds that are not counted: the JVMs still compile.")] = 60,
) -> None:
    """Measure and print the results."""
    console = Console()
    jars = hooked.rocketmq_jars()
    with tempfile.TemporaryDirectory(prefix="rebalance-watch-bench-") as folder, ExitStack() as stack:
        home = Path(folder)
        names = stack.enter_context(hooked.name_server(home / "names", jars))
        brokers = {
            name: stack.enter_context(
                hooked.broker(home / name, spool=spool, name=name, name_server=names.address, swift=True)
            )
            for name, spool in ((WITHOUT, None), (WITH, home / "spool"))
        }
        for broker in brokers.values():
            with hooked.Client(broker.address) as client:
                client.make(TOPIC, "load", queues=threads)
        pids = {name: broker.process for name, broker in brokers.items()}
        class_path = _client_jars([home / WITH / hooked.JAR, *jars])
        java = [java_executable(), "-Xmx256m", f"-Drebalance.watch.spool={home / 'cost'}", "-cp", class_path]
        command = [*java, _java("HookLoad"), names.address, TOPIC, threads, rounds + warm_up, round_ms, WITHOUT, WITH]
        measured = _measure(command, pids, home / "load.log")
        time.sleep(2)  # the last sums of pulls
        reported, writer = hooked.spooled(home / "spool"), _cpu(pids[WITH], "rebalance-watch")
        cost = _cost(java)
    pairs = list(zip(measured[WITHOUT][warm_up:], measured[WITH][warm_up:], strict=True))
    _print(console, pairs)
    pulled = sum(one.count for one in reported if type(one).__name__ == "PullMessage")
    sent = sum(one.pairs for one in measured[WITH])
    lost = sum(one.count for one in reported if type(one).__name__ == "TelemetryLost")
    console.print(
        f"{pulled:,} of {sent:,} pulls reported, {lost:,} reported as lost; "
        f"the hook's own thread took {writer / sent / 1e3:.1f} µs of processor time per pair",
        highlight=False,
    )
    console.print(f"the RPC's own thread, ns of processor time per call: {cost}", highlight=False)


def _java(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.java")


def _client_jars(jars: list[Path]) -> str:
    """Return the class path without the servers' jars, which contain their own log configuration."""
    return ":".join(str(jar) for jar in jars if not jar.name.startswith(("rocketmq-broker-", "rocketmq-namesrv-")))


def _cost(java: list[object]) -> str:
    """Measure the cost of a call of each kind for the RPC's own thread."""
    command = [str(part) for part in (*java, _java("HookCost"))]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.split("\t") for line in ran.stdout.splitlines() if "\t" in line]
    return ", ".join(f"{kind} {nanos}" for kind, nanos in lines)


def _measure(command: list[object], pids: dict[str, ProcessId], log: Path) -> dict[str, list[Round]]:
    """Run the load and return the rounds of each broker."""
    rounds_of: dict[str, list[Round]] = {name: [] for name in pids}
    before = {name: _cpu(process) for name, process in pids.items()}
    with log.open("wb") as errors:
        load = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=errors, text=True)
        for name, figures in _lines(load, set(pids)):
            now = _cpu(pids[name])
            rounds_of[name].append(Round(*figures, cpu_nanos=now - before[name]))
            before = {other: _cpu(process) for other, process in pids.items()}
    if load.wait():
        raise SystemExit(f"the load ended: {log.read_text()[-2000:]}")
    return rounds_of


def _lines(load: "subprocess.Popen[str]", names: set[str]) -> Iterator[tuple[str, list[int]]]:
    assert load.stdout is not None
    for line in load.stdout:
        name, *figures = line.split()
        if name in names:
            yield name, [int(one) for one in figures]


def _cpu(process: ProcessId, name: str = "") -> int:
    """Return the processor time of a process's threads, or of those with a name; nanoseconds."""
    total = 0
    for thread in Path(f"/proc/{process.pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            if (thread / "comm").read_text().startswith(name):
                total += int((thread / "schedstat").read_text().split()[0])
    return total


def _print(console: Console, pairs: list[tuple[Round, Round]]) -> None:
    table = Table("", "without", "with", "median ratio", "95 % of the median", "quartiles")
    rows: list[tuple[str, Callable[[Round], float], str]] = [
        ("send + pull, pairs/s", lambda one: one.pairs_per_second, ",.0f"),
        ("send p50, µs", lambda one: one.send_p50 / 1e3, ",.0f"),
        ("send p99, µs", lambda one: one.send_p99 / 1e3, ",.0f"),
        ("pull p50, µs", lambda one: one.pull_p50 / 1e3, ",.0f"),
        ("pull p99, µs", lambda one: one.pull_p99 / 1e3, ",.0f"),
        ("broker's processor time, µs a pair", lambda one: one.cpu_by_pair, ",.1f"),
    ]
    for title, figure, form in rows:
        # a starved round may show no processor time at all
        ratios = sorted(
            figure(with_) / figure(without) for without, with_ in pairs if figure(without) and figure(with_)
        )
        low, middle, high = statistics.quantiles(ratios, n=4)
        sure = _sure(ratios)
        table.add_row(
            title,
            *(format(statistics.median(figure(pair[side]) for pair in pairs), form) for side in (0, 1)),
            f"{middle:.3f}",
            f"{sure[0]:.3f} to {sure[1]:.3f}",
            f"{low:.3f} to {high:.3f}",
        )
    console.print(table)
    low, high = _sure(sorted(with_.pairs_per_second / without.pairs_per_second for without, with_ in pairs))
    verdict = (
        "within" if low >= 1 - LOSS_MAX else "NOT within" if high < 1 - LOSS_MAX else "too uncertain to compare with"
    )
    console.print(
        f"{len(pairs)} pairs of rounds; throughput lost {1 - high:.1%} to {1 - low:.1%}: {verdict} {LOSS_MAX:.0%}",
        highlight=False,
    )


def _sure(ordered: list[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the median, by the ranks of the binomial distribution."""
    half = 1.96 * math.sqrt(len(ordered)) / 2
    middle = len(ordered) / 2
    return ordered[max(0, math.floor(middle - half))], ordered[min(len(ordered) - 1, math.ceil(middle + half))]


if __name__ == "__main__":
    typer.run(main)
