"""The thresholds: what groups have of their own, and what is refused at the start."""

import msgspec
import pytest
from msgspec.structs import replace

from rebalance_model.observe.policy import Policy
from tests.core.test_shard import LOG
from tests.support.folding import folded

CONTRADICTIONS = [
    ({"broker_lock_max_live_time": 29_999}, "broker_lock_max_live_time must not be below client_lock_max_live_time"),
    ({"pull_threshold_for_queue": 31}, "pull_threshold_for_queue must not be below pull_batch_size"),
    ({"channel_expired_after": 29_999}, "channel_expired_after must not be below heartbeat_broker_interval"),
    ({"regression_critical": 99}, "regression_critical must not be below regression_warning"),
    ({"stuck_after": 0}, "stuck_after must be above 0"),
    ({"snapshot_interval": 999}, "snapshot_interval must not be below 1000: each time, all state is written"),
    ({"snapshot_interval": 3_600_001}, "snapshot_interval must not be above 3600000"),
    ({"allocate_strategy": "NEAREST"}, "allocate_strategy must be one of AVG, .* or empty"),
    ({"allocate_strategy": "MACHINE_ROOM_NEARBY"}, "allocate_strategy must be one of AVG, "),
    ({"allocate_strategy": "CONFIG"}, "allocate_strategy CONFIG needs message_queue_list"),
    ({"allocate_strategy": "MACHINE_ROOM"}, "allocate_strategy MACHINE_ROOM needs consumeridcs"),
    (
        {"allocate_strategy": "MACHINE_ROOM_NEARBY-AVG", "consumeridcs": ["r1"]},
        "NEARBY-AVG needs broker_deploy_in and consumer_deploy_in",
    ),
    ({"consumeridcs": ["r1"]}, "consumeridcs needs allocate_strategy: the strategy that it is a parameter of"),
    (
        {"allocate_strategy": "CONFIG", "message_queue_list": {"a": ["Orders:0"]}},
        "message_queue_list: 'Orders:0' is not a queue: use TOPIC@BROKER:ID",
    ),
    ({"allocate_strategy": "AVG", "broker_deploy_in": "("}, r"broker_deploy_in: '\(' is not a regular expression"),
    ({"allocate_strategy": "AVG", "consumer_deploy_in": "r1"}, "consumer_deploy_in: 'r1' has no group"),
    ({"stuck_after": -1}, "Expected `int` >= 0"),
    ({"stuck_for": 1}, "unknown field `stuck_for`"),
]


def read(**fields: object) -> Policy:
    return msgspec.convert(fields, Policy)


@pytest.mark.parametrize(("fields", "sentence"), CONTRADICTIONS)
def test_a_contradiction_is_refused_in_the_policy_and_in_overrides(fields, sentence):
    with pytest.raises(msgspec.ValidationError, match=sentence):
        read(**fields)
    with pytest.raises(msgspec.ValidationError, match=rf"\[\[group\]\] pay-\*: .*{sentence}"):
        read(group=[{"pattern": "pay-*", **fields}])


@pytest.mark.parametrize("override", [{}, {"pattern": ""}, {"pattern": 7, "stuck_after": 1}])
def test_what_is_for_no_group_is_refused(override):
    with pytest.raises(msgspec.ValidationError, match="needs a pattern"):
        read(group=[override])


def test_a_policy_is_kept_without_defaults_unknown_to_a_former_release():
    policy = read(stuck_after=1, group=[{"pattern": "pay"}])
    assert msgspec.json.encode(policy) == b'{"stuck_after":1,"group":[{"pattern":"pay"}]}'
    assert msgspec.json.decode(msgspec.json.encode(policy), type=Policy) == policy


def test_an_override_can_not_hold_another():
    with pytest.raises(msgspec.ValidationError, match="pay: "):
        read(group=[{"pattern": "pay", "group": "x"}])


def test_what_all_groups_share_is_no_groups_own():
    with pytest.raises(msgspec.ValidationError, match="source_silent_after is for all groups"):
        read(group=[{"pattern": "pay", "source_silent_after": 1}])


def test_an_override_alone_may_be_right_and_with_the_rest_wrong():
    """Each is fine with the defaults, but not with the file that it stands in."""
    read(group=[{"pattern": "*", "client_lock_max_live_time": 40_000}])
    with pytest.raises(msgspec.ValidationError, match="client_lock_max_live_time: two clients"):
        read(broker_lock_max_live_time=35_000, group=[{"pattern": "*", "client_lock_max_live_time": 40_000}])


def test_the_first_pattern_that_fits_counts_and_the_rest_is_the_policys():
    policy = read(
        poll_interval=5_000,
        group=[
            {"pattern": "pay-slow-*", "stuck_after": 300_000},
            {"pattern": "pay-*", "stuck_after": 20_000, "snapshot_interval": 60_000},
        ],
    )
    assert policy.of_group("c", "orders") is policy
    slow, fast = policy.of_group("c", "pay-slow-1"), policy.of_group("c", "pay-1")
    assert (slow.stuck_after, slow.snapshot_interval, slow.poll_interval) == (300_000, 300_000, 5_000)
    assert (fast.stuck_after, fast.snapshot_interval, fast.poll_interval) == (20_000, 60_000, 5_000)
    assert fast.of_group("c", "pay-slow-1") is fast


def test_an_override_for_a_cluster_leaves_equal_groups_elsewhere_alone():
    policy = read(group=[{"pattern": "pay", "cluster": "to*", "stuck_after": 1}, {"pattern": "*", "stuck_after": 2}])
    assert [policy.of_group(*one).stuck_after for one in (("tokyo", "pay"), ("paris", "pay"), ("tokyo", "x"))] == [
        1, 2, 2
    ]  # fmt: skip


@pytest.mark.parametrize("cluster", ["", 7])
def test_a_cluster_that_is_no_pattern_is_refused(cluster):
    with pytest.raises(msgspec.ValidationError, match="pay: cluster must be a pattern of cluster names"):
        read(group=[{"pattern": "pay", "cluster": cluster}])


def test_a_shard_judges_each_group_by_its_own():
    """Groups g and h have the same telemetry; only g's patience is short enough for it."""

    def opened(policy: Policy) -> set[str]:
        return {e.group for e in folded(LOG, policy) if getattr(e, "code", "") == "ORDERED_QUEUE_STUCK"}

    assert opened(Policy()) == {"g", "h"}
    assert opened(Policy(group=({"pattern": "h", "stuck_after": 3_000_000},))) == {"g"}


def test_a_shard_judges_equal_groups_by_their_cluster():
    """The telemetry of cluster c is there again as that of d, from sources of its own."""
    also = [replace(event, cluster="d", source_id=f"d-{event.source_id}") for event in LOG]
    both = [event for pair in zip(LOG, also, strict=True) for event in pair]
    policy = Policy(group=({"pattern": "*", "cluster": "d", "stuck_after": 3_000_000},))
    opened = {(e.cluster, e.group) for e in folded(both, policy) if getattr(e, "code", "") == "ORDERED_QUEUE_STUCK"}
    assert opened == {("c", "g"), ("c", "h")}
