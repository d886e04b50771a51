"""Heartbeats as they come, and who is notified of what they change."""

import msgspec
import pytest

from rebalance_model.broker.broker_config import BrokerConfig
from rebalance_model.broker.consumer_group_info import ConsumerData, SubscriptionData
from rebalance_model.broker.consumer_manager import ConsumerManager, MemberChange, Register
from rebalance_model.dialect import RELEASE_4_9, Dialect
from simulation.rocketmq.broker.client_manage_processor import ClientManageProcessor, HeartbeatData
from simulation.rocketmq.broker.consumer_ids_change_listener import ConsumerIdsChangeListener, NotifyConsumerIdsChanged
from simulation.rocketmq.broker.consumer_manage_processor import ConsumerManageProcessor, Response
from simulation.rocketmq.broker.consumer_offset_manager import ConsumerOffsetManager
from simulation.rocketmq.broker.subscription_group_config import SubscriptionGroupConfig, SubscriptionGroupManager

T1 = SubscriptionData("T", "*", "TAG", 1)


def broker(config: BrokerConfig | None = None, dialect: Dialect | None = None) -> ClientManageProcessor:
    config, dialect = config or BrokerConfig(), dialect or Dialect()
    return ClientManageProcessor(ConsumerManager(config, dialect), SubscriptionGroupManager(config, dialect))


def data(group: str = "G", consume_type: str = "CONSUME_PASSIVELY") -> ConsumerData:
    return ConsumerData(group, consume_type, "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", (T1,))


def changes(events: object) -> list[str]:
    assert isinstance(events, tuple)
    return [event.group for event in events if isinstance(event, MemberChange)]


def test_every_group_of_a_heartbeat_registers_with_one_member():
    processor = broker()
    reply = processor.heart_beat("k0", HeartbeatData("c0", (data("G"), data("H"))), 5, "JAVA", 401)
    assert reply.registered == ("G", "H")
    assert changes(reply.events) == ["G", "H"]
    tables = processor.consumer_manager.consumer_table
    member = tables["G"].channel_info_table["k0"]
    assert member is tables["H"].channel_info_table["k0"]
    assert msgspec.structs.astuple(member) == ("k0", "c0", "JAVA", 401, 5)
    processor.heart_beat("k1", HeartbeatData("c1", (data("G"),)), 6)
    assert msgspec.structs.astuple(tables["G"].channel_info_table["k1"]) == ("k1", "c1", "", 0, 6)


def test_a_group_that_may_not_be_created_is_ignored_without_an_error():
    config = BrokerConfig(auto_create_subscription_group=False)
    processor = broker(config)
    reply = processor.heart_beat("k0", HeartbeatData("c0", (data(),)), 5)
    assert (reply.events, reply.registered) == ((), ())
    old = broker(config, RELEASE_4_9)
    reply = old.heart_beat("k0", HeartbeatData("c0", (data(),)), 5)
    assert changes(reply.events) == ["G"]
    assert reply.registered == ("G",)


@pytest.mark.parametrize("rejected", [True, False])
def test_pull_consumers_may_be_rejected(rejected):
    processor = broker(BrokerConfig(reject_pull_consumer_enable=rejected))
    groups = (data("G", "CONSUME_ACTIVELY"), data("H"))
    reply = processor.heart_beat("k0", HeartbeatData("c0", groups), 5)
    assert reply.registered == (("H",) if rejected else ("G", "H"))
    assert ("G" in processor.consumer_group_heartbeat_table) is not rejected


def test_the_groups_own_flag_applies_to_register_and_unregister():
    processor = broker()
    config = SubscriptionGroupConfig("G", notify_consumer_ids_changed_enable=False)
    processor.subscription_group_manager.update_subscription_group_config(config)
    assert changes(processor.heart_beat("k0", HeartbeatData("c0", (data(),)), 5).events) == []
    processor.heart_beat("k1", HeartbeatData("c1", (data(),)), 5)
    assert changes(processor.unregister_client("k0", "c0", "G").events) == []
    assert changes(processor.consumer_manager.do_channel_close_event("k1").events) == ["G"]


def test_unregistering_from_a_group_without_configuration_works():
    processor = broker(BrokerConfig(auto_create_subscription_group=False), RELEASE_4_9)
    processor.heart_beat("k0", HeartbeatData("c0", (data(),)), 5)
    processor.heart_beat("k1", HeartbeatData("c1", (data(),)), 5)
    assert changes(processor.unregister_client("k0", "c0", "G").events) == ["G"]


def test_a_different_fingerprint_requests_the_subscriptions():
    processor = broker()

    def beat(fingerprint: int, *, without_sub: bool = False) -> bool:
        heartbeat = HeartbeatData("c0", (data(),), fingerprint, without_sub)
        return processor.heart_beat("k0", heartbeat, 5).is_sub_change

    assert [beat(7), beat(7, without_sub=True), beat(8), beat(8)] == [False, False, True, False]
    assert [beat(0), beat(8)] == [True, True]


def test_subscriptions_are_left_out_only_with_a_fingerprint():
    processor = broker()
    left_out = processor.heart_beat("k0", HeartbeatData("c0", (data(),), 7, without_sub=True), 5)
    assert not any(isinstance(event, Register) for event in left_out.events)
    full = processor.heart_beat("k0", HeartbeatData("c0", (data(),), 0, without_sub=True), 5)
    assert any(isinstance(event, Register) for event in full.events)


def test_release_49_has_no_fingerprint():
    processor = broker(dialect=RELEASE_4_9)
    reply = processor.heart_beat("k0", HeartbeatData("c0", (data(),), 7, without_sub=True), 5)
    assert any(isinstance(event, Register) for event in reply.events)


def test_the_list_of_consumers_has_one_id_for_each_channel():
    processor = broker()
    asked = ConsumerManageProcessor(
        processor.consumer_manager, processor.subscription_group_manager, ConsumerOffsetManager()
    )
    no_member = Response(1, "no consumer for this group, G")
    assert asked.get_consumer_list_by_group("G") == no_member
    processor.heart_beat("k0", HeartbeatData("c0", (data(),)), 5)
    processor.heart_beat("k1", HeartbeatData("c0", (data(),)), 5)
    assert asked.get_consumer_list_by_group("G") == Response(0, consumer_ids=("c0", "c0"))
    processor.consumer_manager.consumer_table["G"].channel_info_table.clear()
    assert asked.get_consumer_list_by_group("G") == no_member


class TestNotifications:
    """Of the events, CHANGE alone reaches consumers."""

    EVENTS = (
        MemberChange("G", ("k0", "k1")),
        Register("G", (), None),
        MemberChange("H", ("k0",)),
        MemberChange("G", ("k1",)),
    )

    def test_at_once_each_change_goes_to_every_channel(self):
        listener = ConsumerIdsChangeListener()
        sent = [(n.group, n.channel) for n in listener.handle(self.EVENTS)]
        assert sent == [("G", "k0"), ("G", "k1"), ("H", "k0"), ("G", "k1")]
        assert listener.flush() == []

    def test_batched_the_last_list_of_a_group_counts(self):
        listener = ConsumerIdsChangeListener(BrokerConfig(real_time_notify_consumer_change=False))
        assert listener.handle(self.EVENTS) == []
        assert listener.flush() == [NotifyConsumerIdsChanged("k1", "G"), NotifyConsumerIdsChanged("k0", "H")]
        assert listener.flush() == []

    def test_notifications_can_be_disabled_at_the_broker(self):
        for real_time in (True, False):
            config = BrokerConfig(notify_consumer_ids_changed_enable=False, real_time_notify_consumer_change=real_time)
            listener = ConsumerIdsChangeListener(config)
            assert listener.handle(self.EVENTS) == []
            assert listener.flush() == []
