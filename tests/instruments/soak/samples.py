"""Measure the processes, files and positions of a running chain, every ten seconds, into a file.

A sample is one line of JSON. What could not be measured is missing in it, with the reason in ``failed``: a process may
end while it is looked at, and Kafka may be away.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event, Thread

import httpx
import msgspec
from deltalake import DeltaTable

from checkpoints.manifest import ARCHIVE, OPERATOR
from checkpoints.position import position_of_query
from streaming.base.settings import Settings
from streaming.log.kafka import offsets_of
from streaming.log.kafka_properties import KafkaConnection
from streaming.pipeline.spark_properties import WORKER_DAEMON
from tests.instruments.soak.records import PART_OF, Files, Sample, Used
from tests.support.processes import command_of, descendants, parents

EVERY_SECONDS = 10.0
FILES_EVERY = 6
"""Every how many samples files are counted."""
PARTS = set(PART_OF.values()) - {""}
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def pids_by_kind(up: int) -> dict[str, list[int]]:
    """Return the processes below `up`: its parts, and of the job also ``jvm``, ``daemon`` and ``workers``."""
    parent_of, pids = parents(), defaultdict(list)
    for child in [pid for pid, parent in parent_of.items() if parent == up]:
        words = [word.decode() for word in command_of(child)]
        part = next((word for word in words if word in PARTS), "")
        if not part:
            continue
        pids[part].append(child)
        for pid in descendants(child):
            command = command_of(pid)
            if part == "run" and command and command[0].endswith(b"/java"):
                pids["jvm"].append(pid)
            elif part == "run" and WORKER_DAEMON.encode() in command:
                is_worker = WORKER_DAEMON.encode() in command_of(parent_of.get(pid, 0))
                pids["workers" if is_worker else "daemon"].append(pid)
            else:
                pids[f"{part} children"].append(pid)
    return dict(pids)


def used_by(pids: list[int]) -> Used:
    """Return what these processes use together; one that has ended uses nothing."""
    used = Used()
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            files = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208  only their number
        except OSError:
            continue
        used.processes += 1
        used.rss += int(fields[21]) * _PAGE
        used.files += files
        used.cpu += (int(fields[11]) + int(fields[12])) / _TICKS
    return used


def files_below(folder: Path) -> Files:
    """Count files and bytes; what disappears meanwhile is not counted."""
    counted, folders = Files(), [str(folder)]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    counted.bytes += entry.stat(follow_symlinks=False).st_size
                    counted.files += 1
            except OSError:
                continue
    return counted


class Sampler:
    """Takes samples in a thread until it is closed."""

    def __init__(self, file: Path, settings: Settings, probe: str, pids: Callable[[], Mapping[str, list[int]]]) -> None:
        """Prepare; ``pids`` returns the processes of each kind at this moment."""
        self._file = file
        self._settings = settings
        self._probe = probe
        self._pids = pids
        self._kafka = KafkaConnection(settings.source.bootstrap_servers)
        self._over = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(120)

    def _run(self) -> None:
        number, due = 0, time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            due = max(due + EVERY_SECONDS, time.monotonic())
            line = msgspec.json.encode(self.sample(with_files=number % FILES_EVERY == 0))
            with self._file.open("ab") as file:
                file.write(line + b"\n")
            number += 1

    def sample(self, *, with_files: bool) -> Sample:
        """Look at everything once."""
        ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        busy = (sum(ticks) - ticks[3] - ticks[4]) / _TICKS
        sample = Sample(time.time_ns() // 1_000_000, os.getloadavg()[0], busy)
        steps: list[Callable[[Sample], None]] = [self._processes, self._positions, self._readiness]
        for step in [*steps, *([self._files, self._scrape] if with_files else [])]:
            try:
                step(sample)
            except Exception as error:  # noqa: BLE001  a sample with a gap is better than none
                sample.failed.append(f"{step.__name__}: {type(error).__name__}: {error}"[:300])
        return sample

    def _processes(self, sample: Sample) -> None:
        sample.processes = {kind: used_by(pids) for kind, pids in self._pids().items()}

    def _positions(self, sample: Sample) -> None:
        ends = {partition: end for partition, (_, end) in offsets_of(self._kafka, self._settings.source.topic).items()}
        sample.end = ends
        for query in (OPERATOR, ARCHIVE):
            position = position_of_query(self._settings.runtime.checkpoints / query)
            sample.lag[query] = sum(end - position.get(partition, 0) for partition, end in ends.items())

    def _readiness(self, sample: Sample) -> None:
        answer = httpx.get(f"{self._probe}/readyz", timeout=10).json()
        sample.not_ready = [f"{task['task']}: {task['reason']}" for task in answer["tasks"] if not task["ready"]]

    def _files(self, sample: Sample) -> None:
        runtime = self._settings.runtime
        for folder in sorted(runtime.tables.glob("*/_delta_log")):
            counted = files_below(folder.parent)
            counted.live = len(DeltaTable(folder.parent).file_uris())
            sample.files[f"table {folder.parent.name}"] = counted
        for query in (OPERATOR, ARCHIVE):
            sample.files[f"checkpoint {query}"] = files_below(runtime.checkpoints / query)
        for name in ("spark", "logs", "cache"):
            sample.files[name] = files_below(runtime.root / name)

    def _scrape(self, sample: Sample) -> None:
        """Ask the dashboard for what Prometheus and a page ask it for."""
        begin = time.monotonic()
        with httpx.Client(base_url=f"http://127.0.0.1:{self._settings.web.port}", timeout=60) as client:
            client.get("/metrics").raise_for_status()
            client.get("/api/v1/groups").raise_for_status()
        sample.scrape = time.monotonic() - begin
