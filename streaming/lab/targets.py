"""Targets of a fault: the one that is named, or a healthy one; an unsuitable one is refused in a sentence."""

from streaming.base.errors import UserError
from streaming.base.sections.lab import LabGroup, LabSettings, PopGroup
from streaming.lab.cluster import LabCluster
from streaming.lab.fault_actions import FaultTarget
from streaming.lab.faults import FAULTS, LabFault
from streaming.lab.pop_faults import POP_FAULTS
from streaming.lab.state import ActiveFault


class Targets:
    """The possible targets in a running lab."""

    def __init__(self, cluster: LabCluster, lab: LabSettings) -> None:
        self._cluster = cluster
        self._classic = lab.groups
        self._pops: dict[str, PopGroup] = lab.pop_groups if cluster.state.proxy else {}

    def fault(self, kind: str, client: str | None) -> LabFault:
        """Return the fault of this name that a client can have; by default of consumers that pull, if they can have it.

        Args:
            kind: a key of `FAULTS` or `POP_FAULTS`.
            client: the target; None: not chosen yet.

        Raises:
            UserError: there is none.
        """
        if kind not in FAULTS and kind not in POP_FAULTS:
            raise UserError(f"There is no fault {kind}: choose one of {', '.join(FAULTS | POP_FAULTS)}.")
        group = self._pops.get((client or "").partition("-")[0])
        if group is None and kind in FAULTS:
            return FAULTS[kind]
        if not self._pops:
            raise UserError(f"{kind} needs consumers that pop: start the lab with `rebalance-watch lab up --pop`.")
        if group is None and client is not None:
            raise UserError(f"{kind} is a fault of consumers that pop, and {client} does not: {self._who_can(kind)}.")
        group = group or self._pops[self._default_key(kind)]
        if (fault := POP_FAULTS.get(kind, {}).get(group.client)) is None:
            raise UserError(
                f"{kind} is no fault of {group.group}, whose client is {group.client}: {self._who_can(kind)}."
            )
        return fault

    def fault_of(self, active: ActiveFault) -> LabFault:
        """Return the fault that is active."""
        return self.fault(active.kind, active.client)

    def away(self) -> set[str]:
        """Return the names of the processes that are missing on purpose."""
        faults = [one for one in self._cluster.state.faults if self.fault_of(one).takes_away]
        return {name for one in faults for name in (one.client, *self._cluster.consumers(one.client))}

    def aim(
        self, kind: str, client: str | None, *, broker: str | None, queue_id: int | None, count: int
    ) -> FaultTarget:
        """Return the target of a fault.

        Raises:
            UserError: it can't be put on the client, or on any.
        """
        target = self.fault(kind, client).target
        if target == "broker":
            return FaultTarget(self._broker(client), self.first_group())
        if broker is not None:
            self._must_be_broker(broker)
        if target == "topic":
            group = self.group_of(client) if client else self.first_group()
            if any(one.kind == kind and one.client == group.topic for one in self._cluster.state.faults):
                raise UserError(f"{kind} is already active on {group.topic}: cure it first (lab fault {kind} --cure).")
            return FaultTarget(group.topic, group, count=count)
        if target == "group":
            return self._group(kind, client)
        if target == "new consumer":
            name = client or self._new_name(kind)
            if name in self._cluster.state.members:
                raise UserError(f"{name} already exists: set another name for the new consumer with --client.")
            return FaultTarget(name, self.group_of(name))
        name = client or self._healthy(self._default_group(kind))
        group = self.group_of(name)
        if target == "ordered consumer" and not group.ordered:
            raise UserError(f"{kind} needs an ordered consumer, and {group.group} is not ordered: choose another.")
        self._must_be_healthy(name)
        return FaultTarget(name, group, queue_id, broker or "")

    def first_group(self) -> LabGroup:
        """Return the ordered group whose consumers pull, or the first one."""
        groups = list(self._classic.values())
        return next((group for group in groups if group.ordered), groups[0])

    def group_of(self, name: str) -> LabGroup:
        """Return the group of a consumer, by the prefix of its name, or of a topic.

        Raises:
            UserError: there is none.
        """
        groups: dict[str, LabGroup] = {**self._classic, **self._pops}
        if group := groups.get(name.partition("-")[0]):
            return group
        if group := next((group for group in groups.values() if group.topic == name), None):
            return group
        raise UserError(f"{name} belongs to no group of the lab: names begin with {' or '.join(groups)}.")

    def _default_key(self, kind: str) -> str:
        """Return the key of the first group that can have a fault of consumers that pop."""
        able = [key for key, group in self._pops.items() if group.client in POP_FAULTS[kind]]
        if not able:
            clients = " or ".join(POP_FAULTS[kind])
            raise UserError(f"{kind} needs a group whose client is {clients}: add one to lab.pop_groups.")
        return able[0]

    def _default_group(self, kind: str) -> LabGroup:
        return self.first_group() if kind in FAULTS else self._pops[self._default_key(kind)]

    def _who_can(self, kind: str) -> str:
        keys = [key for key, group in self._pops.items() if group.client in POP_FAULTS.get(kind, {})]
        return (
            f"choose a consumer of {' or '.join(keys)}" if keys else "see `rebalance-watch lab fault` for those it has"
        )

    def _group(self, kind: str, key: str | None) -> FaultTarget:
        key = key or self._default_key(kind)
        if key not in self._pops:
            raise UserError(f"{kind} needs a whole group: choose one of {', '.join(self._pops)}.")
        if not any(map(self._cluster.runs, self._cluster.consumers(key))):
            raise UserError(f"No consumer of {key} runs: cure a fault first (see `rebalance-watch lab status`).")
        return FaultTarget(key, self._pops[key])

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

    def _healthy(self, group: LabGroup) -> str:
        for name, member in self._cluster.state.members.items():
            faulty = any(one.client == name for one in self._cluster.state.faults)
            if member.group == group.group and not faulty and self._cluster.runs(name):
                return name
        raise UserError(
            f"No consumer of {group.group} is healthy: cure a fault first (see `rebalance-watch lab status`)."
        )

    def _must_be_healthy(self, name: str) -> None:
        member = self._cluster.state.members.get(name)
        if member is None or member.role != "consumer":
            raise UserError(f"There is no consumer {name}: `rebalance-watch lab status` lists them.")
        if not self._cluster.runs(name) or any(
            one.client == name and self.fault_of(one).target != "new consumer" for one in self._cluster.state.faults
        ):
            raise UserError(f"{name} already has a fault, or is down: cure that first (`rebalance-watch lab status`).")

    def _new_name(self, kind: str) -> str:
        groups = {**self._classic, **self._pops}
        key = next(key for key, group in groups.items() if group == self._default_group(kind))
        stem = key if kind == "join" else f"{key}-{kind.partition('-')[0]}"
        number = 1
        while f"{stem}-{number}" in self._cluster.state.members:
            number += 1
        return f"{stem}-{number}"
