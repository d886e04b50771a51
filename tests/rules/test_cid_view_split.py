"""CID_VIEW_SPLIT: brokers that list different members."""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import Connection, ConsumerConnection, RpcError, TopicRoute
from rebalance_model.observe.state import IncidentKey
from tests.support.hook_trace import A, B, HookTrace
from tests.support.incident_rows import evidence, rows, transitions_of
from tests.support.trace import START, TOPIC, Trace, holding

STORM = "REBALANCE_STORM"

SPLIT = "CID_VIEW_SPLIT"


def both_brokers(trace: HookTrace, at: float, *clients: str) -> HookTrace:
    return trace.of(B).heart_beat(at, *clients).of(A).heart_beat(at, *clients)


def two_brokers() -> HookTrace:
    """Both members are known to both."""
    return HookTrace().boots(0).heart_beat(1, "a", "b").of(B).boots(0).heart_beat(1, "a", "b").of(A)


def ticks(trace: HookTrace, at: float) -> HookTrace:
    return trace.of(A).passes(at).of(B).passes(at).of(A)


def test_a_member_whose_heartbeats_reach_one_broker_only():
    """#2732, #7870: b is dropped by broker-b and goes on with broker-a. Whoever asks broker-b shares out without it."""
    trace = two_brokers()
    for at in range(31, 300, 30):
        ticks(trace, at).of(B).heart_beat(at, "a").of(A).heart_beat(at, "a", "b")
    # broker-b's scan has dropped it by 131.001, and 60 s are given
    assert [(round(at), *what) for at, *what in transitions_of(trace, SPLIT)] == [(191, "OPENED", SPLIT)]
    assert evidence(trace, SPLIT)[0] == {
        "brokers": 2, "missing": 1, "client": "b", "broker": B, f"members of {A}": 2, f"members of {B}": 1,
    }  # fmt: skip
    assert rows(trace, SPLIT)[0].client_id == "b"
    both_brokers(ticks(trace, 310), 310, "a", "b")
    assert transitions_of(trace, SPLIT)[1:] == [(310, "RESOLVED", SPLIT)]


def test_a_dead_member_that_one_broker_still_lists_is_a_near_miss():
    """No event shows that its channel was closed: broker-a has been queried for the members since, broker-b has not."""
    trace = two_brokers().lists(20, "a")
    for at in range(31, 300, 30):
        both_brokers(ticks(trace, at), at, "a")
    assert transitions_of(trace, SPLIT) == []


def test_a_broker_whose_hook_has_just_started_is_not_judged_yet():
    """Its hook begins in the middle: not every member has sent a heartbeat, and one view is not two."""
    trace = HookTrace().boots(0).heart_beat(1, "a", "b")
    trace.hook_seq[f"{B}-0"] = 5
    trace.of(B).heart_beat(2, "a")
    assert IncidentKey(SPLIT) not in trace.state.pending


def test_polls_show_brokers_that_list_different_members():
    trace = Trace()
    for at in range(0, 100, 10):
        trace.poll(at, {"a": holding(0, 1), "b": holding(2, 3)})
        one = (Connection(client_id="a", channel="a:0"),)
        fields = {**trace._poll(START + 1000 * at), "broker": B}
        trace._fold(ConsumerConnection(connections=one, **fields))
    assert trace.incidents(SPLIT) == []  # broker-b has no queue of the group's topics: no client queries it
    trace.poll(100, {"a": holding(0, 1), "b": holding(2, 3)})
    queues = (*(MessageQueue(TOPIC, A, number) for number in range(4)), MessageQueue(TOPIC, B, 0))
    trace._fold(TopicRoute(topic=TOPIC, queues=queues, **trace._poll(START + 100_000)))
    trace.tick(170)
    assert IncidentKey(SPLIT) in trace.state.pending or trace.incidents(SPLIT)


def test_moves_while_brokers_list_different_members_are_no_reconnect_storm():
    """No client reconnects: clients query one broker or the other for the members. The split is reported once."""
    trace = Trace()
    for at in range(0, 400, 10):
        owners = {"a": holding(0, 1), "b": holding(2, 3)} if at % 20 else {"a": holding(0, 1, 2, 3), "b": holding()}
        trace.poll(at, owners)
        one = (Connection(client_id="a", channel="a:0"),)
        trace._fold(ConsumerConnection(connections=one, **{**trace._poll(START + 1000 * at), "broker": B}))
    assert len(trace.rebalances()) > 8
    assert trace.incidents(STORM) == []


def test_a_broker_that_does_not_answer_is_no_view():
    trace = Trace()
    for at in range(0, 100, 10):
        trace.poll(at, {"a": holding(0, 1, 2, 3)})
        trace._fold(ConsumerConnection(error=RpcError(code=-1), **{**trace._poll(START + 1000 * at), "broker": B}))
    assert trace.incidents(SPLIT) == []
