"""What a client process is told and what it reports.

It is told through one JSON file that holds all that it shall be; it looks for changes a few times a second. A file
keeps: it can be read by anyone, and a client that is started again finds it. It reports with JSON lines in its log.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

TAGS = ("new", "paid")
"""The producer's messages have the one or the other."""

LOOK_SECONDS = 0.2
"""How often a client looks whether it was told something new."""


class Queue(msgspec.Struct, frozen=True, order=True):
    """A MessageQueue."""

    topic: str
    broker: str
    queue_id: int


class ConsumerOrders(msgspec.Struct, frozen=True):
    """A consumer: what it is, and how its listener behaves."""

    name: str
    jars: list[str]
    name_server: str
    group: str
    topic: str
    ordered: bool
    instance: str
    """The client id is 127.0.0.1@<instance>: two processes with the same are one client to the brokers."""
    expression: str = "*"
    """Which tags of the topic it subscribes."""
    strategy: str = "AllocateMessageQueueAveragely"
    """The class, one of RocketMQ's own, by which it works out its queues."""
    pull_interval_ms: int = 0
    hang: bool = False
    """The listener blocks until this is false again."""
    poison: bool = False
    """The listener refuses the first message that it now gets, until this is false again."""
    queue_id: int | None = None
    """Where it hangs or is poisoned; None: everywhere, or wherever the first message comes from."""
    broker: str = ""
    """Only on this broker's queues; empty: on every broker's."""
    cut: bool = False
    """The network between it and every server is cut, until this is false again."""


class ProducerOrders(msgspec.Struct, frozen=True):
    """The producer, who also sees to it that the topics are there with their number of queues."""

    name: str
    jars: list[str]
    name_server: str
    brokers: dict[str, str]
    """Those that run: their addresses, by name."""
    topics: dict[str, int]
    """The queues that each shall have on every one of these brokers."""
    messages_per_second: float


class Report(msgspec.Struct, omit_defaults=True):
    """One thing that a client says."""

    event: str
    time: int = 0
    queues: list[Queue] = []
    """owns: all that it owns by its own ProcessQueue table. poisoned: the message's queue."""
    topics: dict[str, int] = {}
    """topics: the number of read queues that each has on every broker, as the name server's route has it."""
    remark: str = ""


OrdersT = TypeVar("OrdersT", bound=ConsumerOrders | ProducerOrders)
_reports = msgspec.json.Decoder(Report)


class Told(Generic[OrdersT]):
    """The client's side of its file."""

    def __init__(self, path: Path, kind: type[OrdersT]) -> None:
        self._path = path
        self._kind: type[OrdersT] = kind
        self._stamp = path.stat().st_mtime_ns
        self.orders: OrdersT = told(path, kind)

    def news(self) -> OrdersT | None:
        """The orders, if they changed since the last look."""
        stamp = self._path.stat().st_mtime_ns
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        self.orders = told(self._path, self._kind)
        return self.orders


def tell(path: Path, orders: ConsumerOrders | ProducerOrders) -> None:
    """The lab's side: replace the file as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.format(msgspec.json.encode(orders)))
    new.replace(path)


def told(path: Path, kind: type[OrdersT]) -> OrdersT:
    """What a client was told last."""
    return msgspec.json.decode(path.read_bytes(), type=kind)


def report(said: Report) -> None:
    """The client's side: say something."""
    said.time = time.time_ns() // 1_000_000
    sys.stdout.write(msgspec.json.encode(said).decode() + "\n")
    sys.stdout.flush()


def reports(log: Path, offset: int = 0) -> Iterator[Report]:
    """The lab's side: all that a client said after a place in its log. The JVM's own lines are passed over."""
    try:
        with log.open("rb") as file:
            file.seek(offset)
            lines = file.read().split(b"\n")[:-1]  # what follows the last line feed is not yet a line
    except FileNotFoundError:
        return
    for line in lines:
        try:
            yield _reports.decode(line)
        except msgspec.DecodeError:
            continue
