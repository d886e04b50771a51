"""The rules about consumers that pop, against the ground truth of seeded simulations, by each kind of telemetry."""

import os

import pytest

from tests.detection.chunks import RESULTS, resume
from tests.detection.generator import is_healthy
from tests.detection.proof import Proof, prove_popped_seed

SEEDS = {
    0: "healthy",
    10: "NO_ACTIVE_CLIENTS_WITH_LAG POP_HELD_LONG PROXY_CLIENT_GONE",
    22: "MIXED_REQUEST_MODE POP_RETURNED POP_STOPPED",
    29: "POP_NOT_ACKING POP_RETURNED",
    31: "TELEMETRY_GAP",  # the hook's disk is full: that nothing was seen proves nothing
    40: "POP_RETURNED",
    48: "healthy",
    49: "CLOCK_SKEW POP_STOPPED TELEMETRY_GAP",
    54: "healthy",
    101: "POP_NOT_ACKING POP_RETURNED POP_STOPPED",
    102: "healthy",
    125: "ORDERED_QUEUE_STUCK PROXY_CLIENT_GONE",
    515: "",  # a popped topic is deleted and created again
    523: "CLIENT_UNRESPONSIVE POP_RETURNED POP_STOPPED STALE_HEARTBEAT",
}
"""The seeds that run, and the rules that each provokes: of those that show a fault, one that is simulated quickly."""
PROVED = 600
"""The number of seeds of the long form."""


@pytest.mark.parametrize("seed", SEEDS)
def test_incidents_of_groups_that_pop_agree_with_the_ground_truth(seed):
    proof = prove_popped_seed(seed)
    assert proof.errors() == []
    assert proof.false_alarms == []
    assert proof.contradictions == []
    assert is_healthy(seed) or proof.detected() >= set(SEEDS[seed].split())


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_popped_precision_and_recall_are_99_percent_healthy_runs_silent():
    proof = Proof()
    for chunk in resume(RESULTS, range(PROVED), os.cpu_count() or 1, popped=True):
        proof.add(chunk)
    proof.keep("detection --popped")
    low = {key: one for key, one in proof.scores.items() if min(one.precision, one.recall) < 0.99}
    assert proof.false_alarms == []
    assert proof.contradictions == []
    assert {key: (one.false, one.missed) for key, one in low.items()} == {}
