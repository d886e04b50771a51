"""ASSIGNMENT_MISMATCH, and which strategy is expected: declared, configured or inferred."""

from dataclasses import replace

import msgspec
import pytest

from rebalance_model.allocation import strategy
from rebalance_model.observe.effects import RebalanceSettled
from rebalance_model.observe.events import TopicRoute
from rebalance_model.observe.policy import Policy
from tests.support.rounds import CIRCLE, FOUR, HASH, MINE, OWN, evidence, rounds
from tests.support.trace import SILENT, START, Held, Member, Trace, holding, mq

SWAPPED = {"a": holding(0, 2), "b": holding(1, 3)}


# ASSIGNMENT_MISMATCH


def test_owners_that_differ_from_the_strategy_mismatch_60_s_after_a_change():
    """Taken at 0 and first expected at 0; at 60 it is 60 s, at 70 more. It names who should have it."""
    trace = rounds(Trace(), 0, 100, SWAPPED)
    rounds(trace, 100, 120, FOUR)
    assert trace.incidents("ASSIGNMENT_MISMATCH") == [
        (70, "OPENED", "ASSIGNMENT_MISMATCH"),
        (70, "OPENED", "ASSIGNMENT_MISMATCH"),
        (100, "RESOLVED", "ASSIGNMENT_MISMATCH"),
        (100, "RESOLVED", "ASSIGNMENT_MISMATCH"),
    ]
    found = evidence(trace, "ASSIGNMENT_MISMATCH")
    assert (found["owner"], found["expected_owner"], found["strategy"]) == ("a", "b", "AVG")


def test_expected_owners_within_60_s_are_a_near_miss():
    trace = rounds(Trace(), 0, 70, SWAPPED)
    rounds(trace, 70, 100, FOUR)
    assert trace.incidents(*MINE) == []


def test_every_change_restarts_the_60_s():
    trace = rounds(Trace(), 0, 50, SWAPPED)
    rounds(trace, 50, 100, {"a": holding(0, 3), "b": holding(1, 2)})
    assert trace.incidents(*MINE) == []


def test_issue_2732_nothing_is_expected_while_member_lists_differ():
    trace = Trace()
    trace.poll(0, SWAPPED)
    for at in range(10, 120, 10):
        trace.poll(at, SWAPPED)
        other = msgspec.structs.replace(trace._connections({"a": holding()}, START + at * 1000), broker="broker-b")
        trace._fold(other)
    assert trace.incidents("ASSIGNMENT_MISMATCH") == []


def test_the_mismatch_of_a_silent_owner_is_unknown():
    trace = rounds(Trace(), 0, 20, SWAPPED)
    rounds(trace, 20, 120, {"a": SILENT, "b": holding(1, 3)})
    assert [t for t in trace.incidents("ASSIGNMENT_MISMATCH") if t[1] == "OPENED"] == [
        (70, "OPENED", "ASSIGNMENT_MISMATCH")  # b's queue 1, and not a's queue 2
    ]


def test_retry_queues_are_not_judged():
    retry = tuple(Held(q, topic="%RETRY%g") for q in range(2))
    trace = Trace()
    trace._fold(TopicRoute(topic="%RETRY%g", queues=tuple(mq(q, "%RETRY%g") for q in range(2)), **trace._poll(START)))
    rounds(trace, 0, 200, {"a": Member((Held(0), Held(1), *retry)), "b": holding(2, 3)})
    assert trace.incidents(*MINE) == []


# What is expected: declared, configured, inferred


@pytest.mark.parametrize(
    ("declared", "policy", "basis"),
    [
        (CIRCLE, Policy(), "DECLARED"),
        (OWN, Policy(allocate_strategy="AVG_BY_CIRCLE"), "CONFIGURED"),
        (OWN, Policy(), "INFERRED"),  # AVG and CONSISTENT_HASH put them elsewhere
    ],
)
def test_the_strategy_is_declared_or_configured_or_inferred(declared, policy, basis):
    trace = Trace(policy=policy)
    both = {"a": replace(holding(0, 2), strategy=declared), "b": replace(holding(1, 3), strategy=declared)}
    rounds(trace, 0, 20, both)
    assert (trace.state.strategy, trace.state.strategy_basis) == ("AVG_BY_CIRCLE", basis)
    assert [trace.state.queues[mq(q)].expected_owner for q in range(4)] == ["a", "b", "a", "b"]


def hashed(declared: str = HASH, virtual_nodes: int = 10) -> dict[str, Member]:
    plan = strategy("CONSISTENT_HASH", virtual_node_cnt=virtual_nodes).plan("g", [mq(q) for q in range(4)], ["a", "b"])
    return {c: replace(holding(*(m.queue_id for m in share or ())), strategy=declared) for c, share in plan.items()}


def test_a_consistent_hash_is_trusted_once_its_defaults_fit():
    trace = rounds(Trace(), 0, 20, hashed())
    assert (trace.state.strategy, trace.state.strategy_basis) == ("CONSISTENT_HASH", "DECLARED")
    moved = {c: replace(m, holds=()) for c, m in hashed().items()}
    moved["a"] = replace(moved["a"], holds=tuple(Held(q) for q in range(4)))
    rounds(trace, 20, 110, moved)
    assert {t[2] for t in trace.incidents(*MINE)} >= {"ASSIGNMENT_MISMATCH"}


def test_a_consistent_hash_of_other_parameters_expects_no_owner():
    trace = rounds(Trace(), 0, 200, hashed(virtual_nodes=3))
    assert trace.state.strategy == ""
    assert trace.incidents(*MINE) == []


def test_an_unsubscribed_topic_does_not_hide_the_strategy():
    trace = Trace()
    trace._fold(TopicRoute(topic="Other", queues=(mq(0, "Other"),), **trace._poll(START)))
    rounds(trace, 0, 20, {c: replace(m, strategy=OWN) for c, m in FOUR.items()})
    assert trace.state.strategy_basis == "INFERRED"


def test_an_inferred_strategy_is_dropped_when_it_no_longer_fits():
    """For example two machine rooms: the assignment looked like AVG and was not."""
    both = {c: replace(m, strategy=OWN) for c, m in FOUR.items()}
    trace = rounds(Trace(), 0, 20, both)
    assert trace.state.strategy_basis == "INFERRED"
    swapped = {c: replace(m, strategy=OWN) for c, m in {"a": holding(0, 3), "b": holding(2, 1)}.items()}
    rounds(trace, 20, 90, swapped)
    assert trace.state.strategy_basis == "INFERRED"
    rounds(trace, 90, 110, swapped)
    assert (trace.state.strategy, trace.state.strategy_basis) == ("", "")
    assert trace.incidents(*MINE) == []


def test_one_member_alone_is_explained_by_every_strategy():
    trace = rounds(Trace(), 0, 30, {"a": replace(holding(0, 1, 2, 3), strategy=OWN)})
    assert trace.state.strategy == ""


def test_without_a_known_strategy_no_rebalance_is_called_unconverged():
    trace = rounds(Trace(), 0, 20, hashed(virtual_nodes=3))
    rounds(trace, 20, 250, {"a": replace(holding(0, 1, 2, 3), strategy=HASH)})
    assert [e.converged for e in trace.effects if isinstance(e, RebalanceSettled)] == [None]


def test_a_strategy_that_needs_parameters_is_not_configured_without_them():
    with pytest.raises(ValueError, match="allocate_strategy MACHINE_ROOM needs consumeridcs"):
        Policy(allocate_strategy="MACHINE_ROOM")
