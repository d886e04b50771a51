"""Incidents of the cluster: one for a fault, the same in every shard, with its consequences as children."""

import json
from collections import Counter
from collections.abc import Iterable

import pytest

from rebalance_model.observe.effects import AnyEffect, IncidentTransition, RebalanceSettled
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import AnyEvent, GroupEvent, key_of
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from simulation import scenario, story
from simulation.cluster import START
from streaming.log.rows import partition_of
from tests.support.simulated import simulate


def brokers_and_groups(groups: int, *steps: dict[str, object], minutes: float, ahead_ms: int = 0) -> scenario.Scenario:
    """Make a cluster of three brokers; every second group is ordered; each has two consumers."""
    made = scenario.read({
        "title": "three brokers",
        "minutes": minutes,
        "brokers": [
            {"name": "broker-a"}, {"name": "broker-b"}, {"name": "broker-c", "clock_offset_ms": ahead_ms},
        ],
        "topics": [{"name": f"Topic-{n}", "queues": 2, "messages_per_second": 3} for n in range(min(groups, 10))],
        "groups": [
            {"name": f"group-{n}", "topics": [f"Topic-{n % 10}"], "ordered": n % 2 == 0, "consumers": 2}
            for n in range(groups)
        ],
        "story": steps,
    })  # fmt: skip
    story.check(made)
    return made


KILLED = {"at": 120, "do": "stop-broker", "broker": "broker-b", "lasts": 45}


class Shards:
    """A log with a shard for each partition: a group's events are in one, broadcasts in all."""

    def __init__(self, events: Iterable[AnyEvent], count: int) -> None:
        self.effects: list[AnyEffect] = []
        self.incidents: list[set[tuple[str, str, str]]] = [set() for _ in range(count)]
        """Return, by shard, the code, subject and id of every incident of the cluster."""
        self._shards = [Shard(None, GroupsInMemory(), Policy(), n) for n in range(count)]
        stamp = 0
        for event in events:
            stamp = max(stamp, event.time)
            of_all = not isinstance(event, GroupEvent)
            for n in range(count) if of_all else (partition_of(key_of(event), count),):
                self.effects += self._shards[n].push(event, stamp)
                self._note(n)
        for shard in self._shards:
            self.effects += shard.finish()

    def _note(self, shard: int) -> None:
        for cluster in self._shards[shard].timeline.state.clusters.values():
            self.incidents[shard] |= {(one.code, one.subject, one.incident_id) for one in cluster.incidents.values()}

    def transitions(self, *codes: str) -> list[IncidentTransition]:
        found = [effect for effect in self.effects if isinstance(effect, IncidentTransition)]
        return [one for one in found if not codes or one.code in codes]


def life(rows: Iterable[IncidentTransition]) -> list[tuple[int, str, str, str, str]]:
    return [(round((one.time - START) / 1000), one.group, one.transition, one.subject, one.sub_cause) for one in rows]


def check_one_critical_message(groups: int, shards: int, minutes: float) -> None:
    run = Shards(simulate(brokers_and_groups(groups, KILLED, minutes=minutes), hook=True, poll=True).events, shards)
    rows = run.transitions()
    alerted = [one for one in rows if not one.is_absorbed and one.transition in {"OPENED", "ESCALATED"}]
    critical = [one for one in alerted if one.severity == "critical"]
    assert [(one.transition, one.code, one.subject, one.group) for one in critical] == [
        ("OPENED", "BROKER_UNREACHABLE", "broker-b", "")
    ]
    others = {one.code for one in alerted if one not in critical}
    assert others <= {"DUPLICATE_CONSUMPTION", "OFFSET_REGRESSION"}, "what was committed twice is a fact of its own"
    children = {one.group for one in rows if one.parent == critical[0].incident_id}
    assert len(children) >= groups // 2, "every ordered group has lost its locks at the broker"
    assert all(incidents == run.incidents[0] for incidents in run.incidents)


def test_a_broker_killed_and_restarted_is_one_critical_message():
    check_one_critical_message(groups=6, shards=3, minutes=6)


@pytest.mark.prove
def test_a_restarted_broker_of_300_groups_is_one_critical_message():
    check_one_critical_message(groups=300, shards=8, minutes=6)


def test_a_broker_is_unreachable_at_the_first_request_after_its_hook_ends():
    run = Shards(simulate(brokers_and_groups(2, KILLED, minutes=5), hook=True, poll=True).events, 2)
    assert life(run.transitions("BROKER_UNREACHABLE")) == [
        (122, "", "OPENED", "broker-b", "HOOK_SILENT"),
        (165, "", "RECLASSIFIED", "broker-b", ""),
        (232, "", "RESOLVED", "broker-b", ""),
    ]
    last = run.transitions("BROKER_UNREACHABLE")[-1]
    assert (last.main_cause, "hook" in last.main_explanation) == ("HOOK_SILENT", True)
    assert json.loads(last.evidence)["clear_since"] == START + 172_002


def test_a_broker_that_fails_twice_within_a_minute_is_one_incident():
    flaps = [{**KILLED, "at": at, "lasts": 15} for at in (120, 150, 180)]
    run = Shards(simulate(brokers_and_groups(2, *flaps, minutes=6), hook=True, poll=True).events, 2)
    found = run.transitions("BROKER_UNREACHABLE", "BROKER_LOCKS_LOST")
    assert Counter((one.code, one.transition) for one in found if one.transition in {"OPENED", "RESOLVED"}) == {
        ("BROKER_UNREACHABLE", "OPENED"): 1,
        ("BROKER_UNREACHABLE", "RESOLVED"): 1,
        ("BROKER_LOCKS_LOST", "OPENED"): 1,
        ("BROKER_LOCKS_LOST", "RESOLVED"): 1,
    }


@pytest.mark.parametrize(
    ("step", "sub_cause", "subject"),
    [
        ({"at": 90, "do": "hook-full", "broker": "broker-c", "lasts": 60}, "HOOK_SILENT", "broker-c"),
        ({"at": 90, "do": "collector-away", "lasts": 60}, "POLL_SILENT", "poll"),
    ],
)
def test_a_source_that_is_silent_is_one_incident_of_the_cluster(step, sub_cause, subject):
    run = Shards(simulate(brokers_and_groups(4, step, minutes=5), hook=True, poll=True).events, 3)
    transitions = [one for one in run.transitions("TELEMETRY_GAP") if not one.group]
    assert [(one.transition, one.sub_cause, one.severity) for one in transitions] == [
        ("OPENED", sub_cause, "warning"),
        ("RESOLVED", sub_cause, "warning"),
    ]
    assert transitions[0].subject.startswith(subject)
    assert all(incidents == run.incidents[0] and incidents for incidents in run.incidents)


def test_a_brokers_wrong_clock_is_one_incident_of_the_cluster():
    run = Shards(simulate(brokers_and_groups(3, minutes=4, ahead_ms=8_000), hook=True, poll=True).events, 3)
    [opened] = run.transitions("CLOCK_SKEW")
    assert (opened.group, opened.subject, opened.sub_cause) == ("", "broker-c", "BROKER_AHEAD")
    bounds = json.loads(opened.evidence)
    assert bounds["ahead_ms_min"] <= 8_000 <= bounds["ahead_ms_max"]
    assert all(incidents == run.incidents[0] and incidents for incidents in run.incidents)


def test_setting_one_brokers_clock_delays_no_incident_of_another_one():
    """broker-c is ahead from the start: that is reported after 60 s, and what was measured of it stays valid."""
    step = {"at": 50, "do": "set-clock", "of": "broker-a", "by_ms": 3_000}
    run = Shards(simulate(brokers_and_groups(1, step, minutes=2, ahead_ms=8_000), hook=True, poll=True).events, 1)
    assert life(one for one in run.transitions("CLOCK_SKEW") if one.transition == "OPENED") == [
        (51, "", "OPENED", "broker-a", "HOOK_SET_AHEAD"),
        (62, "", "OPENED", "broker-c", "BROKER_AHEAD"),
    ]


def test_an_ordinary_start_opens_nothing_and_no_rebalance_without_a_move():
    run = Shards(simulate(brokers_and_groups(6, minutes=3), hook=True, poll=True).events, 2)
    assert run.transitions() == []
    rebalances = [one for one in run.effects if isinstance(one, RebalanceSettled)]
    assert rebalances
    assert all(one.moves for one in rebalances)
    assert all(one.trigger != "UNEXPLAINED" for one in rebalances)
