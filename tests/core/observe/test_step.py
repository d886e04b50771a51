"""When a group is looked at again because time alone may change what is so."""

import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import GroupState, QueueState
from rebalance_model.observe.step import LARGE, GroupStep, Moment


def test_the_members_as_a_set_follow_the_states():
    state = GroupState("c", "g", members=("a", "b"))
    step = GroupStep(state, Policy(), Moment(0, None, 0))
    assert step.members == {"a", "b"}
    state.members = ("b", "c")
    assert step.members == {"b", "c"}
    state.members = ()
    assert step.members == set()


@pytest.mark.parametrize(("queues", "due"), [(LARGE - 1, 12_345), (LARGE, 13_000)])
def test_a_large_group_is_checked_once_a_second_and_never_early(queues, due):
    """Each queue of a client that is gone has its own moment, and each look judges all of them."""
    state = GroupState("c", "g", queues={MessageQueue("T", "b", n): QueueState() for n in range(queues)})
    step = GroupStep(state, Policy(), Moment(12_000, None, 12_000))
    step.schedule_check(12_345)
    step.schedule_check(12_999)
    assert state.next_check == due
