"""The lab: a real cluster on this machine that keeps running after the command, and the faults to inject into it."""

import shutil
from collections.abc import Callable
from pathlib import Path
from string import ascii_lowercase
from typing import Self

import msgspec

from streaming.base import jars
from streaming.base.errors import UserError
from streaming.base.sections.lab import LabGroup
from streaming.base.settings import Settings
from streaming.base.times import now_ms
from streaming.lab import servers
from streaming.lab.cluster import PRODUCER, LabCluster
from streaming.lab.control import LabQueue
from streaming.lab.fault_actions import NEW_QUEUES
from streaming.lab.faults import CURES, LabFault
from streaming.lab.processes import State, end, state
from streaming.lab.state import ActiveFault, FaultRecord, KafkaPorts, LabFolder, LabProcess, LabState, ProxyPorts
from streaming.lab.targets import Targets

_NO_LAB = "No lab is up: start one with `rebalance-watch lab up`."


class MemberStatus(msgspec.Struct, frozen=True):
    """The current state of one process."""

    name: str
    role: str
    state: State
    pid: int
    group: str
    client_id: str
    fault: str
    owns: list[LabQueue] | None
    """The queues in the client's last report; a frozen client reports nothing new. None: not known (gRPC)."""


class Lab:
    """A running lab. Instances are cheap: all read the same `lab.json`."""

    def __init__(self, settings: Settings) -> None:
        """Open the running lab.

        Raises:
            UserError: no lab is up.
        """
        self._settings = settings
        self._home = LabFolder(settings.runtime.lab)
        self._load()

    @classmethod
    def up(
        cls,
        settings: Settings,
        *,
        kafka: bool | None = None,
        hook: bool | None = None,
        secure: bool | None = None,
        pop: bool | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> Self:
        """Start the lab, or its missing parts; processes that a fault stopped are not started.

        Args:
            settings: lab.brokers and lab.groups define the brokers and consumers.
            kafka: with a Kafka node; None: as in lab.kafka.
            hook: with the broker hook in every broker that is now started; None: as in lab.hook.
            secure: with TLS, users and rights in RocketMQ and Kafka, if no lab is up; None: as in lab.secure.
            pop: with a proxy and the groups of lab.pop_groups, if no lab is up; None: as in lab.pop.
            say: called with each step of the progress.

        Raises:
            UserError: a process could not be started; those that were started are recorded, and `down` ends them; or
                ``secure`` or ``pop`` is not what the lab that is up has, or both are wanted.
        """
        home = LabFolder(settings.runtime.lab)
        with_kafka = settings.lab.kafka if kafka is None else kafka
        say("checking the jars; missing ones are downloaded")
        jars.ensure("rocketmq", settings.runtime.jars)
        if with_kafka:
            jars.ensure("kafka", settings.runtime.jars)
        with home.locked():
            current = home.load()
            secured = current.secured if current else _chosen(secure, settings.lab.secure)
            pops = current.proxy is not None if current else _chosen(pop, settings.lab.pop)
            if secure not in (None, secured):
                raise UserError("Security can't be changed while the lab is up: run `rebalance-watch lab down` first.")
            if pop not in (None, pops):
                raise UserError(
                    "Whether the lab pops can't be changed while it is up: `rebalance-watch lab down` first."
                )
            if secured and pops:
                raise UserError("A secured lab has no proxy, so its consumers can't pop: choose --pop or --secure.")
            if pops:
                jars.ensure("rocketmq_proxy", settings.runtime.jars)
            if current is None:
                home.save(_begin(home, settings, secured=secured, pops=pops))
            lab = cls(settings)
            if settings.lab.replication != lab._cluster.state.replication:
                raise UserError(
                    "lab.replication can't be changed while the lab is up: `rebalance-watch lab down` first."
                )
            lab._cluster.state.hook = settings.lab.hook if hook is None else hook
            lab._start(with_kafka=with_kafka, say=say)
        return lab

    @classmethod
    def find(cls, settings: Settings) -> Self | None:
        """Return the running lab; None if there is none."""
        return None if LabFolder(settings.runtime.lab).load() is None else cls(settings)

    @property
    def name_server(self) -> str:
        """The name server's address, host:port."""
        return self._cluster.name_server

    @property
    def kafka_bootstrap(self) -> str | None:
        """Kafka's address, host:port; None: the lab has no Kafka."""
        return self._cluster.kafka_bootstrap

    @property
    def proxy(self) -> str | None:
        """The proxy's address for remoting clients, host:port; None: the lab has no proxy."""
        return self._cluster.proxy

    @property
    def secrets(self) -> Path | None:
        """The folder with certificates and passwords of a secured lab; None: it is not secured."""
        return self._home.security if self._cluster.security else None

    def environment(self) -> dict[str, str]:
        """Return the environment variables that connect our commands to the lab; none has a secret."""
        settings = {"collector.name_servers": msgspec.json.encode([self.name_server]).decode()}
        if self.proxy:
            settings["collector.proxies"] = msgspec.json.encode([self.proxy]).decode()
        if self.kafka_bootstrap:
            settings["source.bootstrap_servers"] = self.kafka_bootstrap
        else:
            settings["source.kind"] = "files"
        if self._cluster.security:
            settings |= self._cluster.security.settings()
        return {f"REBALANCE_WATCH_{name.replace('.', '__').upper()}": value for name, value in settings.items()}

    @property
    def fault_log(self) -> Path:
        """The file with one line of JSON (`FaultRecord`) for each fault and each cure since the lab was started."""
        return self._home.fault_log

    @property
    def spool(self) -> Path | None:
        """The folder to which the brokers' hooks write; None if they have none."""
        return self._home.spool if self._cluster.state.hook else None

    def status(self) -> list[MemberStatus]:
        """Return the state of every process: servers, producer, consumers."""
        self._load()
        return [self._status_of(member) for member in self._cluster.state.members.values()]

    def down(self) -> None:
        """End every process; logs and data stay for reading until the next `up`."""
        with self._home.locked():
            current = self._home.load()
            # No grace: the next lab starts with empty stores, and a frozen process handles no other signal.
            for member in reversed(list(current.members.values()) if current else []):
                end(member.process)
            self._home.save(None)

    def fault(
        self,
        kind: str,
        *,
        client: str | None = None,
        broker: str | None = None,
        queue_id: int | None = None,
        count: int = NEW_QUEUES,
    ) -> FaultRecord:
        """Inject a fault into the cluster and wait until it takes effect.

        Args:
            kind: a key of `FAULTS` or `POP_FAULTS`.
            client: the target, a consumer or (broker-…) a broker; by default the first healthy consumer of the ordered
                group, a new one, or the last broker; of a fault that only consumers have that pop, the first of those.
            broker: hang and poison: only on this broker's queues.
            queue_id: hang and poison: only on queues with this id.
            count: add-queues: the number of queues to add.

        Raises:
            UserError: the fault does not exist, has no possible target, or did not take effect.
        """
        with self._home.locked():
            self._load()
            fault = self._targets.fault(kind, client)
            aim = self._targets.aim(kind, client, broker=broker, queue_id=queue_id, count=count)
            begun = now_ms()
            hit = fault.inject(self._cluster, aim)
            member = self._cluster.state.members.get(aim.client)
            active = ActiveFault(
                kind, aim.client, member.client_id if member else "", begun, hit.queue, hit.former_queues
            )
            self._cluster.state.faults.append(active)
            self._home.save(self._cluster.state)
            return self._record(active, aim.group, fault, begun, cure=False)

    def cure(self, kind: str, *, client: str | None = None) -> FaultRecord:
        """Cure a fault.

        Raises:
            UserError: the fault is not active, or is active on several clients and none is named.
        """
        kind = CURES.get(kind, kind)
        with self._home.locked():
            self._load()
            self._targets.fault(kind, client)
            active = self._active(kind, client)
            fault = self._targets.fault_of(active)
            targets = self._targets
            group = targets.first_group() if fault.target == "broker" else targets.group_of(active.client)
            before = set(self._cluster.state.members)
            begun = now_ms()
            fault.cure(self._cluster, active)
            left = before - set(self._cluster.state.members)  # and with them their other faults
            self._cluster.state.faults = [
                one for one in self._cluster.state.faults if one != active and one.client not in left
            ]
            self._home.save(self._cluster.state)
            return self._record(active, group, fault, begun, cure=True)

    def _load(self) -> None:
        current = self._home.load()
        if current is None:
            raise UserError(_NO_LAB)
        self._cluster = LabCluster(self._home, current, self._settings.runtime.jars, self._settings.lab.broker)
        self._targets = Targets(self._cluster, self._settings.lab)

    def _start(self, *, with_kafka: bool, say: Callable[[str], None]) -> None:
        cluster, current = self._cluster, self._cluster.state
        if with_kafka and current.kafka is None:
            current.kafka = KafkaPorts(*(servers.free_port() for _ in range(3)))
        for name in _broker_names(self._settings):
            current.brokers.setdefault(name, servers.free_port(beside=servers.BROKER_PORTS_BESIDE))
            if current.replication != "none":
                second = servers.second_of(name)
                current.second_replicas.setdefault(second, servers.free_port(beside=servers.BROKER_PORTS_BESIDE))
        away = self._targets.away()
        brokers = len(cluster.state.brokers)
        say(f"starting name server, {brokers} broker{'s' * (brokers > 1)}{' and Kafka' * with_kafka}")
        before = set(cluster.brokers())
        cluster.start_servers(away)
        pop_groups = self._settings.lab.pop_groups if current.proxy else {}
        if not cluster.runs(PRODUCER):
            say("creating the topics, starting the producer")
            cluster.start_producer(self._settings.lab.messages_per_second, list(pop_groups.values()))
        elif set(cluster.brokers()) != before:
            cluster.set_topics(current.topics)
        missing = [
            name
            for name, member in current.members.items()
            if member.role == "consumer" and name not in away and not cluster.runs(name)
        ]
        new = {
            f"{key}-{number}": group
            for key, group in (self._settings.lab.groups | pop_groups).items()
            for number in range(1, group.consumers + 1)
            if f"{key}-{number}" not in current.members
        }
        if current.proxy:
            say("starting the proxy")
            cluster.start_proxy()
        if missing or new:
            say(f"starting {len(missing) + len(new)} consumers")
        clients = [
            *(cluster.consumer(name) for name in missing),
            *(cluster.new_consumer(name, group) for name, group in new.items()),
        ]
        for orders in clients:
            cluster.launch_consumer(orders)
        for orders in clients:
            cluster.await_start(orders.name)

    def _status_of(self, member: LabProcess) -> MemberStatus:
        now = state(member.process)
        return MemberStatus(
            name=member.name,
            role=member.role,
            state=now,
            pid=member.process.pid,
            group=member.group,
            client_id=member.client_id,
            fault=", ".join(
                one.kind
                for one in self._cluster.state.faults
                if one.client == member.name or member.name in self._cluster.consumers(one.client)
            ),
            owns=self._owned(member) if member.role == "consumer" and now != "down" else [],
        )

    def _owned(self, member: LabProcess) -> list[LabQueue] | None:
        speaks_grpc = not member.client_id.startswith(f"{servers.LOOPBACK}@")
        return None if speaks_grpc else self._cluster.owned(member.name)

    def _active(self, kind: str, client: str | None) -> ActiveFault:
        matches = [
            one for one in self._cluster.state.faults if one.kind == kind and (client is None or one.client == client)
        ]
        if not matches:
            raise UserError(f"There is no {kind} to cure{f' on {client}' if client else ''}: see `lab status`.")
        if len(matches) > 1:
            raise UserError(
                f"{kind} is active on {', '.join(one.client for one in matches)}: select one with --client."
            )
        return matches[0]

    def _record(self, active: ActiveFault, group: LabGroup, fault: LabFault, begun: int, *, cure: bool) -> FaultRecord:
        queue = active.queue
        where = f"{queue.topic}@{queue.broker}:{queue.queue_id}" if queue else "any of its queues"
        expect = fault.cure_expect if cure else fault.expect
        client = "" if fault.target in ("topic", "broker", "group") else active.client
        record = FaultRecord(
            time=begun,
            done=now_ms(),
            kind=active.kind,
            cure=cure,
            client=client,
            client_id=active.client_id if client else "",
            group="" if fault.target == "broker" else group.group,
            queue=queue,
            expect=expect.format(client=active.client, group=group.group, where=where),
            broker=active.client if fault.target == "broker" else "",
        )
        self._home.record(record)
        return record


def _chosen(given: bool | None, setting: bool) -> bool:  # noqa: FBT001  neither is an option of this function's
    return setting if given is None else given


def _begin(home: LabFolder, settings: Settings, *, secured: bool, pops: bool) -> LabState:
    """Create a new lab: free ports, empty folders."""
    for old in (home.folder / "data", home.folder / "logs", home.spool, home.security):
        shutil.rmtree(old, ignore_errors=True)
    home.fault_log.write_bytes(b"")
    groups = settings.lab.groups | (settings.lab.pop_groups if pops else {})
    return LabState(
        name_server_port=servers.free_port(),
        brokers={},
        secured=secured,
        proxy=ProxyPorts(servers.free_port(), servers.free_port()) if pops else None,
        replication=settings.lab.replication,
        controller_port=servers.free_port() if settings.lab.replication == "controller" else 0,
        topics={group.topic: group.queues for group in groups.values()},
    )


def _broker_names(settings: Settings) -> list[str]:
    return [f"broker-{letter}" for letter in ascii_lowercase[: settings.lab.brokers]]
