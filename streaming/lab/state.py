"""The lab's state between two commands: `lab.json`, and the log of its faults."""

from pathlib import Path
from typing import Literal

import msgspec

from streaming.base.errors import UserError
from streaming.base.files import FileLock, replace_atomically
from streaming.base.sections.lab import Replication
from streaming.lab.control import LabQueue
from streaming.lab.processes import ProcessId

Role = Literal["name server", "broker", "proxy", "kafka", "producer", "consumer"]


class LabProcess(msgspec.Struct, frozen=True):
    """One process of the lab."""

    name: str
    role: Role
    process: ProcessId
    group: str = ""
    client_id: str = ""


class ActiveFault(msgspec.Struct, frozen=True):
    """A fault that is not cured yet."""

    kind: str
    client: str
    """The name of the consumer, topic or broker; all-gone: the key of the group."""
    client_id: str
    time: int
    queue: LabQueue | None = None
    former_queues: int = 0
    """add-queues: the number of queues that the cure restores."""


class KafkaPorts(msgspec.Struct, frozen=True):
    """The ports of the Kafka node."""

    broker: int
    controller: int
    administration: int = 0
    """The listener of the node itself, in a secured lab."""


class ProxyPorts(msgspec.Struct, frozen=True):
    """The ports of the proxy."""

    grpc: int
    remoting: int


class LabState(msgspec.Struct):
    """The content of `lab.json`."""

    name_server_port: int
    brokers: dict[str, int]
    """The ports of the brokers, by name."""
    hook: bool = False
    """True if brokers that are started from now on have the broker hook."""
    kafka: KafkaPorts | None = None
    proxy: ProxyPorts | None = None
    """Ports of the proxy; only in a lab with groups that pop."""
    secured: bool = False
    """True if servers accept only TLS and known users (`streaming.lab.security`)."""
    replication: Replication = "none"
    second_replicas: dict[str, int] = {}
    """The ports of the brokers' second replicas, by the names of their processes."""
    controller_port: int = 0
    """The port of the controller in the name server; 0: there is none."""
    topics: dict[str, int] = {}
    """The number of queues of each topic on every broker."""
    members: dict[str, LabProcess] = {}
    faults: list[ActiveFault] = []


class FaultRecord(msgspec.Struct, frozen=True):
    """One line of `faults.jsonl`: the effect on the cluster, and what a monitor should report."""

    time: int
    """Epoch milliseconds at which it began."""
    done: int
    """Epoch milliseconds at which it took effect: a process started or ended, a message refused, a route changed."""
    kind: str
    cure: bool
    client: str
    client_id: str
    group: str
    queue: LabQueue | None
    expect: str
    broker: str = ""


class LabFolder:
    """The lab's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fault_log = folder / "faults.jsonl"
        self.spool = folder / "spool"
        self.security = folder / "security"
        self._file = folder / "lab.json"

    def log(self, name: str) -> Path:
        """Return the file with a process's output."""
        return self.folder / "logs" / f"{name}.log"

    def data(self, name: str) -> Path:
        """Return a process's own folder: stores, configurations, RocketMQ's logs."""
        return self.folder / "data" / name

    def orders(self, name: str) -> Path:
        """Return the file with the orders of a client process."""
        return self.folder / "data" / f"{name}.json"

    def load(self) -> LabState | None:
        """Return the state; None if no lab is up.

        Raises:
            UserError: the file was written by another version.
        """
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=LabState)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise UserError(f"{self._file} can't be read ({error}): end its processes by hand and remove it.") from None

    def save(self, state: LabState | None) -> None:
        """Replace the state; None: the lab is down."""
        if state is None:
            self._file.unlink(missing_ok=True)
            return
        replace_atomically(self._file, msgspec.json.format(msgspec.json.encode(state)), durable=False)

    def record(self, record: FaultRecord) -> None:
        """Append to the fault log."""
        with self.fault_log.open("ab") as file:
            file.write(msgspec.json.encode(record) + b"\n")

    def locked(self) -> FileLock:
        """Lock the lab for one command; others wait."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self.folder / ".lock")
