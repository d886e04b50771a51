"""Members, by the calls that a hook reports and by the broker's own list."""

from rebalance_model.observe.hooks import heartbeats
from tests.support.hook_groups import concurrent, ordered
from tests.support.hook_trace import A, HookTrace

# Channels whose client is unknown


def test_calls_of_an_unknown_channel_are_its_clients_once_it_is_identified():
    trace = HookTrace().heart_beat(0, "a").asks(1, "b", 2, 3)
    assert trace.owners() == {}
    trace.heart_beat(3, "b")
    assert trace.owners() == {2: "b", 3: "b"}
    assert trace.view().unattributed_queries == {}


def test_queries_of_a_channel_that_is_never_identified_are_dropped():
    trace = HookTrace().heart_beat(0, "a").asks(1, "b", 2, 3)
    trace.passes(36).heart_beat(36, "a")
    assert trace.view().unattributed_queries != {}
    trace.passes(36.002)
    assert trace.view().unattributed_queries == {}
    trace.heart_beat(40, "b")
    assert trace.owners() == {}


def test_a_lock_request_identifies_an_unregistered_channel():
    """Thawed, a goes on on a new channel before its first heartbeat there."""
    trace = concurrent().asks(30, "a", 2, number=1)
    assert trace.owners()[2] == "b"
    trace.locks(31, "a", 3, channel="a:1", code=1)
    assert trace.owners()[2] == "a"
    trace.asks(32, "a", 3, number=1)
    assert trace.owners()[3] == "a"
    trace.heart_beat(33, "a", number=1)
    assert trace.view().client_by_channel == {}
    assert trace.channels() == {"a:0": "a", "b:0": "b", "a:1": "a"}


def test_a_thawed_client_is_listed_twice_until_its_old_channel_is_dropped():
    trace = ordered().heart_beat(60, "b").heart_beat(90, "b", "a", number=1)
    assert trace.channels() == {"a:0": "a", "b:0": "b", "b:1": "b", "a:1": "a"}
    trace.passes(130)
    assert sorted(trace.channels()) == ["a:0", "a:1", "b:0", "b:1"]
    trace.passes(130.002)
    assert sorted(trace.channels()) == ["a:1", "b:0", "b:1"]
    assert trace.state.members == ("a", "b")
    trace.passes(220.002)
    assert trace.state.members == ()
    assert trace.owners() == dict.fromkeys(range(4))


def test_a_member_list_with_a_client_once_keeps_its_younger_channel():
    trace = ordered().heart_beat(90, "a", number=1).lists(95, "a", "b")
    assert trace.channels() == {"b:0": "b", "a:1": "a"}


# The broker's own member list (38)


def test_of_too_many_members_that_were_dropped_the_last_ones_are_kept(monkeypatch):
    monkeypatch.setattr(heartbeats, "EXPIRED_MAX", 1)
    trace = HookTrace().heart_beat(0, "a").heart_beat(2, "b")
    trace.heart_beat(121, "c").lists(125, "b", "c").lists(126, "c")
    assert list(trace.view().expired) == ["b"]


def test_a_client_missing_from_the_list_left_without_unregistering():
    trace = ordered().lists(40, "b")
    assert trace.state.members == ("b",)
    assert trace.owners() == {0: None, 1: None, 2: "b", 3: "b"}
    assert trace.state.episode.causes[-1] == "CONNECTION_CLOSED a"


def test_an_answer_that_overlaps_a_heartbeat_or_unregister_proves_nothing():
    trace = ordered().heart_beat(40, "c").lists(40.01, "a", "b", asked=39.99)
    assert trace.state.members == ("a", "b", "c")
    trace.leaves(50, "c").lists(50.01, "a", "b", "c", asked=49.99)
    assert trace.state.members == ("a", "b")
    trace.lists(60, "a", "b", "c")  # requested later: it is there, on an unknown channel
    assert trace.state.members == ("a", "b", "c")
    assert trace.channels()["?c"] == "c"
    trace.heart_beat(70, "c")
    assert trace.channels() == {"a:0": "a", "b:0": "b", "c:0": "c"}


def test_a_client_listed_without_heartbeat_is_named_by_its_first_call():
    trace = HookTrace().lists(0, "a", "b").locks(1, "a", 0)
    assert trace.channels() == {"?b": "b", "a:0": "a"}
    trace.locks(3, "b", 2, channel="a:0")  # as if two clients shared a connection: it stays that of the first
    assert trace.channels() == {"?b": "b", "a:0": "a"}
    assert trace.state.members == ("a", "b")


def test_an_empty_list_ends_the_group_and_a_failed_one_is_ignored():
    trace = ordered().lists(40, code=2)
    assert trace.state.members == ("a", "b")
    trace.lists(41, code=1)
    assert trace.state.members == ()
    assert trace.state.views[A].info.subscription_table == {}


def test_an_unregistering_client_leaves_at_once_unless_refused():
    trace = ordered().heart_beat(20, "c", code=1).leaves(20, "a", code=1)
    assert trace.state.members == ("a", "b")
    trace.unlocks(30, "a", 0, 1).leaves(30.01, "a")
    assert trace.state.members == ("b",)
    assert trace.state.episode.causes[-1] == "CLIENT_UNREGISTERED a"
    trace.passes(130.002)
    assert trace.view().recent_unregisters == {}


def test_a_heartbeat_without_subscriptions_leaves_them_as_they_were():
    trace = ordered().heart_beat(30, "a", topics=(), without_sub=True)
    assert list(trace.state.views[A].info.subscription_table) == ["Orders"]
    trace.heart_beat(31, "a", topics=())
    assert list(trace.state.views[A].info.subscription_table) == []


def test_members_that_were_there_before_are_found_not_joined():
    """The hook is put into a broker that runs: every member heartbeats within 35 s, or a list names them all."""
    trace = HookTrace(hook_seq={f"{A}-0": 700}).heart_beat(0, "a").locks(1, "a", 0).heart_beat(20, "b")
    assert trace.state.episode is None
    assert trace.evidence() == [(0, "ASSIGNED a", "FIRST_SEEN")]
    trace.lists(21, "a", "b").heart_beat(22, "c")
    assert trace.state.episode.causes == ["CLIENT_JOINED c"]
