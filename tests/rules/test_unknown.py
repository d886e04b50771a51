"""Every rule on removed subjects, and while a source is silent."""

from rebalance_model.observe.effects import GroupSnapshot, QueueSnapshot
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.rules import broker_unreachable, clock_skew, telemetry_gap
from rebalance_model.observe.rules.registry import CLUSTER_RULES, REBALANCE_RULES
from rebalance_model.observe.state import ClusterState
from rebalance_model.observe.step import ClusterStep, GroupStep, Moment
from tests.support.hook_trace import A, HookTrace
from tests.support.source_rounds import rounds
from tests.support.trace import START, Trace


def last_state(trace: Trace) -> GroupSnapshot:
    return [e for e in trace.effects if isinstance(e, GroupSnapshot)][-1]


def test_a_removed_subject_is_clear_and_has_no_evidence():
    group_step = GroupStep(Trace().state, Policy(), Moment(START, None, START))
    step = ClusterStep(ClusterState("c"), Policy(), Moment(START, None, START))
    assert broker_unreachable.evidence(step, "gone") == {}
    assert telemetry_gap.source_evidence(step, "gone")["source"] == ""
    assert clock_skew.clock_evidence(step, "gone")["ahead_ms_min"] is None
    for rule in CLUSTER_RULES:
        assert type(rule.judge(step, "gone")).__name__ == "Clear"
    assert telemetry_gap.hook_evidence(group_step, "gone")["source"] == ""
    assert clock_skew.evidence(group_step, "gone")["ahead_ms_min"] is None
    for rule in (telemetry_gap.OF_HOOK, telemetry_gap.OF_POLLS, clock_skew.RULE):
        assert type(rule.judge(group_step, "gone")).__name__ == "Clear"
    for rule in REBALANCE_RULES:
        assert type(rule.judge(group_step, "gone")).__name__ == "Clear"
        assert rule.evidence(group_step, "gone")["queues"] == 0


def test_a_broker_is_not_judged_while_the_collector_itself_is_silent():
    trace = rounds(rounds(Trace(), 0), 10, members=None)
    trace.falls_silent(10, "c/poll-1")
    step = ClusterStep(trace.cluster, trace.policy, trace.moment())
    assert broker_unreachable.judge(step, A) is None


def test_a_group_seen_by_a_hook_alone_is_unknown_while_that_is_silent():
    trace = HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0, 1).passes(2)
    assert last_state(trace).health == "OK"
    effects = trace.falls_silent(2, trace.view().source)
    assert [(e.health, e.health_reason) for e in effects if isinstance(e, GroupSnapshot)] == [
        ("UNKNOWN", "no source reports it")
    ]
    count = len(trace.effects)
    effects = trace.passes(17).effects[count:]  # with the gap
    assert {(e.status, e.status_reason) for e in effects if isinstance(e, QueueSnapshot)} == {
        ("UNKNOWN", "no source reports broker-a")
    }
