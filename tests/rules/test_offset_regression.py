"""OFFSET_REGRESSION: a committed offset that decreases (#2837, #7182)."""

import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.events import InvokeBrokerToResetOffset
from rebalance_model.observe.state import HookQueueView
from tests.support.commit_traces import concurrent, thawed
from tests.support.hook_trace import A, HookTrace
from tests.support.incident_rows import evidence, transitions_of
from tests.support.trace import TOPIC, Member, Trace, holding


def queue(trace: Trace) -> HookQueueView:
    hook_view = trace.state.queues[MessageQueue(TOPIC, A, 0)].hook_view
    assert hook_view is not None
    return hook_view


def ordered() -> HookTrace:
    """a has queue 0, b is a member."""
    return HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0).pulls(2, "a", 0, offset=100)


# OFFSET_REGRESSION, DUPLICATE_CONSUMPTION (apache/rocketmq issues #2837, #7182; #4215, #1825, #2181)


def test_a_thawed_client_commits_its_old_position_over_the_new_owners():
    trace = thawed()
    assert transitions_of(trace, "OFFSET_REGRESSION") == [(465.01, "OPENED", "OFFSET_REGRESSION STALE_OWNER")]
    [found] = evidence(trace, "OFFSET_REGRESSION")
    assert (found["fell_from"], found["fell_to"], found["messages"], found["worth_ms"]) == (558, 361, 197, 41_000)
    [opened] = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == "OFFSET_REGRESSION"]
    assert (opened.client_id, opened.severity) == ("a", "warning")
    assert trace.incidents("DUPLICATE_CONSUMPTION") == []  # b goes on where it is


def test_a_regression_ends_when_the_owners_next_commit_passes_the_mark():
    trace = thawed().commits(469.4, "b", 0, 570).passes(475)
    assert transitions_of(trace, "OFFSET_REGRESSION")[1:] == [(474.4, "RESOLVED", "OFFSET_REGRESSION STALE_OWNER")]
    assert trace.incidents("DUPLICATE_CONSUMPTION") == []


def test_an_old_offset_of_an_unknown_channel_is_from_a_stale_owner():
    trace = ordered().commits(5, "a", 0, 100).commits(10, "x", 0, 40)
    assert transitions_of(trace) == [(10, "OPENED", "OFFSET_REGRESSION STALE_OWNER")]
    assert evidence(trace, "OFFSET_REGRESSION")[0]["channel"] == "x:0"


def test_a_returned_owner_continues_at_its_former_position():
    trace = ordered().commits(5, "a", 0, 40).unlocks(10, "a", 0).locks(11, "b", 0).asks(11, "b", 0)
    trace.commits(20, "b", 0, 90).unlocks(21, "b", 0).locks(22, "a", 0).commits(23, "a", 0, 40)
    assert transitions_of(trace) == [(23, "OPENED", "OFFSET_REGRESSION STALE_OWNER")]


def test_a_former_owner_that_commits_long_after_the_move_is_stale():
    trace = concurrent().commits(15, "a", 0, 100).asks(20, "b", 0).pulls(20.5, "b", 0, offset=100)
    trace.commits(46, "a", 0, 130).commits(47, "b", 0, 110)
    assert transitions_of(trace) == [(47, "OPENED", "OFFSET_REGRESSION STALE_OWNER")]


@pytest.mark.parametrize(
    ("to", "cause", "severity"),
    [
        (0, "RESET_TO_MIN", "critical"),  # #4215: an overflow resets to 0
        (9_000, "OPERATOR_RESET", "critical"),
        (10_000, "OPERATOR_RESET", "warning"),  # 10,000 messages are not more than 10,000
        (19_899, "OPERATOR_RESET", "warning"),
        (19_900, "OPERATOR_RESET", "info"),
    ],
)
def test_an_owner_that_goes_back_itself_was_reset(to, cause, severity):
    trace = ordered().commits(5, "a", 0, 20_000).commits(20, "a", 0, to)
    assert trace.incidents() == []  # it may have been overtaken by another of its own
    trace.commits(25, "a", 0, to)
    assert transitions_of(trace) == [(25, "OPENED", f"OFFSET_REGRESSION {cause}")]
    [opened] = [e for e in trace.effects if isinstance(e, IncidentTransition)]
    assert opened.severity == severity


@pytest.mark.parametrize(("later", "by"), [(0, "x:1"), (700, None)])
def test_the_tool_that_asked_for_a_reset_is_named(later, by):
    """One of more than ten minutes before is not the reason: the queue was committed since."""
    trace = ordered().commits(5, "a", 0, 20_000)
    trace._emit(15, InvokeBrokerToResetOffset, channel="x:1", topic=TOPIC, queue_id=-1)
    for at in range(30, later, 30):
        trace.heart_beat(at, "a", "b").locks(at + 1, "a", 0).commits(at + 2, "a", 0, 20_000)
    trace.commits(later + 20, "a", 0, 9_000).commits(later + 25, "a", 0, 9_000)
    assert evidence(trace, "OFFSET_REGRESSION")[0].get("moved_by") == by


def test_two_commits_of_a_client_out_of_order_are_a_near_miss():
    trace = ordered().commits(5, "a", 0, 100).commits(5.001, "a", 0, 98).commits(6, "a", 0, 99).commits(10, "a", 0, 101)
    assert trace.incidents() == []


def test_an_offset_reset_while_the_queue_had_no_owner():
    """b queries the offset after a's last commit, and gets a lower one: the stored offset was changed."""
    trace = ordered().commits(5, "a", 0, 100).unlocks(10, "a", 0).locks(20, "b", 0).asks(20.1, "b", 0)
    trace.commits(25, "b", 0, 10).commits(30, "b", 0, 12)
    assert transitions_of(trace) == [(30, "OPENED", "OFFSET_REGRESSION OPERATOR_RESET")]


def test_a_broker_that_comes_back_with_older_offsets():
    trace = HookTrace().boots(0).heart_beat(1, "a").locks(2, "a", 0).pulls(3, "a", 0, offset=50).commits(5, "a", 0, 50)
    trace.boots(20).heart_beat(21, "a").locks(22, "a", 0).pulls(23, "a", 0, offset=30).commits(25, "a", 0, 31)
    trace.commits(30, "a", 0, 51).passes(36)
    assert transitions_of(trace, "OFFSET_REGRESSION", "DUPLICATE_CONSUMPTION")[:2] == [
        (25, "OPENED", "OFFSET_REGRESSION FAILOVER"),
        (28, "OPENED", "DUPLICATE_CONSUMPTION"),
    ]
    assert [t for t in transitions_of(trace) if t[1] == "RESOLVED" and "OFF" in t[2]] == [
        (35, "RESOLVED", "OFFSET_REGRESSION FAILOVER")
    ]


def test_a_broker_restart_without_a_regression_is_a_near_miss():
    trace = HookTrace().boots(0).heart_beat(1, "a").locks(2, "a", 0).pulls(3, "a", 0, offset=50).commits(5, "a", 0, 50)
    trace.boots(20).heart_beat(21, "a").locks(22, "a", 0).pulls(23, "a", 0, offset=60).commits(25, "a", 0, 55)
    assert trace.incidents("OFFSET_REGRESSION", "DUPLICATE_CONSUMPTION") == []


def test_a_late_commit_carried_by_a_pull_is_ignored():
    trace = ordered().commits(10, "a", 0, 100)
    trace.pulls(10.9, "a", 0, offset=101, commit=90, first_time=trace.clock(9), last_time=trace.clock(9.5))
    assert (queue(trace).commit_offset, trace.incidents()) == (100, [])


def test_a_sum_of_pulls_that_begins_below_its_commit_is_no_regression():
    trace = ordered().commits(5, "a", 0, 90).unlocks(6, "a", 0).locks(7, "b", 0)
    trace.pulls(8, "b", 0, first_offset=90, last_offset=130, count=9, commit=120)
    assert trace.incidents() == []


def test_a_regression_freezes_while_the_hook_is_silent():
    trace = HookTrace().poll(0, {"a": holding(0), "b": holding(1, 2, 3)})
    trace.heart_beat(0.5, "a", "b").locks(1, "a", 0).commits(5, "a", 0, 100).commits(6, "b", 0, 40)
    hook = trace.view().source
    trace.falls_silent(10, hook)
    for at in range(10, 100, 10):
        trace.poll(at, {"a": holding(0), "b": holding(1, 2, 3)}, {0: (1_000, 200)})
    assert [t[1] for t in trace.incidents("OFFSET_REGRESSION")] == ["OPENED"]
    trace.is_back(100, hook).heart_beat(101, "a", "b").commits(102, "a", 0, 200).passes(108)
    assert [t[1] for t in trace.incidents("OFFSET_REGRESSION")] == ["OPENED", "RESOLVED"]


def polled(*commits: int) -> Trace:
    """One answer every 10 s, from 0 on, with 1000 messages there."""
    trace = Trace()
    for n, commit in enumerate(commits):
        trace.poll(10 * n, {"a": holding(0)}, {0: (1_000, commit)})
    return trace


# OFFSET_REGRESSION by polls alone


def test_by_polls_an_offset_that_stays_below_the_commit_has_fallen_back():
    trace = polled(90, 300, 100, 120, 290, 300)
    assert trace.incidents("OFFSET_REGRESSION") == [(30, "OPENED", "OFFSET_REGRESSION POLLED")]
    assert [e.severity for e in trace.effects if isinstance(e, IncidentTransition)] == ["warning"]
    found = evidence(trace, "OFFSET_REGRESSION")[0]
    assert (found["fell_from"], found["fell_to"], found["messages"]) == (300, 100, 200)
    assert trace.tick(56).incidents("OFFSET_REGRESSION")[-1] == (55, "RESOLVED", "OFFSET_REGRESSION POLLED")


@pytest.mark.parametrize(
    ("commits", "why"),
    [
        ((90, 300, 100, 300, 310), "one answer: a hand-over, or a client that thaws, and its heir goes on"),
        ((90, 300, 0, 0, 0, 0, 310), "the offset may be gone: 0 is what the broker shows for none"),
        ((0, 0, 5, 9, 9), "it has not been committed before"),
    ],
)
def test_polled_offsets_that_decrease_briefly_are_a_near_miss(commits, why):
    assert polled(*commits).incidents("OFFSET_REGRESSION") == [], why


def test_by_both_the_hook_reports_a_commit_that_fell_back_once():
    trace = HookTrace().heart_beat(0, "a").locks(1, "a", 0).commits(2, "a", 0, 300)
    for n, commit in enumerate((300, 100, 100, 100)):
        trace.passes(4 + 10 * n).heart_beat(4 + 10 * n, "a").commits(4 + 10 * n, "a", 0, commit)
        trace.poll(5 + 10 * n, {"a": holding(0)}, {0: (1_000, commit)})
    assert {t[1:] for t in trace.incidents("OFFSET_REGRESSION")} == {("OPENED", "OFFSET_REGRESSION OPERATOR_RESET")}


def test_a_topic_that_was_created_again_is_no_reset_by_its_reader():
    """In the lab: the reader's first pull of the new topic still carries its commit of the former one."""
    trace = HookTrace().heart_beat(0, "a").pulls(1, "a", 0, offset=60).commits(6, "a", 0, 64)
    for at in range(10, 100, 3):
        trace.pulls(at, "a", 0, offset=64, commit=64, code=17)
    trace.pulls(100, "a", 0, offset=64, commit=64).commits(101, "a", 0, 1).pulls(102, "a", 0, offset=1, commit=1)
    trace.commits(106, "a", 0, 3).passes(110)
    assert transitions_of(trace, "OFFSET_REGRESSION") == [(101, "OPENED", "OFFSET_REGRESSION NEWEST_FELL")]
    assert trace.incidents("DUPLICATE_CONSUMPTION") == []


def test_the_fall_of_a_popped_topic_is_not_shown_while_no_member_pops():
    popping = {"a": Member(orderly=False, pops=(TOPIC,))}
    trace = Trace().poll(0, popping, {0: (60, 60)}).poll(10, popping, {0: (1, 1)}).poll(20, popping, {0: (3, 3)})
    assert trace.poll(30, {}, {0: (5, 3)}).poll(40, {}, {0: (6, 3)}).incidents("OFFSET_REGRESSION") == []


# A broker of 5.x answers pulls after its hook has run: code 21 (PULL_OFFSET_MOVED) is not seen


def corrected(to: int, *, after: float = 0.02, again: float = 0.001, ordered: bool = False) -> HookTrace:
    """a has pulled up to 5,032, commits 5,000, and then twice another offset, after its last pull."""
    trace = HookTrace().boots(0).heart_beat(1, "a", "b")
    trace = trace.locks(2, "a", 0) if ordered else trace.asks(2, "a", 0)
    trace.pulls(3, "a", 0, offset=5_000).commits(10, "a", 0, 5_000).pulls(20, "a", 0, offset=5_032)
    trace.commits(20 + after, "a", 0, to).commits(20 + after + again, "a", 0, to)
    return trace.asks(20 + after + again + 0.01, "a", 0).passes(60)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("to", [0, 4_000])
def test_a_client_that_corrects_its_offset_downwards_follows_the_log(to, ordered):
    """DefaultMQPushConsumerImpl, OFFSET_ILLEGAL: it persists twice. What was committed is not in the log: no reread."""
    trace = corrected(to, ordered=ordered)
    assert transitions_of(trace, "OFFSET_REGRESSION") == [(20.021, "OPENED", "OFFSET_REGRESSION NEWEST_FELL")]


@pytest.mark.parametrize(("after", "again"), [(10, 0.001), (0.02, 2)])
def test_a_client_that_goes_back_later_or_once_was_reset(after, again):
    """A tool's reset waits ten seconds after the last pull (MQClientInstance.resetOffset)."""
    trace = corrected(4_000, after=after, again=again).commits(40, "a", 0, 4_100).passes(60)
    assert {what for _, _, what in transitions_of(trace, "OFFSET_REGRESSION")} == {"OFFSET_REGRESSION OPERATOR_RESET"}


def test_a_client_that_follows_the_reset_of_its_broker_was_reset():
    """A broker of 5.x keeps the offset of a tool, and answers the next pull as if that were not in the log."""
    trace = HookTrace().boots(0).heart_beat(1, "a", "b").asks(2, "a", 0).pulls(3, "a", 0, offset=5_000)
    trace.commits(10, "a", 0, 5_000).pulls(20, "a", 0, offset=5_032)
    trace._emit(20.01, InvokeBrokerToResetOffset, channel="x:9", topic=TOPIC, queue_id=-1, code=0)
    trace.commits(20.02, "a", 0, 4_000).commits(20.021, "a", 0, 4_000).asks(20.03, "a", 0).commits(25, "a", 0, 4_100)
    assert [what for _, _, what in transitions_of(trace)] == ["OFFSET_REGRESSION OPERATOR_RESET"]


def test_a_client_that_corrects_its_offset_by_little_has_skipped_it():
    trace = corrected(5_040)
    assert [what for _, _, what in trace.incidents()] == ["MESSAGES_STRANDED EXPIRED"]
    assert evidence(trace, "MESSAGES_STRANDED")[0]["messages"] == 8


@pytest.mark.parametrize("fields", [{"again": 0.5}, {"after": 3}, {"ordered": True}])
def test_a_client_that_commits_its_last_batch_has_skipped_nothing(fields):
    """Once; later, as it leaves; or of an ordered queue, which it commits twice as it gives it up."""
    assert corrected(5_064, **fields).incidents("MESSAGES_STRANDED") == []


def test_a_commit_carried_by_a_pull_that_another_overtook_corrects_nothing():
    """As a client with two connections makes them (tests/field/lab/ce-group)."""
    trace = HookTrace().boots(0).heart_beat(1, "a", "b").asks(2, "a", 0).pulls(3, "a", 0, offset=5_000)
    trace.pulls(20, "a", 0, offset=5_001, commit=5_000).pulls(20.01, "a", 0, offset=5_001, commit=4_999)
    trace.commits(20.02, "a", 0, 4_999).commits(25, "a", 0, 5_001)
    assert trace.incidents() == []
