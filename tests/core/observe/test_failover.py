"""Brokers of several replicas: the hook of the one that clients use as master is followed, whatever its id."""

from rebalance_model.observe.hooks.hook import ROUTES_RENEWED
from rebalance_model.observe.state import Silence
from tests.support.hook_trace import A, HookTrace, channel_of
from tests.support.trace import holding

LATER = ROUTES_RENEWED / 1000 + 1
SLAVE = "c/hook-broker-a-1"


def with_slave() -> HookTrace:
    """Two members with two locks each at the master; the slave gets heartbeats, too, on other connections."""
    trace = HookTrace().heart_beat(0, "a", "b").locks(0.1, "a", 0, 1).locks(0.1, "b", 2, 3)
    return trace.of(A, 1).heart_beat(0.2, "a", "b", number=7).of(A)


def test_a_lock_at_a_slave_shows_that_it_acts_as_master():
    trace = with_slave().of(A, 1).locks(LATER, "a", 0, channel=channel_of("a", 7))
    assert trace.view().source == trace.state.views[A].hook_source == SLAVE
    assert trace.lock_table() == {0: ("a", LATER)}  # its table is another one
    assert {mq.queue_id for mq in trace.view().lost_locks} == {1, 2, 3}
    assert trace.state.members == ("a", "b")  # expected back with their next heartbeat
    trace.heart_beat(LATER + 1, "a", "b", number=7).locks(LATER + 2, "a", 1).locks(LATER + 2, "b", 2, 3)
    assert (trace.view().lost_locks, trace.owners()) == ({}, {0: "a", 1: "a", 2: "b", 3: "b"})
    assert trace.channels() == {"a:7": "a", "b:7": "b"}


def test_a_lock_that_the_master_forwards_shows_nothing():
    trace = with_slave().of(A, 1).locks(LATER, "a", 0, only_this_broker=True)
    assert (trace.view().source, len(trace.view().locks)) == ("c/hook-broker-a-0", 4)


def test_a_master_is_followed_until_clients_have_learnt_of_another():
    trace = with_slave().of(A, 1).locks(LATER, "a", 0)
    trace.of(A).locks(2 * LATER - 2, "b", 2)  # a client that has not renewed its route
    assert trace.view().source == SLAVE
    trace.locks(2 * LATER, "b", 2, 3)
    assert trace.view().source == "c/hook-broker-a-0"


def test_a_silent_master_is_replaced_by_the_slave_that_clients_commit_to():
    trace = HookTrace().heart_beat(0, "a").asks(0.1, "a", 0, 1).pulls(0.2, "a", 0, 1).of(A, 1).heart_beat(0.3, "a")
    trace.state.silent["c/hook-broker-a-0"] = Silence(trace.clock(5))
    trace.pulls(6, "a", 0)
    assert trace.view().source == "c/hook-broker-a-0"  # slaves serve pulls at any time
    trace.commits(7, "a", 0, 5)
    assert (trace.view().source, trace.owners()[0]) == (SLAVE, "a")


def test_an_answer_of_another_replica_corrects_nothing():
    trace = with_slave().of(A, 1).heart_beat(LATER - 1, "a", "b", number=7).locks(LATER, "a", 0)
    trace.cluster.sources |= {A: "c/hook-broker-a-0", f"{A}:1": SLAVE}
    before = trace.channels()
    for at in (LATER + 10, LATER + 20):
        trace.passes(at - 0.5).poll(at, {})  # the master has just returned, and lists nobody yet
    assert (trace.channels(), trace.state.members) == (before, ("a", "b"))
    trace.poll(LATER + 30, {"a": holding(0, 1)})
    assert trace.channels() == before


def test_an_answer_of_the_followed_replica_corrects_under_any_id():
    """Under a controller the name server lists each master as 0."""
    trace = with_slave().of(A, 1).locks(LATER, "a", 0).heart_beat(LATER + 1, "a", "b")
    trace.cluster.sources |= {A: "c/hook-broker-a-0", f"{A}:1": SLAVE}
    trace.passes(LATER + 9).poll(LATER + 10, {"a": holding(0, 1)})
    assert trace.state.members == ("a",)


def test_a_slave_in_use_is_followed_when_answers_replaced_the_masters_hook():
    trace = HookTrace().heart_beat(0, "a", "b").locks(0.1, "a", 0, 1).poll(10, {"a": holding(0, 1)})
    trace.falls_silent(20, "c/hook-broker-a-0")
    trace.poll(23, {"a": holding(0, 1)})
    view = trace.state.views[A]
    assert (view.hook, view.hook_source) == (None, "c/hook-broker-a-0")
    trace.of(A, 1).locks(60, "a", 0, channel=channel_of("a", 7))
    assert trace.view().source == trace.state.views[A].hook_source == SLAVE
