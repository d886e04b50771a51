"""Checks of a group that time alone makes necessary."""

import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import GroupState, QueueState
from rebalance_model.observe.step import LARGE, GroupStep, Moment


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
