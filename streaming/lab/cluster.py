"""The lab's processes as a cluster: start missing ones, send orders to clients, and read their reports."""

import sys
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from streaming.base import jars
from streaming.base.errors import UserError
from streaming.base.java import java_home
from streaming.base.sections.lab import LabGroup, PopGroup
from streaming.collect.broker_hook import JAR, build
from streaming.lab import servers
from streaming.lab.control import (
    GRPC_CLIENTS,
    ClientReport,
    ConsumerOrders,
    LabQueue,
    PopSubscription,
    ProducerOrders,
    read_orders,
    reports,
    write_orders,
)
from streaming.lab.processes import end, is_ending, spawn, state, wait_until
from streaming.lab.security import LabSecurity
from streaming.lab.state import KafkaPorts, LabFolder, LabProcess, LabState, Role
from streaming.log.kafka_properties import KafkaConnection

T = TypeVar("T")

PRODUCER = "producer"
_NAME_SERVER, _KAFKA, _PROXY = "namesrv", "kafka", "proxy"
_SERVER_JARS = ("rocketmq-broker-", "rocketmq-namesrv-", "rocketmq-controller-")
_GRPC_CLIENT = "rocketmq-client-java-"  # it has all that it needs, and classes that RocketMQ's other jars have, too
# Without the timer a broker refuses each POP. Each flush copies the whole wheel (`streaming.lab.servers`).
_POPS = {"timerWheelEnable": True, "mappedFileSizeTimerLog": 4_194_304, "timerFlushIntervalMs": 10_000}
_START_SECONDS_MAX = 150.0  # 8 s on a quiet machine; a broker took 68 s with 20 others waiting for 2 cores
_LEAVE_SECONDS_MAX = 30.0  # a broker stops about twenty services one after the other


def _key(name: str) -> str:
    """Return the key of a consumer's group in the settings."""
    return name.partition("-")[0]


class LabCluster:
    """The lab's processes. Every change is saved at once, so that it is recorded even if the command is interrupted."""

    def __init__(
        self, home: LabFolder, state: LabState, jars_root: Path, properties: Mapping[str, str | int | float | bool]
    ) -> None:
        """Open the cluster; ``properties`` are further ones of every broker that is started."""
        self.home = home
        self.state = state
        self._properties = properties
        self.security = LabSecurity(home.security) if state.secured else None
        self._jars_root = jars_root
        self._log_begins: dict[str, int] = {}

    @property
    def name_server(self) -> str:
        """The address of the name server, host:port."""
        return f"{servers.LOOPBACK}:{self.state.name_server_port}"

    @property
    def kafka_bootstrap(self) -> str | None:
        """The address of Kafka, host:port; None if the lab has none."""
        return f"{servers.LOOPBACK}:{self.state.kafka.broker}" if self.state.kafka else None

    @property
    def proxy(self) -> str | None:
        """The address of the proxy for remoting clients, host:port; None if the lab has none."""
        return f"{servers.LOOPBACK}:{self.state.proxy.remoting}" if self.state.proxy else None

    @property
    def _controller(self) -> str:
        return f"{servers.LOOPBACK}:{self.state.controller_port}"

    def brokers(self) -> dict[str, str]:
        """Return the addresses of the brokers whose first replica runs, by name."""
        return {name: f"{servers.LOOPBACK}:{port}" for name, port in self.state.brokers.items() if self.runs(name)}

    def runs(self, name: str) -> bool:
        """Return whether a process exists, frozen or not."""
        member = self.state.members.get(name)
        return member is not None and state(member.process) != "down"

    def consumers(self, key: str) -> list[str]:
        """Return the names of a group's consumers, running or not."""
        return [name for name, one in self.state.members.items() if one.role == "consumer" and _key(name) == key]

    def await_ends(self) -> list[str]:
        """Wait until the servers have ended that are about to, as after a `kill`; return their names."""
        ending = {name: one.process for name, one in self.state.members.items() if is_ending(one.process)}
        for process in ending.values():
            end(process, grace_seconds=_LEAVE_SECONDS_MAX)
        return list(ending)

    def start_servers(self, away: Container[str]) -> None:
        """Start the servers that are not running, except those that a fault stopped; wait until all are usable."""
        self.await_ends()
        launched = not self.runs(_NAME_SERVER)
        if launched:
            self._launch_name_server()
        kafka = self.state.kafka
        if kafka and not self.runs(_KAFKA):
            self._launch_kafka(kafka)  # formats its storage while the name server boots
        if launched:
            self._wait_line(_NAME_SERVER)
        for replicas in (self.state.brokers, self.state.second_replicas):  # a controller elects who comes first
            missing = [name for name in replicas if name not in away and not self.runs(name)]
            for name in missing:
                self._launch_broker(name)
            for name in missing:
                self._wait_line(name)
        if kafka:
            self._await_kafka(kafka)

    def start_proxy(self) -> None:
        """Start the proxy if the lab has one and it is not running, and wait until it is usable.

        It ends if the name server does not have the brokers yet, so the topics must exist.
        """
        ports = self.state.proxy
        if ports and not self.runs(_PROXY):
            self._must_be_free(ports.grpc)
            self._must_be_free(ports.remoting)
            command = servers.proxy_command(self._proxy_jars(), self.home.data(_PROXY), ports, self.name_server)
            self._launch(_PROXY, "proxy", command)
            self._wait_line(_PROXY, servers.PROXY_READY)

    def start_producer(self, messages_per_second: float, pops: Sequence[PopGroup]) -> None:
        """Start the producer, which creates the topics and the groups that pop, and wait until they exist."""
        path = self.home.orders(PRODUCER)
        orders = ProducerOrders(
            name=PRODUCER,
            jars=self._client_jars(),
            name_server=self.name_server,
            brokers=self.brokers(),
            topics=self.state.topics,
            messages_per_second=messages_per_second,
            pops=[PopSubscription(one.group, one.topic, one.ordered, one.client == "remoting") for one in pops],
            security=self.security.administrator() if self.security else None,
            users=self.security.users() if self.security else [],
        )
        write_orders(path, orders)
        self._launch(PRODUCER, "producer", [sys.executable, "-m", "streaming.lab.producer", path])
        self.await_report(PRODUCER, lambda report: report.topics == self.state.topics or None)

    def start_broker(self, name: str) -> None:
        """Start a broker that is down, and wait until the name server lists its queues."""
        self._launch_broker(name)
        self._wait_line(name)
        if self.runs(PRODUCER) and self.state.replication != "controller":  # there it returns as a slave
            self.set_topics(self.state.topics)

    def new_consumer(self, name: str, group: LabGroup) -> ConsumerOrders:
        """Return the orders of a healthy new consumer of a group."""
        client = group.client if isinstance(group, PopGroup) else "pull"
        proxy = f"{servers.LOOPBACK}:{self.state.proxy.grpc}" if self.state.proxy else ""
        return ConsumerOrders(
            name=name,
            jars=self._grpc_jars() if client in GRPC_CLIENTS else self._client_jars(),
            name_server=self.name_server,
            group=group.group,
            topic=group.topic,
            ordered=group.ordered,
            instance=name,
            client=client,
            proxy=proxy if client in GRPC_CLIENTS else "",
            security=self.security.consumer() if self.security else None,
        )

    def launch_consumer(self, orders: ConsumerOrders) -> None:
        """Start a consumer; wait for it with `await_start`."""
        path = self.home.orders(orders.name)
        write_orders(path, orders)
        module = "grpc_consumer" if orders.speaks_grpc else "consumer"
        command = [sys.executable, "-m", f"streaming.lab.{module}", str(path)]
        client_id = "" if orders.speaks_grpc else f"{servers.LOOPBACK}@{orders.instance}"
        self._launch(orders.name, "consumer", command, group=orders.group, client_id=client_id)

    def await_start(self, name: str) -> None:
        """Wait until a consumer is in its group."""
        started = self.await_report(name, lambda report: report.event == "started" or None)
        if started.client_id:
            member = self.state.members[name]
            self.state.members[name] = msgspec.structs.replace(member, client_id=started.client_id)
            self.home.save(self.state)

    def end(self, name: str, *, cleanly: bool) -> None:
        """End a process and wait for its end: cleanly, so that it leaves the group and unregisters, or by SIGKILL."""
        end(self.state.members[name].process, grace_seconds=_LEAVE_SECONDS_MAX if cleanly else 0)

    def forget(self, name: str) -> None:
        """Remove a client that has left permanently."""
        del self.state.members[name]
        self.home.save(self.state)

    def consumer(self, name: str) -> ConsumerOrders:
        """Return the last orders of a consumer."""
        return read_orders(self.home.orders(name), ConsumerOrders)

    def send_orders(self, orders: ConsumerOrders) -> None:
        """Send new orders to a running consumer."""
        self._mark(orders.name)
        write_orders(self.home.orders(orders.name), orders)

    def set_topics(self, topics: dict[str, int]) -> None:
        """Set the number of queues of topics on every running broker; wait until the name server lists them.

        Raises:
            UserError: no producer or no broker runs, or the change did not take effect.
        """
        brokers = self.brokers()
        if not brokers or not self.runs(PRODUCER):
            raise UserError("Topics need a broker and the producer, which changes them: run `rebalance-watch lab up`.")
        self._mark(PRODUCER)
        path = self.home.orders(PRODUCER)
        write_orders(path, msgspec.structs.replace(read_orders(path, ProducerOrders), topics=topics, brokers=brokers))
        self.await_report(PRODUCER, lambda report: report.topics == topics or None)
        self.state.topics = topics
        self.home.save(self.state)

    def await_report(
        self, name: str, matches: Callable[[ClientReport], bool | None], seconds: float = _START_SECONDS_MAX
    ) -> ClientReport:
        """Wait until a client reports a wanted event after its start or its last orders.

        Raises:
            UserError: the client ended, or did not report the event in time.
        """

        def wanted_report() -> ClientReport | None:
            return next((one for one in reports(self.home.log(name), self._log_begins[name]) if matches(one)), None)

        return self._wait(name, wanted_report, seconds)

    def await_any_report(
        self, names: Sequence[str], matches: Callable[[ClientReport], bool | None], seconds: float
    ) -> ClientReport:
        """Wait until one of several clients reports a wanted event after its last orders.

        Raises:
            UserError: the first client ended, or none reported the event in time.
        """

        def wanted_report() -> ClientReport | None:
            found = (one for name in names for one in reports(self.home.log(name), self._log_begins[name]))
            return next((one for one in found if matches(one)), None)

        return self._wait(names[0], wanted_report, seconds)

    def send_interval_ms(self) -> int:
        """Return after how many milliseconds the producer sends the next message of a topic."""
        return round(1_000 / read_orders(self.home.orders(PRODUCER), ProducerOrders).messages_per_second)

    def owned(self, name: str) -> list[LabQueue]:
        """Return the queues that a consumer last reported as its own."""
        queues: list[LabQueue] = []
        for report in reports(self.home.log(name)):
            if report.event in ("started", "ended"):
                queues = []
            elif report.event == "owns":
                queues = report.queues
        return queues

    def _launch_name_server(self) -> None:
        self._must_be_free(self.state.name_server_port)
        command = servers.name_server_command(
            self._jars("rocketmq"),
            self.home.data(_NAME_SERVER),
            self.state.name_server_port,
            properties=servers.name_server_properties(
                self.state.replication, self._controller, self.home.data(_NAME_SERVER)
            ),
            secured=self.security.rocketmq() if self.security else None,
        )
        self._launch(_NAME_SERVER, "name server", command)

    def _launch_broker(self, name: str) -> None:
        port = (self.state.brokers | self.state.second_replicas)[name]
        for distance in servers.BROKER_PORTS_BESIDE:
            self._must_be_free(port + distance)
        class_path, spool = self._jars("rocketmq"), self.home.spool if self.state.hook else None
        if spool:
            spool.mkdir(exist_ok=True)
            class_path.append(build(class_path, self._jars_root / "hook" / JAR))
        secured = self.security.rocketmq() if self.security else None
        command = servers.broker_command(
            class_path,
            self.home.data(name),
            port,
            self.name_server,
            properties=servers.broker_properties(
                self.state.replication,
                name,
                self._controller,
                {**(_POPS if self.state.proxy else {}), **self._properties},
            ),
            spool=spool,
            secured=secured,
        )
        self._launch(name, "broker", command)

    def _launch_kafka(self, ports: KafkaPorts) -> None:
        self._must_be_free(ports.broker)
        self._must_be_free(ports.controller)
        secured = self.security.kafka(ports) if self.security else None
        command = servers.kafka_command(
            self._jars("kafka"), self.home.data(_KAFKA), ports.broker, ports.controller, secured=secured
        )
        self._launch(_KAFKA, "kafka", command)

    def _await_kafka(self, ports: KafkaPorts) -> None:
        if self.security is None:
            self._wait(_KAFKA, lambda: servers.kafka_answers(KafkaConnection(f"{servers.LOOPBACK}:{ports.broker}")))
            return
        secured = self.security.kafka(ports)
        self._wait(_KAFKA, lambda: servers.kafka_answers(secured.administrator(servers.LOOPBACK)))
        self.security.create_kafka_user(secured, servers.LOOPBACK)

    def _launch(
        self, name: str, role: Role, command: Sequence[str | Path], *, group: str = "", client_id: str = ""
    ) -> None:
        self._mark(name)
        data = str(self.home.data(name))
        environment = {"JAVA_HOME": str(java_home()), "ROCKETMQ_HOME": data, "RMQ_PROXY_HOME": data}
        process = spawn(command, self.home.log(name), environment)
        self.state.members[name] = LabProcess(name, role, process, group, client_id)
        self.home.save(self.state)

    def _mark(self, name: str) -> None:
        """Ignore the process's earlier reports from now on."""
        log = self.home.log(name)
        self._log_begins[name] = log.stat().st_size if log.exists() else 0

    def _wait(self, name: str, ready: Callable[[], T | None], seconds: float = _START_SECONDS_MAX) -> T:
        return wait_until(ready, self.state.members[name].process, self.home.log(name), seconds)

    def _wait_line(self, name: str, line: str = servers.ROCKETMQ_READY) -> None:
        log, begin = self.home.log(name), self._log_begins[name]
        self._wait(name, lambda: line.encode() in log.read_bytes()[begin:] or None)

    def _jars(self, conf: jars.JarSet) -> list[Path]:
        return jars.ensure(conf, self._jars_root)

    def _client_jars(self) -> list[str]:
        """Return RocketMQ's jars without the servers': a client would use the log configuration in the broker's."""
        return [str(jar) for jar in self._jars("rocketmq") if not jar.name.startswith(_SERVER_JARS)]

    def _proxy_jars(self) -> list[Path]:
        """Return the jars of the proxy, its own first."""
        own = [jar for jar in self._jars("rocketmq_proxy") if not jar.name.startswith(_GRPC_CLIENT)]
        return [*own, *self._jars("rocketmq")]

    def _grpc_jars(self) -> list[str]:
        return [str(jar) for jar in self._jars("rocketmq_proxy") if jar.name.startswith(_GRPC_CLIENT)]

    def _must_be_free(self, port: int) -> None:
        if not servers.port_is_free(port):
            raise UserError(f"Port {port} of the lab was taken by another program: `lab down`, then `lab up`.")
