"""What the lab knows of itself between two commands: `lab.json`, and the log of its faults."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from streaming.errors import UserError
from streaming.lab.control import Queue
from streaming.lab.processes import ProcessId

Role = Literal["name server", "broker", "kafka", "producer", "consumer"]


class Member(msgspec.Struct, frozen=True):
    """One process of the lab."""

    name: str
    role: Role
    process: ProcessId
    group: str = ""
    client_id: str = ""


class ActiveFault(msgspec.Struct, frozen=True):
    """A fault that has not been cured."""

    kind: str
    client: str
    """The consumer's name; for faults of a topic or a broker the name of that."""
    client_id: str
    time: int
    queue: Queue | None = None
    former_queues: int = 0
    """add-queues: what the cure goes back to."""


class KafkaPorts(msgspec.Struct, frozen=True):
    """Where the Kafka node listens."""

    broker: int
    controller: int


class LabState(msgspec.Struct):
    """The whole of `lab.json`."""

    name_server_port: int
    brokers: dict[str, int]
    """Their ports, by name."""
    hook: bool = False
    """Whether brokers that are started from now on have the broker hook."""
    kafka: KafkaPorts | None = None
    topics: dict[str, int] = {}
    """The queues that each has on every broker."""
    members: dict[str, Member] = {}
    faults: list[ActiveFault] = []


class FaultRecord(msgspec.Struct, frozen=True):
    """One line of `faults.jsonl`: what was done to the cluster, and what a watcher should see."""

    time: int
    """Epoch ms when it began."""
    done: int
    """Epoch ms when the cluster had it: a process started or gone, a message refused, a route changed."""
    kind: str
    cure: bool
    client: str
    client_id: str
    group: str
    queue: Queue | None
    expect: str
    broker: str = ""


class Home:
    """The lab's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fault_log = folder / "faults.jsonl"
        self.spool = folder / "spool"
        self._file = folder / "lab.json"

    def log(self, name: str) -> Path:
        """What a process prints."""
        return self.folder / "logs" / f"{name}.log"

    def data(self, name: str) -> Path:
        """A process's own folder: stores, configurations, RocketMQ's logs."""
        return self.folder / "data" / name

    def orders(self, name: str) -> Path:
        """What a client process is told."""
        return self.folder / "data" / f"{name}.json"

    def load(self) -> LabState | None:
        """The state; None: no lab is up.

        Raises:
            UserError: the file is not this version's.
        """
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=LabState)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise UserError(f"{self._file} can't be read ({error}): end its processes by hand and remove it.") from None

    def save(self, state: LabState | None) -> None:
        """Replace the state as a whole; None: the lab is down."""
        if state is None:
            self._file.unlink(missing_ok=True)
            return
        new = self._file.with_suffix(".new")
        new.write_bytes(msgspec.json.format(msgspec.json.encode(state)))
        new.replace(self._file)

    def record(self, record: FaultRecord) -> None:
        """Append to the fault log."""
        with self.fault_log.open("ab") as file:
            file.write(msgspec.json.encode(record) + b"\n")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One command changes the lab at a time; the others wait."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
