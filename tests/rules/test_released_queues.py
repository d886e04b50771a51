"""The scenario table of released queues: by hooks alone, which see no routes, and with polls beside them."""

from collections.abc import Callable

import pytest

from tests.support.hook_trace import HookTrace
from tests.support.incident_rows import distinct_transitions
from tests.support.lock_traces import ordered
from tests.support.trace import Held, Member, holding

QUEUES = {"a": (0, 1), "b": (2, 3)}
STRANDED = "MESSAGES_STRANDED NOT_READ"
FOUR = {"a": holding(0), "b": holding(1, 2, 3)}


def goes_on(trace: HookTrace, begin: int, end: int, *, pulls: str = "0123", commits: str = "0123", beats: str = "ab"):
    """A concurrent group works, from and to: every 10 s who heartbeats, what is pulled, what is committed."""
    for at in range(begin, end, 10):
        trace.passes(at).heart_beat(at, *beats)
        for client, queues in QUEUES.items():
            for queue in queues:
                if str(queue) in pulls:
                    trace.pulls(at + 0.1, client, queue, offset=at + 12)
                if str(queue) in commits:
                    trace.commits(at + 0.2, client, queue, at if str(queue) in pulls else 20)
    return trace.passes(end)


def concurrent() -> HookTrace:
    return goes_on(HookTrace().heart_beat(0, "a", "b").asks(1, "a", 0, 1).asks(1, "b", 2, 3), 10, 30)


# Not ordered


def test_a_queue_removed_from_its_topic_blames_nobody():
    """The lab's topic that shrank: b has dropped 3 at 30, with 12 messages pulled, which no call shows."""
    trace = goes_on(concurrent(), 30, 400, pulls="012", commits="012")
    assert [name for _, _, name in trace.incidents()] == [STRANDED]


def test_a_client_that_does_not_pull_and_still_commits_has_its_queue():
    """pullInterval above 120 s: its process queue is there, and committed every 5 s."""
    trace = goes_on(concurrent(), 30, 200, pulls="012")
    assert distinct_transitions(trace, "PULL_EXPIRED", "QUEUE_STALLED") == [
        (110.201, "OPENED", "QUEUE_STALLED LISTENER_BLOCKED"),
        (140.101, "OPENED", "PULL_EXPIRED"),
        (140.101, "DEESCALATED", "QUEUE_STALLED LISTENER_BLOCKED"),  # no pull is its cause
    ]


def test_a_silent_client_may_still_have_all_of_its_queues():
    """b is frozen at 30: the broker drops it at 150, 130 s after its heartbeat, and its pulls have expired by then."""
    trace = goes_on(concurrent(), 30, 145, pulls="01", commits="01", beats="a")
    assert {name for _, _, name in distinct_transitions(trace, "PULL_EXPIRED", "QUEUE_STALLED")} == {
        "QUEUE_STALLED OWNER_UNRESPONSIVE",
        "PULL_EXPIRED",
    }


# Ordered


def consumed(trace: HookTrace, begin: int, end: int, *locked: int) -> HookTrace:
    """Both renew their locks, and what is locked is consumed."""
    for at in range(begin, end, 10):
        trace.passes(at).heart_beat(at, "a", "b")
        for client, queues in QUEUES.items():
            mine = tuple(queue for queue in queues if queue in locked)
            trace.locks(at, client, *mine)
            for queue in mine:
                trace.pulls(at + 0.1, client, queue, offset=at + 2).commits(at + 0.2, client, queue, at)
    return trace.passes(end)


def test_the_last_queues_unlocked_and_not_requested_are_lost_by_the_topic():
    trace = consumed(ordered(), 10, 30, 0, 1, 2, 3).unlocks(30, "b", 2, 3)
    assert [name for _, _, name in consumed(trace, 40, 300, 0, 1).incidents()] == [STRANDED]


def test_the_wait_of_messages_in_regained_queues_starts_anew():
    """The last pulls of 2 and 3 were beyond their commits."""
    trace = consumed(ordered(), 10, 30, 0, 1, 2, 3).pulls(30, "b", 2, 3, offset=99).unlocks(30, "b", 2, 3)
    trace = consumed(trace, 40, 200, 0, 1).asks(200, "b", 2, 3)
    trace = consumed(trace, 200, 220, 0, 1, 2, 3)
    assert [what for _, *what in trace.incidents()] == [["OPENED", STRANDED], ["RESOLVED", STRANDED]]
    lost = goes_on(concurrent(), 30, 200, pulls="012", commits="012")
    trace = goes_on(lost.asks(200, "b", 3).pulls(200, "b", 3, offset=20), 200, 220)
    assert [what for _, *what in trace.incidents()] == [["OPENED", STRANDED], ["RESOLVED", STRANDED]]


@pytest.mark.parametrize(
    ("why", "else_happens", "locked"),
    [
        ("3 is there, so 2 was not lost", lambda trace: trace.unlocks(30, "b", 2), (0, 1, 3)),
        ("a is refused it", lambda trace: trace.unlocks(30, "b", 3).locks(31, "a", 3, granted=()), (0, 1, 2)),
        ("a is in the list twice", lambda trace: trace.unlocks(30, "b", 3).heart_beat(31, "a", number=1), (0, 1, 2)),
        ("c has joined, and it is c's", lambda trace: trace.heart_beat(29, "c").unlocks(30, "b", 3), (0, 1, 2)),
        ("nobody has any", lambda trace: trace.unlocks(30, "a", 0, 1).unlocks(30, "b", 2, 3), ()),
    ],
)
def test_an_existing_queue_without_owner_is_stuck(why, else_happens, locked):
    trace = consumed(ordered(), 10, 30, 0, 1, 2, 3)
    else_happens(trace)
    names = {name for _, _, name in distinct_transitions(consumed(trace, 40, 120, *locked), "ORDERED_QUEUE_STUCK")}
    assert names == {"ORDERED_QUEUE_STUCK UNASSIGNED"}, why


def test_an_owner_that_has_left_has_released_nothing():
    trace = consumed(ordered(), 10, 30, 0, 1, 2, 3).leaves(30, "b")
    for at in range(40, 120, 10):
        trace.passes(at).heart_beat(at, "a").locks(at, "a", 0, 1)
        trace.commits(at, "a", 0, at).commits(at, "a", 1, at)
    assert {name for _, _, name in distinct_transitions(trace, "ORDERED_QUEUE_STUCK")} >= {
        "ORDERED_QUEUE_STUCK UNASSIGNED"
    }


# With polls


def both(until: int, pull_age: Callable[[int], float]) -> list[tuple[float, str, str]]:
    """a has pulled 0 at 2, as the hook reports, and renews; queried every 10 s, it shows a pull of ``pull_age`` ago."""
    trace = HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0).commits(2, "a", 0, 7).pulls(2, "a", 0, offset=7)
    for at in range(6, until, 10):
        trace.passes(at - 1).heart_beat(at - 1, "a", "b").locks(at - 1, "a", 0)
        trace.poll(at, {"a": Member((Held(0, pull_age=pull_age(at)),)), "b": holding(1, 2, 3)})
    return trace.passes(until).incidents("PULL_EXPIRED")


def test_by_both_a_pull_expires_as_soon_as_by_the_hook():
    """At 122, before the answer of 126 that shows it."""
    since_2 = both(122, lambda at: at - 2), both(123, lambda at: at - 2)
    assert since_2 == ([], [(122.001, "OPENED", "PULL_EXPIRED")])


@pytest.mark.parametrize("answer", [lambda _: 3, lambda at: at - 2 if at < 100 else 1])
def test_pulls_that_the_hook_does_not_see_show_in_the_answers(answer):
    """A slave serves the queue, all the time or lately."""
    assert both(200, answer) == []


def test_a_late_hook_shows_a_former_lock_of_the_holder():
    """By the polls a leaves and is back by 40. The hook has not reported yet the lock that it has now."""
    trace = HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0).locks(1, "b", 1, 2, 3).poll(2, FOUR)
    for at in (10, 20):
        trace.passes(at).locks(at, "b", 1, 2, 3).poll(at + 1, {"b": holding(1, 2, 3)})
    for at in (30, 40, 50, 60):
        trace.passes(at).locks(at, "b", 1, 2, 3).poll(at + 1, FOUR)
    assert trace.owners()[0] == "a"
    assert trace.incidents("LOCK_EXPIRED") == []
