"""DUPLICATE_CONSUMPTION by the hook: messages consumed twice after a move (#4215, #1825, #2181)."""

from dataclasses import replace

import pytest

from tests.support.commit_traces import concurrent, thawed
from tests.support.incident_rows import evidence, transitions_of
from tests.support.trace import holding


def test_a_client_that_regains_the_queue_reads_197_messages_again():
    trace = thawed().unlocks(466, "b", 0).locks(466.5, "a", 0, channel="a:1").asks(466.6, "a", 0, number=1)
    trace.pulls(467, "a", 0, number=1, offset=361).commits(470, "a", 0, 500, number=1)
    rebalance_id = trace.state.episode.rebalance_id
    trace.commits(475, "a", 0, 558, number=1).passes(536)
    assert transitions_of(trace, "DUPLICATE_CONSUMPTION") == [
        (472, "OPENED", "DUPLICATE_CONSUMPTION"),
        (535, "RESOLVED", "DUPLICATE_CONSUMPTION"),
    ]
    found = evidence(trace, "DUPLICATE_CONSUMPTION")[0]
    assert (found["messages"], found["offsets"], found["worth_ms"]) == (197, "Orders@broker-a:0 361..558", 41_000)
    assert found["rebalance_id"] == rebalance_id
    # passed at 475, and no other commit fell within a persist interval
    assert transitions_of(trace, "OFFSET_REGRESSION")[-1] == (480, "RESOLVED", "OFFSET_REGRESSION STALE_OWNER")


def test_messages_the_former_owner_commits_after_a_move_are_duplicates():
    """b queries the offset at 20 and gets 100; a, which notices it later, commits 130 at 24."""
    trace = concurrent().commits(15, "a", 0, 100).asks(20, "b", 0).pulls(20.5, "b", 0, offset=100)
    trace.pulls(22, "b", 0, offset=110)
    assert trace.incidents() == []
    trace.commits(24, "a", 0, 130).commits(25, "b", 0, 110).commits(30, "b", 0, 140).passes(91)
    assert transitions_of(trace, "OFFSET_REGRESSION") == [
        (25, "OPENED", "OFFSET_REGRESSION REREAD"),
        (35, "RESOLVED", "OFFSET_REGRESSION REREAD"),
    ]
    assert transitions_of(trace, "DUPLICATE_CONSUMPTION") == [
        (29, "OPENED", "DUPLICATE_CONSUMPTION"),
        (90, "RESOLVED", "DUPLICATE_CONSUMPTION"),
    ]
    assert evidence(trace, "DUPLICATE_CONSUMPTION")[0]["messages"] == 30


def test_later_commits_of_the_former_owner_increase_the_duplicates():
    trace = concurrent().commits(15, "a", 0, 100).asks(20, "b", 0).pulls(20.5, "b", 0, offset=100)
    trace.pulls(22, "b", 0, offset=110)
    trace.commits(24, "a", 0, 130).commits(29, "a", 0, 150).commits(34, "b", 0, 149).commits(39, "b", 0, 151).passes(
        100
    )
    assert transitions_of(trace, "DUPLICATE_CONSUMPTION") == [
        (29, "OPENED", "DUPLICATE_CONSUMPTION"),
        (99, "RESOLVED", "DUPLICATE_CONSUMPTION"),
    ]


def test_a_queue_returned_before_any_message_is_a_near_miss():
    """From the simulation, seed 116: b's pull waits at 5, it returns the queue without a call, and a continues."""
    trace = concurrent(pulled=5).commits(15, "a", 0, 5).asks(20, "b", 0).pulls(20.5, "b", 0, offset=5)
    trace.commits(21, "b", 0, 5).pulls(21.4, "a", 0, offset=6).commits(22, "a", 0, 6).pulls(23, "a", 0, offset=7)
    trace.commits(27, "a", 0, 7).passes(60)
    assert trace.incidents() == []


@pytest.mark.parametrize(
    "commit",
    [
        lambda t: t.pulls(24.9, "b", 0, offset=110),  # the sum of its pulls comes after the commit
        lambda t: t.commits(24.9, "b", 0, 110),
    ],
)
def test_duplicates_may_be_reported_after_the_former_owners_commit(commit):
    trace = concurrent().commits(15, "a", 0, 100).asks(20, "b", 0).pulls(20.5, "b", 0, offset=100)
    trace.commits(24, "a", 0, 130)
    assert trace.incidents("DUPLICATE_CONSUMPTION") == []
    commit(trace)
    trace.passes(30)
    assert transitions_of(trace, "DUPLICATE_CONSUMPTION") == [(29.9, "OPENED", "DUPLICATE_CONSUMPTION")]
    assert evidence(trace, "DUPLICATE_CONSUMPTION")[0]["messages"] == 30


def test_duplicates_that_are_committed_within_a_second_are_reported():
    """Of the simulation, seed 119: a sum of pulls begins below the former owner's commit, and carries that one."""
    trace = concurrent(pulled=40).commits(15, "a", 0, 43).asks(20, "b", 0).commits(20, "a", 0, 44)
    trace.pulls(21, "b", 0, first_offset=43, last_offset=45, count=3, commit=44).commits(22, "b", 0, 45).passes(90)
    assert transitions_of(trace, "DUPLICATE_CONSUMPTION") == [
        (26, "OPENED", "DUPLICATE_CONSUMPTION"),
        (86.001, "RESOLVED", "DUPLICATE_CONSUMPTION"),
    ]


def test_duplicates_of_two_successive_owners_are_one_incident():
    """a has not learnt yet that the queue is b's: both consume everything, and commit in turn."""
    trace = concurrent().commits(15, "a", 0, 100).asks(20, "b", 0).pulls(20.2, "b", 0, offset=100)
    for second in range(12):
        at, offset = 21 + second, 110 + 10 * second
        trace.pulls(at, "b", 0, offset=offset).commits(at + 0.1, "a", 0, offset).commits(at + 0.6, "b", 0, offset + 2)
    trace.passes(120)
    assert [what for _, what, _ in transitions_of(trace, "DUPLICATE_CONSUMPTION")] == ["OPENED", "RESOLVED"]


def test_an_owner_whose_pulls_are_refused_has_read_nothing_again():
    """From the simulation, seed 1687: a group whose heartbeats are refused. It reads them when its pulls are served."""
    trace = concurrent().commits(15, "a", 0, 100).asks(20, "b", 0).commits(20.4, "a", 0, 101)
    for at in range(21, 60):
        trace.pulls(at, "b", 0, offset=100, code=25)
    assert trace.incidents("DUPLICATE_CONSUMPTION") == []
    trace.pulls(60, "b", 0, offset=100).passes(66)
    assert transitions_of(trace, "DUPLICATE_CONSUMPTION") == [(65, "OPENED", "DUPLICATE_CONSUMPTION")]


def test_what_ends_with_its_brokers_outage_is_not_opened_again():
    """From the simulation, seed 2603: an incident of the broker, to which it belonged, ended before it was due."""
    trace = concurrent().commits(15, "a", 0, 100).asks(20, "b", 0).pulls(20.5, "b", 0, offset=100)
    trace.pulls(22, "b", 0, offset=110).commits(24, "a", 0, 130).commits(25, "b", 0, 110)
    trace.poll(28, None).poll(33, None)
    members = {"a": replace(holding(1), orderly=False), "b": replace(holding(0), orderly=False)}
    trace.poll(38, members).poll(48, members).commits(50, "b", 0, 140)
    for at in range(58, 120, 10):
        trace.poll(at, members)
    assert transitions_of(trace, "DUPLICATE_CONSUMPTION") == [
        (29, "OPENED", "DUPLICATE_CONSUMPTION"),
        (33, "DEESCALATED", "DUPLICATE_CONSUMPTION"),
        (98, "RESOLVED", "DUPLICATE_CONSUMPTION"),
    ]
