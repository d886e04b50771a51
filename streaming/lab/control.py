"""The orders that the lab gives a client process, and the reports that it returns.

Orders are one JSON file with the complete wanted state of the client, which checks it for changes a few times a second.
A file persists: every process can read it, and a restarted client finds it. Reports are JSON lines in the client's log.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, Literal, TypeVar

import msgspec

from streaming.base.files import replace_atomically
from streaming.base.times import now_ms

TAGS = ("new", "paid")
"""The tags of the producer's messages."""

LOOK_SECONDS = 0.2
"""The interval at which a client checks its orders; seconds."""


class LabQueue(msgspec.Struct, frozen=True, order=True):
    """A MessageQueue."""

    topic: str
    broker: str
    queue_id: int


class ClientSecurity(msgspec.Struct, frozen=True):
    """The security of a client of a secured cluster; orders do not contain the password."""

    tls_config: str
    """The file for `tls.config.file`."""
    user: str
    password_file: str


class NewUser(msgspec.Struct, frozen=True):
    """A user of the brokers, and what it may do (ACL 2.0)."""

    name: str
    password_file: str
    resources: list[str]
    actions: list[str]


INVISIBLE_MS = 20_000
"""The time that no other client gets a message that a consumer has popped; for gRPC's push consumers the proxy sets
it."""

Client = Literal["pull", "remoting", "grpc-push", "grpc-simple"]
"""The kind of a consumer: a push consumer that pulls, as all did before RocketMQ 5, or one that pops."""
GRPC_CLIENTS: tuple[Client, ...] = ("grpc-push", "grpc-simple")


class ConsumerOrders(msgspec.Struct, frozen=True):
    """The wanted state of a consumer: its configuration, and how its listener behaves."""

    name: str
    jars: list[str]
    name_server: str
    group: str
    topic: str
    ordered: bool
    instance: str
    """The client id is 127.0.0.1@<instance>: two processes with the same are one client to the brokers. A consumer of
    gRPC's makes an id of its own, which it reports."""
    client: Client = "pull"
    proxy: str = ""
    """The address of the proxy for gRPC's consumers."""
    expression: str = "*"
    """The tags of the topic that it subscribes."""
    strategy: str = "AllocateMessageQueueAveragely"
    """The class of RocketMQ's allocation strategy that it uses."""
    pull_interval_ms: int = 0
    also: tuple[str, ...] = ()
    """Further topics that it subscribes, with all their tags."""
    broadcasts: bool = False
    """Its message model is BROADCASTING: it reads every queue, independent of other members."""
    max_reconsume_times: int = -1
    """The number of times that a refused message is tried again; -1: RocketMQ's default."""
    hang: bool = False
    """The listener blocks until this is false again."""
    poison: bool = False
    """The listener refuses the first message that it now gets, until this is false again."""
    slow: bool = False
    """A message takes longer than its invisible time, each time it comes."""
    sent_from: int = 0
    sent_until: int = 0
    """When the messages were sent to which poison and slow apply, epoch milliseconds: what was popped comes back to any
    member, so all must have the same in mind. 0: poison applies to the first one that this consumer gets."""
    no_ack: bool = False
    """It acknowledges nothing (only a simple consumer of gRPC's)."""
    queue_id: int | None = None
    """The queue id to which hang and poison apply; None: hang on every queue, refuse the first message of any queue."""
    broker: str = ""
    """The broker whose queues are affected; empty: the queues of every broker."""
    cut: bool = False
    """The network between it and every server is cut, until this is false again."""
    security: ClientSecurity | None = None

    @property
    def speaks_grpc(self) -> bool:
        """Return whether it connects to the proxy, and not to the brokers."""
        return self.client in GRPC_CLIENTS


class PopSubscription(msgspec.Struct, frozen=True):
    """A group that pops, as the brokers must know it before its first consumer starts."""

    group: str
    topic: str
    ordered: bool
    """The brokers keep the order of each queue, and the topic's messages have an order (message.type FIFO)."""
    sets_mode: bool
    """Remoting clients pop a topic only if the brokers say so (SET_MESSAGE_REQUEST_MODE, 401)."""


class ProducerOrders(msgspec.Struct, frozen=True):
    """The wanted state of the producer, which also creates the topics with their number of queues."""

    name: str
    jars: list[str]
    name_server: str
    brokers: dict[str, str]
    """The addresses of the running brokers, by name."""
    topics: dict[str, int]
    """The wanted number of queues of each topic on each of these brokers."""
    messages_per_second: float
    pops: list[PopSubscription] = []
    """The groups that pop, which it creates on each of these brokers."""
    security: ClientSecurity | None = None
    """Security of the administrator's connections."""
    users: list[NewUser] = []
    """The users that it creates on every broker."""


class ClientReport(msgspec.Struct, omit_defaults=True):
    """One event that a client reports."""

    event: str
    time: int = 0
    client_id: str = ""
    """started: of a gRPC client, whose id is its own choice."""
    queues: list[LabQueue] = []
    """owns: all queues in its own ProcessQueue table. poisoned: the message's queue."""
    topics: dict[str, int] = {}
    """topics: the number of read queues of each topic on every broker, by the name server's route."""
    remark: str = ""


OrdersT = TypeVar("OrdersT", bound=ConsumerOrders | ProducerOrders)
_reports = msgspec.json.Decoder(ClientReport)


class OrdersFile(Generic[OrdersT]):
    """The client's view of its orders file."""

    def __init__(self, path: Path, kind: type[OrdersT]) -> None:
        self._path = path
        self._kind: type[OrdersT] = kind
        self._stamp = path.stat().st_mtime_ns
        self.orders: OrdersT = read_orders(path, kind)

    def changed(self) -> OrdersT | None:
        """Return the orders if they changed since the last call, else None."""
        stamp = self._path.stat().st_mtime_ns
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        self.orders = read_orders(self._path, self._kind)
        return self.orders


def write_orders(path: Path, orders: ConsumerOrders | ProducerOrders) -> None:
    """Replace the orders file of a client (called by the lab)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_atomically(path, msgspec.json.format(msgspec.json.encode(orders)), durable=False)


def read_orders(path: Path, kind: type[OrdersT]) -> OrdersT:
    """Read the last orders of a client."""
    return msgspec.json.decode(path.read_bytes(), type=kind)


def report(event: ClientReport) -> None:
    """Write a report to standard output, stamped with the current time (called by the client)."""
    event.time = now_ms()
    sys.stdout.write(msgspec.json.encode(event).decode() + "\n")
    sys.stdout.flush()


def reports(log: Path, offset: int = 0) -> Iterator[ClientReport]:
    """Yield the reports of a client after a position in its log; the JVM's own lines are skipped."""
    try:
        with log.open("rb") as file:
            file.seek(offset)
            lines = file.read().split(b"\n")[:-1]  # the text after the last line feed is not yet a line
    except FileNotFoundError:
        return
    for line in lines:
        try:
            yield _reports.decode(line)
        except msgspec.DecodeError:
            continue
