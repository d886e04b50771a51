"""Members of a group and the notifications about them: ConsumerManager and its listener."""

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rebalance_model.broker.broker_config import BrokerConfig
from rebalance_model.broker.consumer_group_info import (
    ClientChannelInfo,
    ConsumerData,
    ConsumerGroupInfo,
    SubscriptionData,
)
from rebalance_model.broker.consumer_manager import (
    AnyConsumerGroupEvent,
    ClientRegister,
    ClientUnregister,
    ConsumerManager,
    EventClient,
    MemberChange,
    Outcome,
    Register,
    Unregister,
)
from rebalance_model.dialect import RELEASE_4_9

T1, T2, U1 = (SubscriptionData(topic, "*", "TAG", version) for topic, version in (("T", 1), ("T", 2), ("U", 1)))


def heartbeat(
    manager: ConsumerManager,
    slot: int,
    *subscriptions: SubscriptionData,
    now: int = 0,
    cid: str = "",
    notify: bool = True,
    model: str = "CLUSTERING",
) -> Outcome:
    data = ConsumerData("G", "CONSUME_PASSIVELY", model, "CONSUME_FROM_LAST_OFFSET", subscriptions)
    client = ClientChannelInfo(f"k{slot}", cid or f"c{slot}", "JAVA", 1, now)
    return manager.register_consumer(data, client, now, notify=notify)


def names(outcome: Outcome) -> list[str]:
    return [
        f"CHANGE({len(event.channels)})" if isinstance(event, MemberChange) else str(type(event).__struct_config__.tag)
        for event in outcome.events
    ]


def ids(manager: ConsumerManager) -> list[str]:
    return manager.consumer_table["G"].client_ids()


@pytest.fixture
def manager() -> ConsumerManager:
    return ConsumerManager()


def test_the_first_heartbeat_fires_all_events_and_the_next_only_register(manager):
    first, second = heartbeat(manager, 0, T1), heartbeat(manager, 0, T1)
    client = EventClient("k0", "c0")
    assert first == Outcome(
        changed=True,
        events=(
            ClientRegister("G", client, frozenset({"T"})),
            MemberChange("G", ("k0",)),
            Register("G", (T1,), client),
        ),
    )
    assert second == Outcome(changed=False, events=(Register("G", (T1,), client),))


def test_a_newer_subscription_is_taken_silently_and_an_older_one_is_not(manager):
    heartbeat(manager, 0, T1)
    assert names(heartbeat(manager, 0, T2)) == ["REGISTER"]
    assert manager.find_subscription_data("G", "T") == T2
    heartbeat(manager, 0, T1)
    assert manager.find_subscription_data("G", "T") == T2


def test_another_client_on_a_known_channel_is_no_change(manager):
    heartbeat(manager, 0, T1)
    assert names(heartbeat(manager, 0, T1, cid="cX")) == ["REGISTER"]
    assert ids(manager) == ["cX"]


def test_it_is_the_replaced_member_that_gets_the_stamp(manager):
    heartbeat(manager, 0, T1)
    former = manager.consumer_table["G"].channel_info_table["k0"]
    newer = ClientChannelInfo("k0", "cX", last_update_timestamp=3)
    data = ConsumerData("G", "CONSUME_PASSIVELY", "CLUSTERING", "", (T1,))
    manager.register_consumer(data, newer, 9, notify=True)
    assert (former.last_update_timestamp, newer.last_update_timestamp) == (9, 3)
    assert manager.consumer_table["G"].last_update_timestamp == 9


def test_members_that_subscribe_differently_undo_each_others_change(manager):
    heartbeat(manager, 0, T1)
    assert names(heartbeat(manager, 1, T1)) == ["CLIENT_REGISTER", "CHANGE(2)", "REGISTER"]
    assert names(heartbeat(manager, 1, T1, U1)) == ["CHANGE(2)", "REGISTER"]
    assert names(heartbeat(manager, 0, T1)) == ["CHANGE(2)", "REGISTER"]
    assert list(manager.consumer_table["G"].subscription_table) == ["T"]


def test_a_group_may_ask_not_to_be_notified(manager):
    heartbeat(manager, 0, T1)
    outcome = heartbeat(manager, 0, notify=False)
    assert outcome.changed
    assert names(outcome) == ["REGISTER"]
    assert manager.consumer_table["G"].subscription_table == {}


def test_a_broadcasting_group_is_not_notified_since_five(manager):
    heartbeat(manager, 0, T1)
    outcome = heartbeat(manager, 0, T1, U1, model="BROADCASTING")
    assert outcome.changed
    assert names(outcome) == ["REGISTER"]


def test_leaving(manager):
    heartbeat(manager, 0, T1)
    heartbeat(manager, 1, T1)

    def leave(slot: int, notify: bool = True) -> Outcome:
        return manager.unregister_consumer("G", ClientChannelInfo(f"k{slot}", "whatever"), notify=notify)

    assert names(leave(7)) == ["CHANGE(2)"]
    gone = leave(0)
    assert gone == Outcome(
        changed=True,
        events=(ClientUnregister("G", EventClient("k0", "whatever"), frozenset({"T"})), MemberChange("G", ("k1",))),
    )
    assert names(leave(1, notify=False)) == ["CLIENT_UNREGISTER", "UNREGISTER"]
    assert manager.consumer_table == {}
    assert leave(1) == Outcome(changed=False, events=())


def test_change_is_fired_without_channels_when_the_last_member_leaves(manager):
    heartbeat(manager, 0, T1)
    outcome = manager.unregister_consumer("G", ClientChannelInfo("k0", "c0"), notify=True)
    assert names(outcome) == ["CLIENT_UNREGISTER", "UNREGISTER", "CHANGE(0)"]


def test_a_closed_channel_leaves_every_group(manager):
    heartbeat(manager, 0, T1)
    assert names(manager.do_channel_close_event("k9")) == []
    assert not manager.do_channel_close_event("k9").changed
    outcome = manager.do_channel_close_event("k0")
    assert outcome.changed
    assert names(outcome) == ["CLIENT_UNREGISTER", "UNREGISTER", "CHANGE(0)"]
    assert manager.consumer_table == {}


def test_the_scan_notifies_no_member_and_the_close_finds_nothing(manager):
    heartbeat(manager, 0, T1)
    heartbeat(manager, 1, T1, now=1)
    assert manager.scan_not_active_channel(120_000).events == ()
    outcome = manager.scan_not_active_channel(120_001)
    assert names(outcome) == ["CLIENT_UNREGISTER"]
    assert outcome.closing == ("k0",)
    assert outcome.changed
    assert ids(manager) == ["c1"]
    assert manager.do_channel_close_event("k0") == Outcome(changed=False, events=())
    assert names(manager.scan_not_active_channel(120_002)) == ["CLIENT_UNREGISTER"]
    assert manager.consumer_table == {}


def test_a_channel_that_the_scan_closes_is_named_once(manager):
    shared = ClientChannelInfo("k0", "c0", last_update_timestamp=0)
    for group in ("G", "H"):
        data = ConsumerData(group, "CONSUME_PASSIVELY", "CLUSTERING", "", ())
        manager.register_consumer(data, shared, 0, notify=True)
    outcome = manager.scan_not_active_channel(130_000)
    assert outcome.closing == ("k0",)
    assert names(outcome) == ["CLIENT_UNREGISTER"] * 2


def test_groups_of_one_heartbeat_share_its_age(manager):
    shared = ClientChannelInfo("k0", "c0", last_update_timestamp=0)
    for group in ("G", "H"):
        data = ConsumerData(group, "CONSUME_PASSIVELY", "CLUSTERING", "", ())
        manager.register_consumer(data, shared, 0, notify=True)
    heartbeat(manager, 0, now=100_000)  # of G alone
    assert manager.scan_not_active_channel(130_000).events == ()


def test_a_heartbeat_without_subscriptions(manager):
    data = ConsumerData("G", "CONSUME_PASSIVELY", "CLUSTERING", "", (T1,))
    client = ClientChannelInfo("k0", "c0")
    assert manager.register_consumer_without_sub(data, client, 0, notify=True) == Outcome(
        changed=True, events=(MemberChange("G", ("k0",)),)
    )
    assert manager.register_consumer_without_sub(data, client, 0, notify=True) == Outcome(changed=False, events=())
    assert manager.consumer_table["G"].subscription_table == {}


def test_a_reconnected_client_is_listed_twice_until_its_old_channel_ends(manager):
    heartbeat(manager, 0, T1, cid="dup")
    heartbeat(manager, 1, T1, cid="dup")
    assert ids(manager) == ["dup", "dup"]
    found = manager.consumer_table["G"].find_channel("dup")
    assert found is not None
    assert found.channel == "k0"
    assert manager.consumer_table["G"].find_channel("nobody") is None


def test_ids_come_in_javas_order():
    cids = ["\uff5e", "😀", "b", "B", "10"]
    info = ConsumerGroupInfo({cid: ClientChannelInfo(cid, cid) for cid in cids})
    assert info.client_ids() == ["10", "B", "b", "😀", "\uff5e"]


def test_the_index_of_topics_keeps_dropped_and_scanned_groups(manager):
    heartbeat(manager, 0, T1)
    heartbeat(manager, 0, U1)
    assert manager.query_topic_consume_by_who("T") == {"G"}
    manager.unregister_consumer("G", ClientChannelInfo("k0", "c0"), notify=True)
    assert manager.query_topic_consume_by_who("U") == frozenset()
    assert manager.query_topic_consume_by_who("T") == {"G"}
    heartbeat(manager, 0, U1)
    manager.scan_not_active_channel(120_001)
    assert manager.query_topic_consume_by_who("U") == {"G"}


def test_the_fast_close_looks_at_what_was_noted_on_the_channel():
    manager = ConsumerManager(BrokerConfig(enable_fast_channel_event_process=True))
    heartbeat(manager, 0, T1, model="BROADCASTING")
    data = ConsumerData("H", "CONSUME_PASSIVELY", "CLUSTERING", "", ())
    manager.register_consumer_without_sub(data, ClientChannelInfo("k0", "c0"), 0, notify=True)
    assert names(manager.do_channel_close_event("k0")) == ["CLIENT_UNREGISTER", "UNREGISTER", "CHANGE(0)"]
    assert list(manager.consumer_table) == ["H"]  # its heartbeat had no subscriptions, so nothing was noted
    assert manager.channel_groups == {}


def test_a_group_is_noted_again_only_if_it_was_the_first_noted():
    manager = ConsumerManager(BrokerConfig(enable_fast_channel_event_process=True))
    client = ClientChannelInfo("k0", "c0")
    for group in ("G", "H", "H", "G"):
        data = ConsumerData(group, "CONSUME_PASSIVELY", "CLUSTERING", "", ())
        manager.register_consumer(data, client, 0, notify=True)
        manager.unregister_consumer(group, client, notify=True)
    assert manager.channel_groups == {"k0": "G|H|G|"}


def test_a_group_that_does_not_heartbeat_is_compensated_for_ten_minutes(manager):
    manager.compensate_basic_consumer_info("G", "CONSUME_ACTIVELY", "CLUSTERING")
    manager.compensate_subscribe_data("G", T1)
    assert manager.find_subscription_data("G", "T") == T1
    assert manager.find_subscription_data("G", "T", from_compensation_table=False) is None
    manager.scan_not_active_channel(600_001)
    assert manager.find_subscription_data("G", "T") == T1
    manager.scan_not_active_channel(600_002)
    assert manager.consumer_compensation_table == {}
    manager.compensate_basic_consumer_info("H", "CONSUME_ACTIVELY", "CLUSTERING")
    manager.scan_not_active_channel(10**9)
    assert list(manager.consumer_compensation_table) == ["H"]


def test_the_heartbeats_subscription_comes_before_the_compensated_one(manager):
    manager.compensate_subscribe_data("G", T1)
    heartbeat(manager, 0, T2)
    assert manager.find_subscription_data("G", "T") == T2


class TestRelease49:
    """4.9 has no client events, notifies BROADCASTING groups and has no index of topics."""

    @pytest.fixture
    def manager(self) -> ConsumerManager:
        return ConsumerManager(dialect=RELEASE_4_9)

    def test_events(self, manager):
        first = heartbeat(manager, 0, T1, model="BROADCASTING")
        assert names(first) == ["CHANGE(1)", "REGISTER"]
        assert first.events[-1] == Register("G", (T1,), None)
        assert names(manager.scan_not_active_channel(1)) == []
        closed = manager.do_channel_close_event("k0")
        assert names(closed) == ["UNREGISTER", "CHANGE(0)"]
        heartbeat(manager, 0, T1)
        assert names(manager.unregister_consumer("G", ClientChannelInfo("k0", "c0"), notify=True)) == names(closed)
        heartbeat(manager, 0, T1)
        assert names(manager.scan_not_active_channel(120_001)) == []
        assert manager.consumer_table == {}

    def test_the_groups_of_a_topic_are_those_that_subscribe_it_now(self, manager):
        heartbeat(manager, 0, T1)
        assert manager.query_topic_consume_by_who("T") == {"G"}
        heartbeat(manager, 0, U1)
        assert manager.query_topic_consume_by_who("T") == frozenset()
        assert manager.topic_group_table == {}


def test_everything_survives_messagepack(manager):
    heartbeat(manager, 0, T1)
    manager.compensate_subscribe_data("H", U1)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(manager), type=ConsumerManager) == manager
    events = heartbeat(manager, 1, T1, U1).events
    encoded = msgspec.msgpack.encode(events)
    assert msgspec.msgpack.decode(encoded, type=tuple[AnyConsumerGroupEvent, ...]) == events


class Members(RuleBasedStateMachine):
    """Compared with sets: the connected clients, and those that must be notified."""

    def __init__(self) -> None:
        super().__init__()
        self.manager = ConsumerManager()
        self.now = 0
        self.seen: dict[tuple[str, str], int] = {}
        self.topics: dict[str, set[str]] = {}

    @rule(group=st.sampled_from("GH"), slot=st.sampled_from("012"), topics=st.sets(st.sampled_from("TU")))
    def heartbeats(self, group: str, slot: str, topics: set[str]) -> None:
        before = self.topics.get(group, set()) if self.members(group) else set()
        new = (group, slot) not in self.seen
        subscriptions = tuple(SubscriptionData(topic, "*", "TAG", self.now) for topic in sorted(topics))
        data = ConsumerData(group, "CONSUME_PASSIVELY", "CLUSTERING", "", subscriptions)
        outcome = self.manager.register_consumer(data, ClientChannelInfo(slot, slot), self.now, notify=True)
        self.seen[group, slot] = self.now
        self.topics[group] = topics
        assert outcome.changed is (new or before != topics)
        self.all_members_are_notified(group, outcome, notified=outcome.changed)

    @rule(group=st.sampled_from("GH"), slot=st.sampled_from("012"))
    def leaves(self, group: str, slot: str) -> None:
        had_members = bool(self.members(group))
        outcome = self.manager.unregister_consumer(group, ClientChannelInfo(slot, slot), notify=True)
        assert outcome.changed is (self.seen.pop((group, slot), None) is not None)
        self.all_members_are_notified(group, outcome, notified=had_members)

    @rule(slot=st.sampled_from("012"))
    def loses_its_connection(self, slot: str) -> None:
        groups = [group for group in "GH" if self.seen.pop((group, slot), None) is not None]
        outcome = self.manager.do_channel_close_event(slot)
        assert outcome.changed is bool(groups)
        for group in "GH":
            self.all_members_are_notified(group, outcome, notified=group in groups)

    @rule(milliseconds=st.sampled_from([1, 60_000, 120_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.now += milliseconds
        outcome = self.manager.scan_not_active_channel(self.now)
        silent = [key for key, time in self.seen.items() if self.now - time > 120_000]
        assert sorted(outcome.closing) == sorted({slot for _, slot in silent})
        assert {type(event) for event in outcome.events} <= {ClientUnregister}
        self.seen = {key: time for key, time in self.seen.items() if key not in silent}

    @invariant()
    def members_are_those_that_were_seen(self) -> None:
        for group in "GH":
            info = self.manager.consumer_table.get(group, ConsumerGroupInfo())
            assert set(info.client_ids()) == self.members(group)
            assert set(info.subscription_table) == (self.topics[group] if self.members(group) else set())
        assert set(self.manager.consumer_table) == {group for group, _ in self.seen}

    def members(self, group: str) -> set[str]:
        return {slot for g, slot in self.seen if g == group}

    def all_members_are_notified(self, group: str, outcome: Outcome, *, notified: bool) -> None:
        changes = [set(e.channels) for e in outcome.events if isinstance(e, MemberChange) and e.group == group]
        assert changes == ([self.members(group)] if notified else [])
        ended = any(isinstance(event, Unregister) and event.group == group for event in outcome.events)
        assert ended is (notified and not self.members(group))


TestMembers = Members.TestCase
