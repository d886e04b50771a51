"""The lab: a real cluster on this machine that stays up after the command, and faults to put on it."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgspec

from streaming import jars
from streaming.errors import UserError
from streaming.lab import servers
from streaming.lab.cluster import PRODUCER, Cluster
from streaming.lab.control import Queue
from streaming.lab.faults import CURES, FAULTS, NEW_QUEUES, Aim, Fault
from streaming.lab.processes import State, end, state
from streaming.lab.state import ActiveFault, FaultRecord, Home, KafkaPorts, LabState, Member
from streaming.settings import LabGroup, Settings

_NO_LAB = "No lab is up: start one with `rebalance-watch lab up`."


class MemberStatus(msgspec.Struct, frozen=True):
    """One process, now."""

    name: str
    role: str
    state: State
    pid: int
    group: str
    client_id: str
    fault: str
    owns: list[Queue]
    """By its own last word: a frozen client can't take it back."""


class Lab:
    """A running lab. Objects are cheap: every one reads the same `lab.json`."""

    def __init__(self, settings: Settings) -> None:
        """Take hold of the lab that is up.

        Raises:
            UserError: none is.
        """
        self._settings = settings
        self._home = Home(settings.runtime.lab)
        self._load()

    @classmethod
    def up(cls, settings: Settings, *, kafka: bool | None = None, say: Callable[[str], None] = lambda _: None) -> Self:
        """Start the lab, or what is missing of it; consumers that a fault took away stay away.

        Args:
            settings: lab.groups says which consumers there shall be.
            kafka: with a Kafka node; None: as lab.kafka says.
            say: hears what is being done.

        Raises:
            UserError: something could not be started; what was started is known and `down` ends it.
        """
        home = Home(settings.runtime.lab)
        with_kafka = settings.lab.kafka if kafka is None else kafka
        say("jars")
        jars.ensure("rocketmq", settings.runtime.jars)
        if with_kafka:
            jars.ensure("kafka", settings.runtime.jars)
        with home.locked():
            if home.load() is None:
                home.save(_begin(home, settings))
            lab = cls(settings)
            lab._start(with_kafka=with_kafka, say=say)
        return lab

    @classmethod
    def find(cls, settings: Settings) -> Self | None:
        """The lab that is up, if one is."""
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
    def fault_log(self) -> Path:
        """One line of JSON (`FaultRecord`) for each fault and each cure since the lab was started."""
        return self._home.fault_log

    def status(self) -> list[MemberStatus]:
        """Every process: servers, producer, consumers."""
        self._load()
        return [self._status_of(member) for member in self._cluster.state.members.values()]

    def down(self) -> None:
        """End every process; logs and data stay for reading until the next `up`."""
        with self._home.locked():
            current = self._home.load()
            # No grace: the next lab starts with empty stores, and a frozen process hears nothing else.
            for member in reversed(list(current.members.values()) if current else []):
                end(member.process)
            self._home.save(None)

    def fault(
        self, kind: str, *, client: str | None = None, queue_id: int | None = None, count: int = NEW_QUEUES
    ) -> FaultRecord:
        """Put a fault on the cluster and wait until it is there.

        Args:
            kind: a key of `FAULTS`.
            client: whom; by default the first healthy consumer of the ordered group, or a new one.
            queue_id: hang and poison: only on this queue.
            count: add-queues: how many.

        Raises:
            UserError: there is no such fault, nobody to put it on, or it did not come about.
        """
        fault = _known(kind)
        with self._home.locked():
            self._load()
            aim = self._aim(fault, kind, client, queue_id, count)
            begun = _now_ms()
            hit = fault.inject(self._cluster, aim)
            active = ActiveFault(kind, aim.client, begun, hit.queue, hit.former_queues)
            self._cluster.state.faults.append(active)
            self._home.save(self._cluster.state)
            return self._record(active, aim.group, fault.expect, begun, cure=False)

    def cure(self, kind: str, *, client: str | None = None) -> FaultRecord:
        """Take a fault off again.

        Raises:
            UserError: it is not there, or it is on several clients and none is named.
        """
        kind = CURES.get(kind, kind)
        fault = _known(kind)
        with self._home.locked():
            self._load()
            active = self._active(kind, client)
            group = self._group_of(active.client)
            begun = _now_ms()
            fault.cure(self._cluster, active)
            left = fault.target == "new consumer"  # and took with it whatever else was wrong with it
            self._cluster.state.faults = [
                one
                for one in self._cluster.state.faults
                if one != active and not (left and one.client == active.client)
            ]
            self._home.save(self._cluster.state)
            return self._record(active, group, fault.cure_expect, begun, cure=True)

    def _load(self) -> None:
        current = self._home.load()
        if current is None:
            raise UserError(_NO_LAB)
        self._cluster = Cluster(self._home, current, self._settings.runtime.jars)

    def _start(self, *, with_kafka: bool, say: Callable[[str], None]) -> None:
        cluster, current = self._cluster, self._cluster.state
        if with_kafka and current.kafka is None:
            current.kafka = KafkaPorts(servers.free_port(), servers.free_port())
        say("servers")
        cluster.start_servers()
        if not cluster.runs(PRODUCER):
            say("topics and producer")
            cluster.start_producer(self._settings.lab.messages_per_second)
        away = {active.client for active in current.faults if FAULTS[active.kind].takes_away}
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
            say("consumers")
        for name in missing:
            cluster.relaunch_consumer(name)
        for name, group in new.items():
            cluster.launch_consumer(name, group)
        for name in [*missing, *new]:
            cluster.await_start(name)

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

    def _aim(self, fault: Fault, kind: str, client: str | None, queue_id: int | None, count: int) -> Aim:
        if fault.target == "topic":
            group = self._group_of(client) if client else self._first_group()
            if any(one.kind == kind and one.client == group.topic for one in self._cluster.state.faults):
                raise UserError(f"{kind} is on {group.topic} already: cure it first (lab fault {kind} --cure).")
            return Aim(group.topic, group, count=count)
        if fault.target == "new consumer":
            name = client or self._new_name(kind)
            if name in self._cluster.state.members:
                raise UserError(f"{name} is there already: give another name of a new consumer with --client.")
            return Aim(name, self._group_of(name))
        name = client or self._healthy()
        group = self._group_of(name)
        if fault.target == "ordered consumer" and not group.ordered:
            raise UserError(f"{kind} needs an ordered consumer, and {group.group} is not ordered: name another.")
        self._must_be_healthy(name)
        return Aim(name, group, queue_id)

    def _healthy(self) -> str:
        group = self._first_group().group
        for name, member in self._cluster.state.members.items():
            faulty = any(one.client == name for one in self._cluster.state.faults)
            if member.group == group and not faulty and self._cluster.runs(name):
                return name
        raise UserError(f"No consumer of {group} is well: cure a fault first (see `rebalance-watch lab status`).")

    def _must_be_healthy(self, name: str) -> None:
        member = self._cluster.state.members.get(name)
        if member is None or member.role != "consumer":
            raise UserError(f"There is no consumer {name}: see `rebalance-watch lab status` for those there are.")
        if not self._cluster.runs(name) or any(
            one.client == name and FAULTS[one.kind].target != "new consumer" for one in self._cluster.state.faults
        ):
            raise UserError(f"{name} has a fault already, or is down: cure that first (`rebalance-watch lab status`).")

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
        """The group of a consumer by its name's beginning, or of a topic."""
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
            raise UserError(f"{kind} is on {', '.join(one.client for one in found)}: say which with --client.")
        return found[0]

    def _record(self, active: ActiveFault, group: LabGroup, expect: str, begun: int, *, cure: bool) -> FaultRecord:
        queue = active.queue
        where = f"{queue.topic} {queue.broker}:{queue.queue_id}" if queue else "any of its queues"
        is_topic = FAULTS[active.kind].target == "topic"
        record = FaultRecord(
            time=begun,
            done=_now_ms(),
            kind=active.kind,
            cure=cure,
            client="" if is_topic else active.client,
            client_id="" if is_topic else f"{servers.LOOPBACK}@{active.client}",
            group=group.group,
            queue=queue,
            expect=expect.format(client=active.client, group=group.group, where=where),
        )
        self._home.record(record)
        return record


def _begin(home: Home, settings: Settings) -> LabState:
    """A new lab: free ports, empty folders."""
    for old in ("data", "logs"):
        shutil.rmtree(home.folder / old, ignore_errors=True)
    home.fault_log.write_bytes(b"")
    return LabState(
        name_server_port=servers.free_port(),
        broker_port=servers.free_port(beside=servers.BROKER_PORTS_BESIDE),
        topics={group.topic: group.queues for group in settings.lab.groups.values()},
    )


def _known(kind: str) -> Fault:
    if kind not in FAULTS:
        raise UserError(f"There is no fault {kind}: choose one of {', '.join(FAULTS)}.")
    return FAULTS[kind]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
