"""One script on the simulated cluster and on the real lab leads to the same owners after each step.

Both have the same consumers by the same ids, as many queues, and RocketMQ's own timers. When a step is over is a matter
of its fault: a killed client's locks live for 60 s, a new route is seen within 30 s. Then the owners by the real
clients' own word must be the owners in the simulation's truth at the end of the same step.
"""

from dataclasses import dataclass
from functools import partial

import pytest

from simulation import scenario, story
from simulation.cluster import SimulatedCluster

GROUP, TOPIC = "orders-group", "Orders"
LATER_SECONDS = 100
"""How much longer real clients may take on a machine that is busy."""


@dataclass(frozen=True)
class Step:
    """One thing done to both, and how long both may take for it."""

    fault: str
    client: str | None = None
    cure: bool = False
    seconds: float = 40


SHORT = (
    Step("join", "orders-4"),
    Step("leave", "orders-1"),
    Step("freeze", "orders-3", seconds=5),
    Step("freeze", "orders-3", cure=True),
    Step("leave", "orders-1", cure=True),
    Step("join", "orders-4", cure=True),
)
KILLED = (
    Step("kill", "orders-2", seconds=75),
    Step("freeze", "orders-3", seconds=5),
    Step("add-queues", seconds=60),
    Step("freeze", "orders-3", cure=True),
    Step("kill", "orders-2", cure=True),
    Step("add-queues", cure=True, seconds=60),
)
FROZEN = (
    Step("freeze", "orders-3", seconds=170),
    Step("freeze", "orders-3", cure=True, seconds=160),
    Step("join", "orders-4"),
    Step("freeze", "orders-1", seconds=170),
    Step("kill", "orders-2", seconds=75),
    Step("freeze", "orders-1", cure=True, seconds=160),
    Step("kill", "orders-2", cure=True),
    Step("join", "orders-4", cure=True),
)


class Simulated:
    """The lab's ordered group, simulated; the same faults by the same names."""

    def __init__(self, settings, seed):
        group = settings.lab.groups["orders"]
        rate = settings.lab.messages_per_second
        made = scenario.read(
            {
                "title": "the lab",
                "minutes": 60,
                "topics": [{"name": TOPIC, "queues": group.queues, "messages_per_second": rate}],
                "groups": [
                    {
                        "name": GROUP,
                        "called": "orders",
                        "topics": [TOPIC],
                        "ordered": group.ordered,
                        "consumers": group.consumers,
                    }
                ],
            }
        )
        self._cluster = SimulatedCluster(made, seed, lambda _: None, hook=False)
        self._undo = {}
        self._cluster.run_until(60)

    def do(self, step):
        key = step.fault, step.client
        if step.cure:
            self._undo.pop(key)()
        else:
            step_fields = {"do": step.fault, "at": 0, "who": step.client, "group": GROUP, "topic": TOPIC, "queues": 4}
            fields = {"add-queues": ("topic", "queues"), "join": ("who", "group")}.get(step.fault, ("who",))
            [made] = scenario.read(
                {
                    "title": "",
                    "minutes": 1,
                    "topics": [],
                    "groups": [],
                    "story": [{name: step_fields[name] for name in ("do", "at", *fields)}],
                }
            ).story
            self._undo[key] = story.do(self._cluster, made)
        self._cluster.run_until(self._cluster.seconds + step.seconds)

    def owners(self, frozen=frozenset()):
        """The truth, but for what a frozen client still believes."""
        owners = {}
        for queue, names in self._cluster.owners(GROUP).items():
            awake = [client_id for name in names if (client_id := f"127.0.0.1@{name}") not in frozen]
            assert len(awake) <= 1
            owners.update(((queue.broker, queue.queue_id), client_id) for client_id in awake)
        return owners


def _play(steps, lab, lab_settings, watch, eventually):
    simulated = Simulated(lab_settings, seed=1)
    group = lab_settings.lab.groups["orders"].group
    eventually(
        partial(_agrees, watch, group, frozenset(), simulated.owners())
    )  # it may still recover from another test
    left = []
    try:
        for step in steps:
            simulated.do(step)
            if step.cure:
                left.remove((step.fault, step.client))
                lab.cure(step.fault, client=step.client)
            else:
                lab.fault(step.fault, client=step.client)
                left.append((step.fault, step.client))
            frozen = {f"127.0.0.1@{client}" for fault, client in left if fault == "freeze"}
            expected = simulated.owners(frozen)
            eventually(partial(_agrees, watch, group, frozen, expected), seconds=step.seconds + LATER_SECONDS)
    finally:
        for fault, client in reversed(left):
            lab.cure(fault, client=client)


def _agrees(watch, group, frozen, expected):
    """Return whether the owners by the clients' own word are these; a frozen one can't say what it believes."""
    owners = {}
    for client_id in sorted(watch.members(group) - frozen):
        for queue in watch.running(group, client_id):
            assert queue not in owners
            owners[queue] = client_id
    return owners == expected


@pytest.mark.live
@pytest.mark.timeout(600)
def test_join_leave_and_freeze_end_in_the_same_owners(lab, lab_settings, watch, eventually):
    _play(SHORT, lab, lab_settings, watch, eventually)


@pytest.mark.live
@pytest.mark.prove
def test_kills_and_more_queues_end_in_the_same_owners(lab, lab_settings, watch, eventually):
    _play(KILLED, lab, lab_settings, watch, eventually)


@pytest.mark.live
@pytest.mark.prove
def test_freezes_beyond_the_brokers_patience_end_in_the_same_owners(lab, lab_settings, watch, eventually):
    _play(FROZEN, lab, lab_settings, watch, eventually)
