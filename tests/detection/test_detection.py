"""Every rule against the ground truth of seeded simulations, by each kind of telemetry."""

import os

import pytest

from rebalance_model.observe.rules.registry import CODES
from tests.detection.chunks import RESULTS, resume
from tests.detection.generator import is_healthy
from tests.detection.proof import Proof, prove_seed
from tests.detection.scoring import BOUNDS
from tests.detection.test_popped import SEEDS as POPPED_SEEDS

SEEDS = {
    8: "NO_ACTIVE_CLIENTS_WITH_LAG STALE_HEARTBEAT",
    32: "LOCK_EXPIRED NO_ACTIVE_CLIENTS_WITH_LAG ORDERED_QUEUE_STUCK PULL_REFUSED STALE_HEARTBEAT",
    44: "MIXED_MEMBERS ORDERED_QUEUE_STUCK QUEUE_UNASSIGNED REBALANCE_STORM",
    57: "healthy",
    71: "CLIENT_UNRESPONSIVE LOCK_EXPIRED OFFSET_REGRESSION ORDERED_QUEUE_STUCK STALE_HEARTBEAT",
    83: "SUBSCRIPTION_INCONSISTENT",
    88: "MESSAGES_DEAD_LETTERED QUEUE_STALLED",
    92: "LOCK_EXPIRED LOCK_ORPHANED NO_ACTIVE_CLIENTS_WITH_LAG ORDERED_QUEUE_STUCK STALE_HEARTBEAT",
    113: "LAG_GROWTH",
    139: "CONSUMER_IDLE LOCK_EXPIRED ORDERED_QUEUE_STUCK PULL_EXPIRED UNLOCK_PENDING ZOMBIE_QUEUE",
    140: "",
    151: "PULL_REFUSED",  # a topic is deleted for two minutes, and its clients go on
    188: "LOCK_CONTENDED LOCK_ORPHANED ORDERED_QUEUE_STUCK REBALANCE_STORM",
    209: "",
    217: "ASSIGNMENT_SKEW DUPLICATE_CONSUMPTION QUEUE_DOUBLE_OWNED QUEUE_STALLED STRATEGY_MISMATCH",
    250: "PULL_EXPIRED QUEUE_STALLED",
    271: (
        "ASSIGNMENT_MISMATCH CLOCK_SKEW DUPLICATE_CONSUMPTION OFFSET_REGRESSION QUEUE_UNASSIGNED REBALANCE_STALLED "
        "ROUTE_VIEW_SPLIT"
    ),
    284: "QUEUE_STALLED SUBSCRIPTION_INCONSISTENT",
    303: "healthy",
    308: "MIXED_MEMBERS ORDERED_QUEUE_STUCK QUEUE_UNASSIGNED",
    314: "MESSAGES_DEAD_LETTERED TELEMETRY_GAP",
    365: "OFFSET_REGRESSION ORDERED_QUEUE_STUCK PULL_REFUSED",
    368: "CLIENT_UNRESPONSIVE DUPLICATE_CONSUMPTION LOCK_EXPIRED OFFSET_REGRESSION ORDERED_QUEUE_STUCK STALE_HEARTBEAT",
    396: "healthy",
    419: "TELEMETRY_GAP",
    422: "CID_VIEW_SPLIT CLIENT_UNRESPONSIVE DUPLICATE_CONSUMPTION QUEUE_DOUBLE_OWNED QUEUE_STALLED STALE_HEARTBEAT",
    430: "CLIENT_ID_COLLISION LAG_GROWTH ORDERED_QUEUE_STUCK QUEUE_UNASSIGNED TOPIC_NOT_FOUND",
    627: "healthy",
    693: "healthy",
    699: "healthy",
    770: "CONSUMER_IDLE",
    828: "healthy",
    914: "BROKER_LOCKS_LOST BROKER_UNREACHABLE CONSUMER_IDLE MIXED_CONSUME_MODE TELEMETRY_GAP",
    944: "QUEUE_STALLED QUEUE_UNASSIGNED ROUTE_VIEW_SPLIT",
    1133: "MESSAGES_STRANDED",
    1421: "OFFSET_REGRESSION",  # evidence while a commit returns from beyond the newest offset
    1804: "CID_VIEW_SPLIT ORDERED_QUEUE_STUCK PULL_REFUSED STALE_HEARTBEAT",
    1874: "",  # a queue that its topic lost is not one that name servers disagree about
    1925: "",  # a partition ends, and its clients have yet to take their queues: these are not stranded
    1931: "LOCK_EXPIRED ORDERED_QUEUE_STUCK PULL_EXPIRED UNLOCK_PENDING ZOMBIE_QUEUE",
    1957: "ORDERED_QUEUE_STUCK PULL_REFUSED",
}
"""The seeds that together provoke every rule and contain every fault, and the rules that each provokes. Of those that
could show a fault, one that is simulated quickly."""
LONG = {8, 44, 57, 71, 88, 92, 113, 284, 396, 422, 627, 693, 828, 944, 1874, 1925, 1931}
"""Seeds of the long form: the others provoke each of their rules, and contain each of their faults, too."""
NOT_SIMULATED = {
    "BROKER_NAME_SHARED",
    "DELAYED_STUCK",
    "MESSAGES_EXPIRING",
    "MESSAGES_RETRIED",
    "PROXY_UNREACHABLE",
    "REVIVE_BEHIND",
    "STATE_LOST",
}
"""Rules about what the simulation does not have, or not for long enough. `tests/field/test_one_broker_name.py`,
`test_messages_retried.py`, `tests/rules/test_delayed_stuck.py`, `test_messages_expiring.py`,
`test_proxy_unreachable.py`, `test_revive_behind.py` and `tests/core/engine/test_lost_state.py` judge them."""
PROVED = 2_000
"""The number of seeds of the long form."""


def test_every_rule_has_an_oracle_and_is_provoked_by_a_seed():
    seeds = [*(codes for seed, codes in SEEDS.items() if seed not in LONG), *POPPED_SEEDS.values()]
    provoked = {code for codes in seeds for code in codes.split()} - {"healthy"}
    assert BOUNDS.keys() | NOT_SIMULATED == CODES
    assert provoked | NOT_SIMULATED == CODES


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.prove] * (seed in LONG)) for seed in SEEDS])
def test_incidents_agree_with_the_ground_truth(seed):
    proof = prove_seed(seed)
    assert proof.errors() == []
    assert proof.false_alarms == []
    assert proof.contradictions == []
    assert is_healthy(seed) or proof.detected() >= set(SEEDS[seed].split())


@pytest.mark.prove
@pytest.mark.timeout(6 * 3600)
def test_precision_and_recall_are_99_percent_and_healthy_runs_silent():
    proof = Proof()
    for chunk in resume(RESULTS, range(PROVED), os.cpu_count() or 1):
        proof.add(chunk)
    proof.keep("detection")
    low = {key: one for key, one in proof.scores.items() if min(one.precision, one.recall) < 0.99}
    assert proof.false_alarms == []
    assert proof.contradictions == []
    assert {key: (one.false, one.missed) for key, one in low.items()} == {}
