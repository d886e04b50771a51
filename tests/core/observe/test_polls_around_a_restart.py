"""A broker stops and returns between two polls: an answer does not undo what its hook has reported."""

from tests.support.hook_trace import HookTrace
from tests.support.trace import holding

BOTH = {"a": holding(0, 1), "b": holding(2, 3)}
B_ALONE = {"b": holding(2, 3)}


def silent_at_20() -> HookTrace:
    """The hook's last tick was that of 20 s."""
    trace = HookTrace().boots(0).heart_beat(1, "a", "b").locks(2, "a", 0, 1).locks(2, "b", 2, 3).poll(10, BOTH)
    trace.falls_silent(20, trace.view().source)
    return trace


def test_a_broker_that_answers_before_it_dies_has_lost_its_locks_when_back():
    trace = silent_at_20().poll(20.8, BOTH)
    trace.is_back(40, trace.view().source)
    trace.boots(40)
    assert trace.incidents("BROKER_LOCKS_LOST") == [(40, "OPENED", "BROKER_LOCKS_LOST")]


def test_a_broker_that_answers_while_its_hook_is_gone_is_believed():
    trace = silent_at_20().poll(22.5, B_ALONE)
    assert trace.state.members == ("b",)
    assert trace.state.views["broker-a"].hook is None


def test_a_returned_hook_counts_before_its_first_tick():
    """Its clients' first calls come before the hook's own first words: who has not called yet is still to return."""
    trace = silent_at_20()
    trace.boot["broker-a"] = trace.clock(23)
    trace.hook_seq["broker-a-0"] = 0
    trace.heart_beat(23.2, "b").poll(23.4, B_ALONE)
    assert trace.state.members == ("a", "b")
    assert set(trace.view().expected_back_until) == {"a"}
    assert not trace.state.silent


def test_a_restart_is_seen_though_an_answer_came_before_the_hooks_start():
    """The restarted broker, which knows nobody yet, answers first: its offsets are those that it has stored."""
    trace = HookTrace().boots(0).heart_beat(1, "a", "b").locks(2, "a", 0, 1).locks(2, "b", 2, 3).poll(10, BOTH)
    trace.commits(12, "a", 0, 7)
    trace.falls_silent(20, trace.view().source)
    trace.poll(22.5, B_ALONE)
    trace.boots(23)
    assert trace.state.views["broker-a"].hook is not None
    assert {queue.hook_view.commit_offset for queue in trace.state.queues.values() if queue.hook_view} == {-1}
