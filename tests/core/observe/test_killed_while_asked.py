"""A client that is killed while polls query it: it is removed at once, and the rows show by which evidence."""

from rebalance_model.observe.effects import GroupSnapshot
from tests.support.hook_trace import HookTrace
from tests.support.trace import START, holding

BOTH = {"a": holding(0, 1), "b": holding(2, 3)}
B_ALONE = {"b": holding(2, 3)}


def members(trace: HookTrace) -> list[tuple[float, tuple[str, ...], tuple[str, ...]]]:
    """(seconds, members, corrections) of each row that shows others, or a correction."""
    rows = [((e.time - START) / 1000, e.members, e.corrections) for e in trace.effects if isinstance(e, GroupSnapshot)]
    return [row for place, row in enumerate(rows) if row[2] or not place or row[1] != rows[place - 1][1]]


def ordered() -> HookTrace:
    return HookTrace().boots(0).heart_beat(1, "a", "b").locks(2, "a", 0, 1).locks(2, "b", 2, 3).poll(10, BOTH)


def test_the_answer_drops_it_before_the_member_list_does():
    trace = ordered().poll(20, B_ALONE).lists(20.023, "b").poll(30, B_ALONE)
    assert members(trace)[-1] == (20, ("b",), ("CHANNEL_CLOSED a:0 a",))


def test_a_client_with_a_recent_heartbeat_may_be_missing_from_the_answer():
    """Its last heartbeat is younger than the late event: the second answer drops it."""
    trace = ordered().heart_beat(19.5, "a").poll(20, B_ALONE)
    assert trace.state.members == ("a", "b")
    trace.poll(30, B_ALONE)
    assert members(trace)[-1] == (30, ("b",), ("CHANNEL_CLOSED a:0 a",))


def test_polls_that_replace_a_silent_hook_list_the_dropped_clients():
    """The broker is just back and answers, but its hook has not spoken yet: the first answer counts."""
    trace = ordered().tick(15)
    trace.falls_silent(15, trace.view().source)
    trace.poll(20, B_ALONE)
    assert members(trace)[-1] == (20, ("b",), ("CHANNEL_CLOSED a:0 a",))
