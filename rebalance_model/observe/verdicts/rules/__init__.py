"""The rules of detection.md: one small pure predicate a file or family, by what they are about."""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.turn import ClusterStep, Turn
from rebalance_model.observe.verdicts.rules import (
    assignment_mismatch,
    broker_locks_lost,
    broker_unreachable,
    cid_view_split,
    client_id_collision,
    client_unresponsive,
    clock_skew,
    declarations,
    dropped_queue,
    duplicate_consumption,
    lag_growth,
    lock_contended,
    lock_expired,
    lock_orphaned,
    no_active_clients_with_lag,
    offset_regression,
    ordered_queue_stuck,
    pull_expired,
    queue_double_owned,
    queue_stalled,
    queue_unassigned,
    rebalance_stalled,
    rebalance_storm,
    route_view_split,
    shares,
    stale_heartbeat,
    subscription_inconsistent,
    telemetry_gap,
)
from rebalance_model.observe.verdicts.verdict import Rule

QUEUE_RULES: tuple[Rule[Turn, MessageQueue], ...] = (
    lock_orphaned.RULE,
    lock_contended.RULE,
    lock_expired.RULE,
    pull_expired.RULE,
    offset_regression.RULE,
    ordered_queue_stuck.RULE,
    queue_unassigned.RULE,
    queue_double_owned.RULE,
    assignment_mismatch.RULE,
    dropped_queue.ZOMBIE_QUEUE,
    dropped_queue.UNLOCK_PENDING,
    queue_stalled.RULE,
    lag_growth.RULE,
)
CLIENT_RULES: tuple[Rule[Turn, str], ...] = (
    stale_heartbeat.RULE,
    client_id_collision.RULE,
    client_unresponsive.RULE,
    clock_skew.RULE,
)
BROKER_RULES: tuple[Rule[Turn, str], ...] = (
    telemetry_gap.OF_HOOK,
    broker_locks_lost.RULE,
    clock_skew.OF_BROKER,
)
REBALANCE_RULES: tuple[Rule[Turn, str], ...] = (duplicate_consumption.RULE,)
GROUP_RULES: tuple[Rule[Turn, str], ...] = (
    telemetry_gap.OF_POLLS,
    rebalance_storm.RULE,
    no_active_clients_with_lag.RULE,
    subscription_inconsistent.RULE,
    cid_view_split.RULE,
    declarations.STRATEGY_MISMATCH,
    declarations.MIXED_CONSUME_MODE,
    route_view_split.RULE,
    rebalance_stalled.RULE,
    shares.CONSUMER_IDLE,
    shares.ASSIGNMENT_SKEW,
)
CLUSTER_RULES: tuple[Rule[ClusterStep, str], ...] = (
    broker_unreachable.RULE,
    telemetry_gap.OF_SOURCE,
    clock_skew.OF_BROKER_CLOCK,
)
"""Of a broker or a collector, from broadcasts alone."""
