"""Checks of a group that time alone makes necessary."""

from dataclasses import replace

import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import GroupState, QueueState
from rebalance_model.observe.step import LARGE, GroupStep, Moment
from tests.support.trace import Trace, holding


def test_facts_follow_the_state_once_it_is_said_to_have_changed():
    state = GroupState("c", "g", members=("a", "b"), message_model="CLUSTERING")
    step = GroupStep(state, Policy(), Moment(0, None, 0))
    assert (step.facts.members, step.facts.broadcasts) == ({"a", "b"}, False)
    state.members, state.message_model = ("b", "c"), "BROADCASTING"
    step.changed("MEMBERS")
    assert (step.facts.members, step.facts.broadcasts, step.facts.division) == ({"b", "c"}, True, "BROADCAST")


@pytest.mark.parametrize(("queues", "due"), [(LARGE - 1, 12_345), (LARGE, 13_000)])
def test_a_large_group_is_checked_once_a_second_and_never_early(queues, due):
    """Each queue of a client that is gone has its own moment, and each look judges all of them."""
    state = GroupState("c", "g", queues={MessageQueue("T", "b", n): QueueState() for n in range(queues)})
    step = GroupStep(state, Policy(), Moment(12_000, None, 12_000))
    step.schedule_check(12_345)
    step.schedule_check(12_999)
    assert state.next_check == due


@pytest.mark.parametrize(("queues", "at"), [(8, 10), (LARGE, 11)])
def test_what_members_of_a_large_group_declare_is_judged_within_a_second(queues, at):
    """They answer one after the other, and each answer would judge all of them; their second ones count."""
    first, second = holding(*range(queues // 2)), holding(*range(queues // 2, queues))
    trace = Trace(route=queues)
    for polled in (0, 10):
        trace.poll(polled, {"a": first, "b": replace(second, orderly=False)})
    assert trace.tick(30).incidents("MIXED_CONSUME_MODE") == [(at, "OPENED", "MIXED_CONSUME_MODE")]
