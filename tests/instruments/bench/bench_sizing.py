"""Needs of 100 and 1,000 groups: ``python -m tests.instruments.bench sizing``, by polls and hooks, with the archive.

Ten groups of three clients and ten queues, all busy, are simulated with a collector and a hook, and copied under
other names. `run --available-now` processes their log: the processor time of its processes, the highest memory of each,
and the bytes of the tables, as the job writes them and after one round of `maintain`; copies of a group are compressed
better than other groups. The start of the processes costs the same at each size, so the cost of an event is the
difference of two sizes, where both are measured.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import msgspec
import pyarrow as pa
import typer
from deltalake import DeltaTable
from rich.console import Console

from rebalance_model.observe.events import AnyEvent, GroupEvent
from simulation import scenario
from streaming.base.settings import load_settings
from streaming.log.files import FilePublisher
from streaming.log.rows import publish
from tests.instruments.bench.bench_job import set_times
from tests.instruments.bench.bench_memory import Peaks, part_of_job, watched
from tests.instruments.figures import keep
from tests.live.commands import Command
from tests.support.processes import descendants, processor_seconds
from tests.support.simulated import simulate

SIMULATED, CLIENTS, QUEUES = 10, 3, 10
SECONDS = {100: 90, 1_000: 30}
"""How long the telemetry of so many groups is."""
ENDS = 3_600
COPY = "Zz"
"""In every name of the simulated groups, in place of the number of the copy."""


def main(
    groups: Annotated[list[int] | None, typer.Option(help=f"Consumer groups: {', '.join(map(str, SECONDS))}.")] = None,
) -> None:
    """Measure, print the results beside the last ones, and keep them."""
    figures: dict[str, float] = {}
    for size in groups or SECONDS:
        with TemporaryDirectory(prefix="rebalance-watch-bench-") as folder:
            of_size = _measured(Path(folder), size)
        figures |= {f"{size:,} groups: {name}": value for name, value in of_size.items()}
    figures["load at the end"] = os.getloadavg()[0]
    Console(width=140).print(keep("sizing", figures))


def _measured(root: Path, groups: int) -> dict[str, float]:
    settings = load_settings()
    counts = _write_log(root / "log", settings.source.partitions, groups)
    given = {
        "RUNTIME__ROOT": root, "RUNTIME__JARS": settings.runtime.jars, "SOURCE__KIND": "files",
        "SOURCE__FILES_PER_BATCH": 2 * settings.source.partitions,
    }  # fmt: skip
    peaks: Peaks = {}
    job = Command(root, given, "run")
    with job, watched(job.start("--available-now").pid, part_of_job, peaks):
        spent, ends = dict[int, float](), time.monotonic() + ENDS
        while job.is_running and time.monotonic() < ends:
            spent |= {pid: used for pid in (job.pid, *descendants(job.pid)) if (used := processor_seconds(pid))}
            time.sleep(0.5)
        assert not job.is_running, job.said()
    events = counts.total()
    written = _bytes(root / "tables")
    tables = {f"{name} a second, as written": size / SECONDS[groups] for name, size in written.items()}
    with Command(root, given, "maintain") as maintained:
        maintained.start()
        while maintained.is_running:
            time.sleep(0.2)
    merged = _bytes(root / "tables")
    return {
        **{f"events a second of {source}": count / SECONDS[groups] for source, count in counts.items()},
        "events": events,
        "processor seconds in all": sum(spent.values()),
        "µs an event, with the start": sum(spent.values()) / events * 1e6,
        **{f"MB at most, {name}": peak / 1e6 for name, peak in peaks.items()},
        **{f"bytes of {name}": value for name, value in tables.items()},
        **{f"bytes of {name} a second, merged": size / SECONDS[groups] for name, size in merged.items()},
        "bytes of telemetry an event, as written": written["telemetry"] / events,
        "bytes of telemetry an event, merged": merged["telemetry"] / events,
    }


def _write_log(log: Path, partitions: int, groups: int) -> Counter[str]:
    """Write the log, each partition in ten files; return the number of events of each kind of source."""
    counts = Counter[str]()

    def counted() -> Iterator[AnyEvent]:
        for event in _telemetry(groups):
            counts["hooks" if event.source_id.startswith("hook") else "polls"] += 1
            yield event

    size = SECONDS[groups] * groups * 9 * 350 // (10 * partitions)
    with FilePublisher(log, partitions, file_bytes_max=size, roll_seconds=1e9) as publisher:
        publish(publisher, counted())
    set_times(log, partitions)
    return counts


def _telemetry(groups: int) -> Iterator[AnyEvent]:
    """Yield the events of so many groups, in the order of time."""
    topics = [f"Topic{number}{COPY}" for number in range(SIMULATED)]
    made = scenario.read({
        "title": "sizing",
        "minutes": SECONDS[groups] / 60,
        "topics": [{"name": topic, "queues": QUEUES, "messages_per_second": 2 * QUEUES} for topic in topics],
        "groups": [
            {
                "name": f"group-{number}{COPY}", "called": f"c{number}{COPY}", "topics": [topic],
                "ordered": number % 2 == 0, "consumers": CLIENTS,
            }
            for number, topic in enumerate(topics)
        ],
    })  # fmt: skip
    for event in simulate(made).events:
        if not isinstance(event, GroupEvent):
            yield event
            continue
        value = msgspec.json.encode(event)
        for copy in range(groups // SIMULATED):
            yield msgspec.json.decode(value.replace(COPY.encode(), b"-%d" % copy), type=AnyEvent)


def _bytes(folder: Path) -> dict[str, int]:
    """Return the bytes of the rows of each table that has some: those of its present files."""
    sizes = {path.name: _size(path) for path in sorted(folder.iterdir()) if (path / "_delta_log").is_dir()}
    return {name: size for name, size in sizes.items() if size}


def _size(table: Path) -> int:
    return sum(pa.table(DeltaTable(table).get_add_actions(flatten=True)).column("size_bytes").to_pylist())


if __name__ == "__main__":
    sys.exit(typer.run(main))
