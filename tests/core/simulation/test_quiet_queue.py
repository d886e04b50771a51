"""A queue at rest is computed, with the same result as a simulation of every pull in every scenario."""

import pytest

from simulation.__main__ import SCENARIOS
from tests.support.simulated import simulate, small, truth

STORIES = sorted(file.stem for file in SCENARIOS.glob("*.toml"))


def same(scenario, seed):
    simulated = simulate(scenario, seed, hook=False, every_step=True)
    computed = simulate(scenario, seed, hook=False)
    assert computed.events == simulated.events
    assert truth(computed.cluster) == truth(simulated.cluster)


LONG = {"healthy", "lab-story", "rollout", "thaw", "hook-full", "clock-skew", "collector-away", "strategy-mistake"}
"""Scenarios that run only with many seeds: what clients and brokers do in them, they do in others."""


@pytest.mark.parametrize("name", [name for name in STORIES if name not in LONG])
def test_every_scenario_is_the_same_with_its_queues_at_rest(name):
    same(name, seed=11)


@pytest.mark.prove
@pytest.mark.parametrize("name", STORIES)
def test_every_scenario_with_queues_at_rest_is_the_same_for_many_seeds(name):
    for seed in range(100):
        same(name, seed)


RARE = {"name": "Orders", "queues": 4, "messages_per_second": 0.1}
DENSE = {"name": "Orders", "queues": 4, "messages_per_second": 300}
FAULTS = (
    {"at": 50, "do": "hang", "who": "c-1", "queue": 0, "lasts": 20},
    {"at": 80, "do": "freeze", "who": "c-2", "lasts": 31},
    {"at": 130, "do": "partition", "who": "c-1", "lasts": 40},
    {"at": 200, "do": "add-queues", "topic": "Orders", "queues": 2, "lasts": 40},
)


@pytest.mark.parametrize("topic", [RARE, DENSE, {"name": "Orders", "queues": 4}], ids=["rare", "dense", "silent"])
@pytest.mark.parametrize(
    ("listener_ms", "ordered"),
    [(0.5, False), (40, True), *(pytest.param(*one, marks=pytest.mark.prove) for one in ((0.5, True), (40, False)))],
)
def test_it_is_the_same_for_any_message_rate_and_listener_speed(topic, ordered, listener_ms):
    group = {
        "name": "g",
        "called": "c",
        "topics": ["Orders"],
        "consumers": 2,
        "ordered": ordered,
        "listener_ms": listener_ms,
    }
    same(small(*FAULTS, topics=[topic], groups=[group], minutes=5 if topic is not DENSE else 1.5), seed=3)


def test_two_members_that_pull_one_queue_are_both_simulated():
    group = {"name": "g", "called": "c", "topics": ["Orders"], "consumers": 3}
    mistake = {"at": 30, "do": "join", "who": "c-4", "group": "g", "strategy": "AVG_BY_CIRCLE"}
    same(small(mistake, groups=[group]), seed=5)


def test_a_queue_at_rest_whose_topic_is_created_again_is_simulated():
    same(small({"at": 60, "do": "delete-topic", "topic": "Orders", "lasts": 40}, minutes=3), seed=4)


def test_queues_do_rest():
    run = simulate(small(), hook=False, until=100.0)
    resting = [queue for client in run.cluster.clients.values() for queue in client.resting]
    assert len(resting) >= 8
    assert not any(client.resting for client in simulate(small(), hook=True, until=100.0).cluster.clients.values())
