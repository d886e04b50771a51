"""Offsets, and the answers that clients get about them."""

import msgspec
import pytest

from rebalance_model.broker.broker_config import BrokerConfig
from rebalance_model.broker.consumer_manager import ConsumerManager
from rebalance_model.dialect import RELEASE_4_9
from rebalance_model.entities import MessageQueue
from simulation.rocketmq.broker.consumer_manage_processor import ConsumerManageProcessor, Response
from simulation.rocketmq.broker.consumer_offset_manager import ConsumerOffsetManager
from simulation.rocketmq.broker.subscription_group_config import SubscriptionGroupConfig, SubscriptionGroupManager

Q0 = MessageQueue("T", "b", 0)
NOT_FOUND = Response(22, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")


@pytest.fixture
def offsets() -> ConsumerOffsetManager:
    return ConsumerOffsetManager()


@pytest.fixture
def processor(offsets) -> ConsumerManageProcessor:
    groups = SubscriptionGroupManager()
    groups.update_subscription_group_config(SubscriptionGroupConfig("G"))
    return ConsumerManageProcessor(ConsumerManager(), groups, offsets)


def test_a_commit_overwrites_and_returns_whether_it_went_back(offsets):
    assert not offsets.commit_offset("G", "T", 0, 9)
    assert offsets.commit_offset("G", "T", 0, 4)
    assert not offsets.commit_offset("G", "T", 0, 4)
    assert offsets.query_offset("G", "T", 0) == 4
    assert offsets.query_offset("G", "T", 1) == -1
    assert offsets.query_offset("H", "T", 0) == -1


def test_the_pull_offset_is_independent_until_cleared(offsets):
    offsets.commit_offset("G", "T", 0, 4)
    assert offsets.query_pull_offset("G", "T", 0) == 4
    offsets.commit_pull_offset("G", "T", 0, 0)
    assert offsets.query_pull_offset("G", "T", 0) == 0
    offsets.clear_pull_offset("G", "T")
    offsets.clear_pull_offset("G", "unknown")
    assert offsets.query_pull_offset("G", "T", 0) == 4


def test_an_offset_that_an_operator_set_waits_for_the_client(offsets):
    offsets.commit_offset("G", "T", 0, 9)
    offsets.assign_reset_offset("G", "T", 0, 2)
    offsets.commit_offset("G", "T", 0, 8)
    assert offsets.has_offset_reset("G", "T", 0)
    assert offsets.query_offset("G", "T", 0) == 2
    assert offsets.query_then_erase_reset_offset("G", "T", 0) == 2
    assert offsets.query_then_erase_reset_offset("G", "T", 0) is None
    assert not offsets.has_offset_reset("G", "T", 0)
    assert offsets.query_offset("G", "T", 0) == 8


@pytest.mark.parametrize("impossible", [("", "T", 0, 0), ("G", "", 0, 0), ("G", "T", -1, 0), ("G", "T", 0, -1)])
def test_an_impossible_reset_changes_nothing(offsets, impossible):
    offsets.assign_reset_offset(*impossible)
    assert offsets == ConsumerOffsetManager()


def test_the_smallest_possible_reset_counts(offsets):
    offsets.assign_reset_offset("G", "T", 0, 0)
    assert offsets.has_offset_reset("G", "T", 0)


@pytest.mark.parametrize(
    "old", [ConsumerOffsetManager(use_server_side_reset_offset=False), ConsumerOffsetManager(dialect=RELEASE_4_9)]
)
def test_without_server_side_reset_the_committed_offset_counts(old):
    old.assign_reset_offset("G", "T", 0, 2)
    old.commit_offset("G", "T", 0, 8)
    assert old.query_offset("G", "T", 0) == 8


def test_names_are_read_off_the_keys_as_java_splits_them(offsets):
    for group, topic in (("G", "T"), ("H", "T"), ("G", "U"), ("x@y", "T"), ("G@", "V"), ("", "T"), ("GX", "W")):
        offsets.commit_offset(group, topic, 0, 1)
    assert offsets.which_topic_by_consumer("G") == {"T", "U", "V"}
    assert offsets.which_topic_by_consumer("GX") == {"W"}
    assert offsets.which_group_by_topic("T") == {"G", "H"}


def test_a_group_is_cloned_and_forgotten(offsets):
    offsets.commit_offset("G", "T", 0, 1)
    offsets.commit_offset("H", "U", 0, 5)
    offsets.clone_offset("G", "H", "T")
    offsets.clone_offset("G", "H", "U")
    offsets.commit_offset("H", "T", 0, 2)
    assert [offsets.query_offset(*of, 0) for of in (("G", "T"), ("H", "T"), ("H", "U"))] == [1, 2, 5]
    offsets.commit_pull_offset("H", "T", 0, 7)
    offsets.assign_reset_offset("H", "T", 0, 3)
    offsets.clean_offset("H")
    assert set(offsets.offset_table) == {"T@G"}
    assert set(offsets.pull_offset_table) == set(offsets.reset_offset_table) == {"T@H"}
    offsets.remove_offset("H")
    assert offsets.pull_offset_table == offsets.reset_offset_table == {}


def test_a_topic_is_forgotten_in_every_table(offsets):
    for group in ("G", "H"):
        offsets.assign_reset_offset(group, "T", 0, 1)
        offsets.commit_pull_offset(group, "T", 0, 1)
    offsets.commit_offset("G", "U", 0, 1)
    offsets.clean_offset("H")
    offsets.clean_offset_by_topic("T")
    assert set(offsets.offset_table) == {"U@G"}
    assert set(offsets.pull_offset_table) == set(offsets.reset_offset_table) == {"T@H"}


def test_offsets_survive_messagepack(offsets):
    offsets.commit_offset("G", "T", 0, 2**62)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(offsets), type=ConsumerOffsetManager) == offsets


def test_a_commit_for_an_unknown_group_or_topic_is_refused(processor):
    commit = processor.update_consumer_offset
    assert commit("?", Q0, 1, topic_exists=True) == Response(26, "Group ? not exist!")
    assert commit("G", Q0, 1, topic_exists=False) == Response(17, "Topic T not exist!")
    assert processor.consumer_offset_manager.offset_table == {}
    assert commit("G", Q0, 1, topic_exists=True) == Response(0)
    assert processor.consumer_offset_manager.query_offset("G", "T", 0) == 1


def test_a_commit_is_thrown_away_while_a_reset_waits(processor, offsets):
    offsets.assign_reset_offset("G", "T", 0, 2)
    response = processor.update_consumer_offset("G", Q0, 9, topic_exists=True)
    assert response == Response(0, "Offset has been previously reset")
    assert offsets.offset_table == {"T@G": {0: 2}}


def test_release_49_checks_no_names_and_has_no_reset_offsets(processor):
    processor.consumer_offset_manager = ConsumerOffsetManager(dialect=RELEASE_4_9)
    processor.consumer_offset_manager.assign_reset_offset("?", "T", 0, 2)
    assert processor.update_consumer_offset("?", Q0, 9, topic_exists=False) == Response(0)
    assert processor.consumer_offset_manager.query_offset("?", "T", 0) == 9


def test_a_new_group_begins_at_zero_while_that_is_in_memory(processor, offsets):
    def query(least: int, memory: bool, zero: bool = True) -> Response:
        return processor.query_consumer_offset(
            "G", Q0, min_offset=least, zero_in_memory=memory, set_zero_if_not_found=zero
        )

    assert query(0, memory=True) == query(-1, memory=True) == Response(0, offset=0)
    assert query(1, memory=True) == query(0, memory=False) == NOT_FOUND
    declined = Response(22, "Not found, do not set to zero, maybe this group boot first")
    assert query(0, memory=True, zero=False) == declined
    offsets.commit_offset("G", "T", 0, 0)
    assert query(5, memory=False, zero=False) == Response(0, offset=0)
    assert processor.query_consumer_offset("H", Q0, min_offset=0, zero_in_memory=True) == Response(0, offset=0)


def test_in_release_49_the_zero_can_not_be_declined(processor):
    processor.consumer_offset_manager = ConsumerOffsetManager(dialect=RELEASE_4_9)
    found = processor.query_consumer_offset("G", Q0, min_offset=0, zero_in_memory=True, set_zero_if_not_found=False)
    assert found == Response(0, offset=0)


class TestConfigurations:
    """Tests of how a group gets its configuration."""

    def test_the_first_request_creates_it(self):
        groups = SubscriptionGroupManager()
        assert not groups.contains_subscription_group("G")
        assert groups.find_subscription_group_config("G") == SubscriptionGroupConfig("G")
        assert groups.contains_subscription_group("G")
        groups.delete_subscription_group_config("G")
        groups.delete_subscription_group_config("G")
        assert not groups.contains_subscription_group("G")

    def test_an_operators_stays(self):
        groups = SubscriptionGroupManager()
        groups.update_subscription_group_config(SubscriptionGroupConfig("G", retry_max_times=3))
        found = groups.find_subscription_group_config("G")
        assert found is not None
        assert found.retry_max_times == 3

    @pytest.mark.parametrize(
        ("name", "made"),
        [
            ("G", True),
            ("%a|b_-9Z", True),
            ("g" * 120, True),
            ("g" * 121, False),
            ("", False),
            ("a b", False),
            ("é", False),
        ],
    )
    def test_a_name_must_do_since_five(self, name, made):
        groups = SubscriptionGroupManager()
        assert (groups.find_subscription_group_config(name) is not None) is made
        assert groups.contains_subscription_group(name) is made

    def test_any_name_does_in_release_49(self):
        groups = SubscriptionGroupManager(dialect=RELEASE_4_9)
        assert groups.find_subscription_group_config("a b") is not None

    def test_a_blank_name_is_never_known(self):
        groups = SubscriptionGroupManager(dialect=RELEASE_4_9)
        assert groups.find_subscription_group_config(" ") is not None
        assert not groups.contains_subscription_group(" ")

    @pytest.mark.parametrize("system", [True, False])
    def test_without_auto_create_only_system_groups_are_made(self, system):
        config = BrokerConfig(auto_create_subscription_group=False, enable_create_sys_group=system)
        groups = SubscriptionGroupManager(config)
        assert groups.find_subscription_group_config("G") is None
        assert (groups.find_subscription_group_config("CID_RMQ_SYS_x") is not None) is system
        assert groups.find_subscription_group_config("TOOLS_CONSUMER") == SubscriptionGroupConfig("TOOLS_CONSUMER")

    def test_consumption_is_switched_off(self):
        groups = SubscriptionGroupManager()
        groups.find_subscription_group_config("G")
        groups.disable_consume("G")
        groups.disable_consume("unknown")
        assert groups.subscription_group_table["G"] == SubscriptionGroupConfig("G", consume_enable=False)
        assert "unknown" not in groups.subscription_group_table
