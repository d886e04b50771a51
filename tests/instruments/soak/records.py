"""Records of a soak in its folder (`run.json`, `faults.jsonl`, `samples.jsonl`), written and read."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from tests.instruments.faults.run import Played
from tests.instruments.soak.sender import Sent

PARTITIONS = 8
PART_OF = {
    "job": "run", "jvm": "run", "workers": "run", "collect": "collect", "maintain": "maintain", "alert": "alert",
    "dashboard": "dashboard", "kafka": "",
}  # fmt: skip
"""Our processes that are killed, and the part of `up` to which each belongs; Kafka: to none."""
STARTS_AGAIN_ALONE = {"workers", "kafka"}
"""Those whose part of `up` does not end with them."""


class Fault(msgspec.Struct):
    """One line of `faults.jsonl`; times are epoch milliseconds."""

    time: int
    kind: str
    """lab, ours, or failure: something that must not happen."""
    what: str
    back: int | None = None
    """When all was ready again, by the probe of `up`; None: not within the time."""
    played: Played | None = None
    """Of the lab: the whole case."""


class Run(msgspec.Struct):
    """The description of a run."""

    minutes: float
    rate: int
    seed: int
    commit: str
    date: str
    cores: int
    began: int
    """When the first fault could come; epoch milliseconds, like `ended`."""
    ended: int = 0
    """When the last fault had healed; 0: the run broke off."""
    up_code: int | None = None
    """The exit code of `up` at its end."""
    rest_code: int | None = None
    """The exit code of the run that processes the rest of the log."""
    offsets: dict[int, tuple[int, int]] = {}
    """Kafka's first and next offset of each partition at the end."""


class Used(msgspec.Struct):
    """The resources that the processes of one kind use together."""

    processes: int = 0
    rss: int = 0
    """Bytes; pages that several processes share are counted in each."""
    files: int = 0
    """Open file descriptors."""
    cpu: float = 0.0
    """Seconds of processor time since each was started."""


class Files(msgspec.Struct):
    """The files below a folder."""

    files: int = 0
    bytes: int = 0
    live: int | None = None
    """Those of the newest version of a Delta table."""


class Sample(msgspec.Struct):
    """One look at everything; times are epoch milliseconds."""

    time: int
    load: float
    cpu: float
    """Seconds of processor time that all processes of the machine have used since it was started."""
    processes: dict[str, Used] = {}
    lag: dict[str, int] = {}
    """Rows of the log that a query has not finished yet."""
    end: dict[int, int] = {}
    """The offset after the last row of each partition."""
    not_ready: list[str] = []
    """The tasks that are not ready by the probe of `up`, with their reasons."""
    files: dict[str, Files] = {}
    scrape: float | None = None
    """Seconds until the dashboard has answered with its metrics and all groups."""
    failed: list[str] = []


def lines_of(file: Path, kind: type) -> list:
    """Return the records of a file; the last line may be torn, if the run was killed."""
    if not file.exists():
        return []
    return [msgspec.json.decode(line, type=kind) for line in file.read_bytes().split(b"\n")[:-1]]


class Soaked:
    """The content of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = msgspec.json.decode((folder / "run.json").read_bytes(), type=Run)
        self.samples = lines_of(folder / "samples.jsonl", Sample)
        self.faults = sorted(lines_of(folder / "faults.jsonl", Fault), key=lambda one: one.time)
        self.sent = [msgspec.json.decode(file.read_bytes(), type=Sent) for file in folder.glob("sent-*.json")]
        self.tables = folder / "root/tables"
        self.said = list(_lines(folder / "up.log"))

    def minute(self, time: int) -> float:
        """Return the minutes from the first sample to a time."""
        return (time - self.samples[0].time) / 60_000


def _lines(log: Path) -> Iterator[dict]:
    for line in log.read_bytes().splitlines():
        try:
            one = msgspec.json.decode(line, type=dict)
            yield one | {"ms": one.get("ms"), "at": int(datetime.fromisoformat(one["time"]).timestamp() * 1000)}
        except (msgspec.DecodeError, KeyError, ValueError):
            yield {"event": line.decode("utf-8", "replace"), "at": 0}
