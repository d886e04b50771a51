"""The lab: a real cluster on this machine that keeps running after the command, and the faults to inject into it."""

import shutil
from collections.abc import Callable
from pathlib import Path
from string import ascii_lowercase
from typing import Self

import msgspec

from streaming.base import jars
from streaming.base.errors import UserError
from streaming.base.settings import LabGroup, Settings
from streaming.base.times import now_ms
from streaming.lab import replication, servers
from streaming.lab.cluster import PRODUCER, Cluster
from streaming.lab.control import Queue
from streaming.lab.fault_actions import NEW_QUEUES, FaultTarget
from streaming.lab.faults import CURES, FAULTS, Fault
from streaming.lab.processes import State, end, state
from streaming.lab.state import ActiveFault, FaultRecord, Home, KafkaPorts, LabState, Member

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
    owns: list[Queue]
    """The queues in the client's last report; a frozen client reports nothing new."""


class Lab:
    """A running lab. Instances are cheap: all read the same `lab.json`."""

    def __init__(self, settings: Settings) -> None:
        """Open the running lab.

        Raises:
            UserError: no lab is up.
        """
        self._settings = settings
        self._home = Home(settings.runtime.lab)
        self._load()

    @classmethod
    def up(
        cls,
        settings: Settings,
        *,
        kafka: bool | None = None,
        hook: bool | None = None,
        secure: bool | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> Self:
        """Start the lab, or its missing parts; processes that a fault stopped are not started.

        Args:
            settings: lab.brokers and lab.groups define the brokers and consumers.
            kafka: with a Kafka node; None: as in lab.kafka.
            hook: with the broker hook in every broker that is now started; None: as in lab.hook.
            secure: with TLS, users and rights in RocketMQ and Kafka, if no lab is up; None: as in lab.secure.
            say: called with each step of the progress.

        Raises:
            UserError: a process could not be started; those that were started are recorded, and `down` ends them; or
                ``secure`` is not what the lab that is up has.
        """
        home = Home(settings.runtime.lab)
        with_kafka = settings.lab.kafka if kafka is None else kafka
        say("checking the jars; missing ones are downloaded")
        jars.ensure("rocketmq", settings.runtime.jars)
        if with_kafka:
            jars.ensure("kafka", settings.runtime.jars)
        with home.locked():
            if home.load() is None:
                home.save(_begin(home, settings, secured=settings.lab.secure if secure is None else secure))
            lab = cls(settings)
            if secure not in (None, lab._cluster.state.secured):
                raise UserError("Security can't be changed while the lab is up: run `rebalance-watch lab down` first.")
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
        return None if Home(settings.runtime.lab).load() is None else cls(settings)

    @property
    def name_server(self) -> str:
        """The name server's address, host:port."""
        return self._cluster.name_server

    @property
    def kafka_bootstrap(self) -> str | None:
        """Kafka's address, host:port; None: the lab has no Kafka."""
        return self._cluster.kafka_bootstrap

    @property
    def secrets(self) -> Path | None:
        """The folder with certificates and passwords of a secured lab; None: it is not secured."""
        return self._home.security if self._cluster.security else None

    def environment(self) -> dict[str, str]:
        """Return the environment variables that connect our commands to the lab; none has a secret."""
        found = {"collector.name_servers": msgspec.json.encode([self.name_server]).decode()}
        if self.kafka_bootstrap:
            found["source.bootstrap_servers"] = self.kafka_bootstrap
        else:
            found["source.kind"] = "files"
        if self._cluster.security:
            found |= self._cluster.security.settings()
        return {f"REBALANCE_WATCH_{name.replace('.', '__').upper()}": value for name, value in found.items()}

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
            kind: a key of `FAULTS`.
            client: the target, a consumer or (broker-…) a broker; by default the first healthy consumer of the ordered
                group, a new one, or the last broker.
            broker: hang and poison: only on this broker's queues.
            queue_id: hang and poison: only on queues with this id.
            count: add-queues: the number of queues to add.

        Raises:
            UserError: the fault does not exist, has no possible target, or did not take effect.
        """
        fault = _known(kind)
        with self._home.locked():
            self._load()
            aim = self._aim(kind, client, broker, queue_id, count)
            begun = now_ms()
            hit = fault.inject(self._cluster, aim)
            member = self._cluster.state.members.get(aim.client)
            active = ActiveFault(
                kind, aim.client, member.client_id if member else "", begun, hit.queue, hit.former_queues
            )
            self._cluster.state.faults.append(active)
            self._home.save(self._cluster.state)
            return self._record(active, aim.group, fault.expect, begun, cure=False)

    def cure(self, kind: str, *, client: str | None = None) -> FaultRecord:
        """Cure a fault.

        Raises:
            UserError: the fault is not active, or is active on several clients and none is named.
        """
        kind = CURES.get(kind, kind)
        fault = _known(kind)
        with self._home.locked():
            self._load()
            active = self._active(kind, client)
            group = self._first_group() if fault.target == "broker" else self._group_of(active.client)
            before = set(self._cluster.state.members)
            begun = now_ms()
            fault.cure(self._cluster, active)
            left = before - set(self._cluster.state.members)  # and with them their other faults
            self._cluster.state.faults = [
                one for one in self._cluster.state.faults if one != active and one.client not in left
            ]
            self._home.save(self._cluster.state)
            return self._record(active, group, fault.cure_expect, begun, cure=True)

    def _load(self) -> None:
        current = self._home.load()
        if current is None:
            raise UserError(_NO_LAB)
        self._cluster = Cluster(self._home, current, self._settings.runtime.jars, self._settings.lab.broker)

    def _start(self, *, with_kafka: bool, say: Callable[[str], None]) -> None:
        cluster, current = self._cluster, self._cluster.state
        if with_kafka and current.kafka is None:
            current.kafka = KafkaPorts(*(servers.free_port() for _ in range(3)))
        for name in _broker_names(self._settings):
            current.brokers.setdefault(name, servers.free_port(beside=servers.BROKER_PORTS_BESIDE))
            if current.replication != "none":
                second = replication.second_of(name)
                current.second_replicas.setdefault(second, servers.free_port(beside=servers.BROKER_PORTS_BESIDE))
        away = {active.client for active in current.faults if FAULTS[active.kind].takes_away}
        brokers = len(cluster.state.brokers)
        say(f"starting name server, {brokers} broker{'s' * (brokers > 1)}{' and Kafka' * with_kafka}")
        before = set(cluster.brokers())
        cluster.start_servers(away)
        if not cluster.runs(PRODUCER):
            say("creating the topics, starting the producer")
            cluster.start_producer(self._settings.lab.messages_per_second)
        elif set(cluster.brokers()) != before:
            cluster.set_topics(current.topics)
        missing = [
            name
            for name, member in current.members.items()
            if member.role == "consumer" and name not in away and not cluster.runs(name)
        ]
        new = {
            f"{key}-{number}": group
            for key, group in self._settings.lab.groups.items()
            for number in range(1, group.consumers + 1)
            if f"{key}-{number}" not in current.members
        }
        if missing or new:
            say(f"starting {len(missing) + len(new)} consumers")
        wanted = [
            *(cluster.consumer(name) for name in missing),
            *(cluster.new_consumer(name, group) for name, group in new.items()),
        ]
        for orders in wanted:
            cluster.launch_consumer(orders)
        for orders in wanted:
            cluster.await_start(orders.name)

    def _status_of(self, member: Member) -> MemberStatus:
        now = state(member.process)
        return MemberStatus(
            name=member.name,
            role=member.role,
            state=now,
            pid=member.process.pid,
            group=member.group,
            client_id=member.client_id,
            fault=", ".join(one.kind for one in self._cluster.state.faults if one.client == member.name),
            owns=self._cluster.owned(member.name) if member.role == "consumer" and now != "down" else [],
        )

    def _aim(self, kind: str, client: str | None, broker: str | None, queue_id: int | None, count: int) -> FaultTarget:
        target = FAULTS[kind].target
        if target == "broker":
            return FaultTarget(self._broker(client), self._first_group())
        if broker is not None:
            self._must_be_broker(broker)
        if target == "topic":
            group = self._group_of(client) if client else self._first_group()
            if any(one.kind == kind and one.client == group.topic for one in self._cluster.state.faults):
                raise UserError(f"{kind} is already active on {group.topic}: cure it first (lab fault {kind} --cure).")
            return FaultTarget(group.topic, group, count=count)
        if target == "new consumer":
            name = client or self._new_name(kind)
            if name in self._cluster.state.members:
                raise UserError(f"{name} already exists: set another name for the new consumer with --client.")
            return FaultTarget(name, self._group_of(name))
        name = client or self._healthy()
        group = self._group_of(name)
        if target == "ordered consumer" and not group.ordered:
            raise UserError(f"{kind} needs an ordered consumer, and {group.group} is not ordered: choose another.")
        self._must_be_healthy(name)
        return FaultTarget(name, group, queue_id, broker or "")

    def _broker(self, name: str | None) -> str:
        """Return the name of the broker, by default the last one, if it runs and has no fault."""
        if name is not None:
            self._must_be_broker(name)
        faulty = {one.client for one in self._cluster.state.faults}
        well = [broker for broker in self._cluster.brokers() if broker not in faulty]
        if name not in well and (name is not None or not well):
            raise UserError(
                f"{name or 'Every broker'} is already down or frozen: cure that first (`rebalance-watch lab status`)."
            )
        return name or well[-1]

    def _must_be_broker(self, name: str) -> None:
        if name not in (brokers := self._cluster.state.brokers):
            raise UserError(f"There is no broker {name}: choose one of {', '.join(brokers)}.")

    def _healthy(self) -> str:
        group = self._first_group().group
        for name, member in self._cluster.state.members.items():
            faulty = any(one.client == name for one in self._cluster.state.faults)
            if member.group == group and not faulty and self._cluster.runs(name):
                return name
        raise UserError(f"No consumer of {group} is healthy: cure a fault first (see `rebalance-watch lab status`).")

    def _must_be_healthy(self, name: str) -> None:
        member = self._cluster.state.members.get(name)
        if member is None or member.role != "consumer":
            raise UserError(f"There is no consumer {name}: `rebalance-watch lab status` lists them.")
        if not self._cluster.runs(name) or any(
            one.client == name and FAULTS[one.kind].target != "new consumer" for one in self._cluster.state.faults
        ):
            raise UserError(f"{name} already has a fault, or is down: cure that first (`rebalance-watch lab status`).")

    def _new_name(self, kind: str) -> str:
        key = next(key for key, group in self._settings.lab.groups.items() if group == self._first_group())
        stem = key if kind == "join" else f"{key}-{kind.partition('-')[0]}"
        number = 1
        while f"{stem}-{number}" in self._cluster.state.members:
            number += 1
        return f"{stem}-{number}"

    def _first_group(self) -> LabGroup:
        groups = list(self._settings.lab.groups.values())
        return next((group for group in groups if group.ordered), groups[0])

    def _group_of(self, name: str) -> LabGroup:
        """Return the group of a consumer, by the prefix of its name, or of a topic."""
        groups = self._settings.lab.groups
        if group := groups.get(name.partition("-")[0]):
            return group
        if group := next((group for group in groups.values() if group.topic == name), None):
            return group
        raise UserError(f"{name} belongs to no group of the lab: names begin with {' or '.join(groups)}.")

    def _active(self, kind: str, client: str | None) -> ActiveFault:
        found = [
            one for one in self._cluster.state.faults if one.kind == kind and (client is None or one.client == client)
        ]
        if not found:
            raise UserError(f"There is no {kind} to cure{f' on {client}' if client else ''}: see `lab status`.")
        if len(found) > 1:
            raise UserError(f"{kind} is active on {', '.join(one.client for one in found)}: select one with --client.")
        return found[0]

    def _record(self, active: ActiveFault, group: LabGroup, expect: str, begun: int, *, cure: bool) -> FaultRecord:
        queue = active.queue
        where = f"{queue.topic}@{queue.broker}:{queue.queue_id}" if queue else "any of its queues"
        target = FAULTS[active.kind].target
        client = "" if target in ("topic", "broker") else active.client
        record = FaultRecord(
            time=begun,
            done=now_ms(),
            kind=active.kind,
            cure=cure,
            client=client,
            client_id=active.client_id if client else "",
            group="" if target == "broker" else group.group,
            queue=queue,
            expect=expect.format(client=active.client, group=group.group, where=where),
            broker=active.client if target == "broker" else "",
        )
        self._home.record(record)
        return record


def _begin(home: Home, settings: Settings, *, secured: bool) -> LabState:
    """Create a new lab: free ports, empty folders."""
    for old in (home.folder / "data", home.folder / "logs", home.spool, home.security):
        shutil.rmtree(old, ignore_errors=True)
    home.fault_log.write_bytes(b"")
    return LabState(
        name_server_port=servers.free_port(),
        brokers={},
        secured=secured,
        replication=settings.lab.replication,
        controller_port=servers.free_port() if settings.lab.replication == "controller" else 0,
        topics={group.topic: group.queues for group in settings.lab.groups.values()},
    )


def _broker_names(settings: Settings) -> list[str]:
    return [f"broker-{letter}" for letter in ascii_lowercase[: settings.lab.brokers]]


def _known(kind: str) -> Fault:
    if kind not in FAULTS:
        raise UserError(f"There is no fault {kind}: choose one of {', '.join(FAULTS)}.")
    return FAULTS[kind]
