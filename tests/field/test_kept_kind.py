"""The kind of a group is kept when its last member leaves: what it was is what it will be when it is back."""

import pytest

from rebalance_model.observe.effects import GroupSnapshot
from rebalance_model.observe.events import ConsumerConnection, ConsumerRunningInfo
from streaming.queries.groups import is_divided
from tests.support.field import changed, changed_events, concluded_of
from tests.support.hook_trace import HookTrace

LEFT = 250
"""Seconds after which nobody is there any more."""


def nobody(event, at):
    """The members have left: the broker lists none, and none is asked."""
    if at < LEFT or not isinstance(event, ConsumerConnection | ConsumerRunningInfo):
        return event
    empty = {"connections": (), "subscriptions": (), "consume_type": "", "message_model": ""}
    return changed(event, **empty) if isinstance(event, ConsumerConnection) else None


@pytest.mark.parametrize("source", ["poll", "both"])
@pytest.mark.parametrize("name", ["17-mq-pull", "16c-assign-split-subscribed"])
def test_a_pull_consumers_group_stays_one_without_members(name, source):
    rows = concluded_of(changed_events(name, "poll" if source == "poll" else source, nobody))
    kinds = {(row.consume_type, row.message_model) for row in rows.effects if isinstance(row, GroupSnapshot)}
    assert kinds <= {("CONSUME_ACTIVELY", "CLUSTERING"), ("CONSUME_ACTIVELY", ""), ("", "")}
    last = rows.group()
    assert last.consume_type == "CONSUME_ACTIVELY"
    assert not is_divided(message_model=last.message_model, consume_type=last.consume_type, sharing="")
    assert rows.transitions("QUEUE_UNASSIGNED") == []


@pytest.mark.parametrize(
    ("consume_type", "message_model", "divided"),
    [
        ("CONSUME_ACTIVELY", "CLUSTERING", False),
        ("CONSUME_PASSIVELY", "BROADCASTING", False),
        ("CONSUME_PASSIVELY", "CLUSTERING", True),
    ],
)
def test_by_a_hook_the_kind_stays_when_the_last_member_unregisters(consume_type, message_model, divided):
    trace = HookTrace().boots(0)
    trace.heart_beat(10, "a", "b", consume_type=consume_type, message_model=message_model)
    trace.leaves(20, "a").leaves(21, "b").passes(60)
    last = [row for row in trace.effects if isinstance(row, GroupSnapshot)][-1]
    assert (last.members, last.consume_type, last.message_model) == ((), consume_type, message_model)
    assert is_divided(message_model=message_model, consume_type=last.consume_type, sharing="") == divided
