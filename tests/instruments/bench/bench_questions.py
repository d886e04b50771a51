"""The cost of polling offsets (208) and waiting times (303): ``python -m tests.instruments.bench questions``.

A group has committed offsets and some lag on every queue; a client sends one request at a time, in rounds that
alternate between the two kinds.
"""

import statistics
import tempfile
import time
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from streaming.lab.processes import ProcessId
from tests.support import hooked

TOPIC, GROUP = "Load", "load"
OFFSETS, TIME_SPANS = 208, 303
FIELDS = {OFFSETS: {"consumerGroup": GROUP}, TIME_SPANS: {"topic": TOPIC, "group": GROUP}}


def main(queues: int = 8, messages: int = 2_000, rounds: int = 20, calls: int = 500) -> None:
    """Measure and print the results."""
    with (
        tempfile.TemporaryDirectory(prefix="rebalance-watch-bench-") as folder,
        hooked.broker(Path(folder), spool=None, swift=True) as broker,
        hooked.Client(broker.address) as client,
    ):
        client.make(TOPIC, GROUP, queues=queues)
        for number in range(messages):
            assert client.ask(hooked.SEND, hooked.send(number % queues, topic=TOPIC), b"x" * 200).code == 0
        for queue_id in range(queues):
            behind = messages // queues // 2
            client.ask(hooked.UPDATE_OFFSET, hooked.commit(GROUP, queue_id, behind, topic=TOPIC))
        time.sleep(2)  # the consume queues follow the commit log
        for code in FIELDS:
            _ask(client, code, broker.process, 5_000)  # the JVM compiles
        turns = [{code: _ask(client, code, broker.process, calls) for code in FIELDS} for _ in range(rounds)]
    table = Table("question", "µs a call", "µs of the broker's processor a call", title=f"{queues} queues")
    for code in FIELDS:
        wall, cpu = (statistics.median(turn[code][column] for turn in turns) for column in (0, 1))
        table.add_row(str(code), f"{wall:.0f}", f"{cpu:.0f}")
    Console().print(table)


def _ask(client: hooked.Client, code: int, process: ProcessId, calls: int) -> tuple[float, float]:
    """Return the time of one call, and the broker's processor time for it; microseconds."""
    began, cpu_began = time.perf_counter(), _cpu(process)
    for _ in range(calls):
        assert client.ask(code, FIELDS[code]).code == 0
    return (time.perf_counter() - began) / calls * 1e6, (_cpu(process) - cpu_began) / calls / 1e3


def _cpu(process: ProcessId) -> int:
    threads = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads)


if __name__ == "__main__":
    typer.run(main)
