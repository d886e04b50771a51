"""POP_STOPPED: a member that pops has too many messages without an acknowledgement."""

from dataclasses import replace

import pytest

from rebalance_model.observe.effects import QueueSnapshot
from rebalance_model.observe.hooks import pops
from tests.support.incident_rows import distinct_transitions, evidence, rows
from tests.support.pop_trace import PROXY, PopTrace, popping
from tests.support.trace import SILENT, TOPIC, Member, Trace

MINE = "POP_STOPPED"
POPS = Member(orderly=False, pops=(TOPIC,))
FULL = replace(POPS, unacked=97)
NOTHING_WAITS = {0: (150, 150), 1: (90, 90)}
WAITS = {0: (200, 150), 1: (90, 90)}


def full(trace: Trace, since: int, until: int, offsets=NOTHING_WAITS, member: Member = FULL) -> Trace:
    """Both members pop; the second one is as given from a time on."""
    for at in range(0, until, 10):
        trace.poll(at, {"a": POPS, "b": member if at >= since else POPS}, offsets)
    return trace


def test_a_member_that_acknowledges_nothing_is_found_by_two_answers():
    """The broker's own lag is 0 all the time: the commit advances when messages are handed out."""
    trace = full(Trace(), 30, 60)
    assert trace.incidents(MINE) == [(40, "OPENED", f"{MINE} FULL")]
    [row] = rows(trace, MINE)
    assert (row.severity, row.client_id) == ("warning", "b")
    assert evidence(trace, MINE)[0] == {"unacked": 97, "queues_full": 1, "full_ms": 10_000, "lag": 0}


def test_it_is_critical_while_more_messages_wait():
    trace = full(Trace(), 30, 60, WAITS)
    assert [row.severity for row in rows(trace, MINE)] == ["critical"]
    trace.poll(60, {"a": POPS, "b": FULL}, NOTHING_WAITS)
    assert trace.incidents(MINE)[-1] == (60, "DEESCALATED", f"{MINE} FULL")


def test_it_ends_with_the_first_acknowledgements():
    trace = full(Trace(), 30, 60).poll(60, {"a": POPS, "b": replace(POPS, unacked=96)}, NOTHING_WAITS)
    assert trace.incidents(MINE)[-1] == (60, "RESOLVED", f"{MINE} FULL")


def test_one_answer_is_a_near_miss():
    trace = full(Trace(), 30, 40).poll(40, {"a": POPS, "b": POPS}, NOTHING_WAITS)
    assert trace.incidents(MINE) == []


def test_a_client_that_does_not_answer_is_as_it_last_was():
    trace = full(Trace(), 30, 40)
    for at in range(40, 90, 10):
        trace.poll(at, {"a": POPS, "b": SILENT}, NOTHING_WAITS)
    assert trace.incidents(MINE) == []


def test_a_queue_that_one_client_still_pops_is_consumed():
    """Each of both is full in turn, then both; then neither answers."""
    trace = Trace()
    for round_, (a, b) in enumerate([(FULL, POPS), (POPS, FULL), (FULL, FULL), *[(SILENT, SILENT)] * 3]):
        trace.poll(10 * round_, {"a": a, "b": b}, NOTHING_WAITS)
    of_queue = [(e.status, e.status_reason) for e in trace.effects if isinstance(e, QueueSnapshot) and e.queue_id == 0]
    assert of_queue[-3:] == [
        ("OK", "shared: its clients pop it"),
        ("WARN", "every client that pops it is full"),
        ("UNKNOWN", "no client that pops it answers"),
    ]


@pytest.mark.parametrize(
    ("threshold", "unacked", "opened"),
    [("", 96, 0), ("10", 11, 1), ("10", 10, 0), ("1000", 500, 0), ("none", 97, 1), ("-1", 97, 1)],
)
def test_its_own_threshold_counts(threshold, unacked, opened):
    trace = full(Trace(), 30, 60, member=replace(POPS, unacked=unacked, threshold=threshold))
    assert len(trace.incidents(MINE)) == opened


def test_by_its_hook_a_member_pops_no_more():
    """Its last POP, at 40.1, was to be answered at 55.1; a frozen one is shown under its heartbeats later."""
    trace = popping("a", until=40, acks=("a",)).passes(70)
    assert distinct_transitions(trace, MINE) == [(60.101, "OPENED", MINE)]
    assert evidence(trace, MINE)[0]["pop_age_ms"] == 20_001
    trace.heart_beat(71, "a").pops(72, "a")
    assert distinct_transitions(trace, MINE)[-1] == (72, "RESOLVED", MINE)


def test_a_member_that_is_refused_consumes_nothing():
    trace = popping("a", until=10, acks=("a",))
    for at in range(11, 60, 3):
        trace.pops(at, "a", code=210)
    assert distinct_transitions(trace, MINE) == [(41.001, "OPENED", f"{MINE} REFUSED")]
    assert evidence(trace, MINE)[0]["code"] == 210


def test_a_member_that_pulls_now_has_another_mode():
    trace = popping("a", until=40, acks=("a",))
    for at in range(41, 120, 5):
        trace.pulls(at, "a", 0)
        if at % 30 == 1:
            trace.heart_beat(at + 1, "a")
    assert trace.incidents(MINE) == []


def test_a_member_that_leaves_does_not_stop():
    assert popping("a", until=40, acks=("a",)).leaves(41, "a").passes(200).incidents(MINE) == []


def test_a_member_that_comes_back_starts_again():
    """Found in the lab: one left, came back 18 s later, and its first POP was seen 20.1 s after its last one."""
    trace = popping("a", until=40, acks=("a",)).leaves(41, "a").heart_beat(59, "a").pops(61, "a")
    assert trace.passes(80).incidents(MINE) == []
    trace.passes(82)
    assert distinct_transitions(trace, MINE) == [(81.001, "OPENED", MINE)]


def test_a_hook_that_is_silent_may_hide_its_pops():
    trace = popping("a", until=40, acks=("a",))
    trace.falls_silent(41, "c/hook-broker-a-0")
    for at in range(45, 200, 10):
        trace.poll(at, {"a": POPS}, NOTHING_WAITS)
    assert trace.incidents(MINE) == []


def behind_proxy(until: int) -> PopTrace:
    """A client behind a proxy sends heartbeats; the proxy pops for it, and acknowledges, until a time."""
    trace = PopTrace().boots(0)
    for at in range(0, 120, 10):
        trace.proxied(at, "x", consume_type="CONSUME_PASSIVELY")
        for second in range(at, min(until, at + 10)):
            trace.pops(second + 0.1, PROXY).acks(second + 0.2, PROXY, second, popped=second + 0.1)
    return trace


def test_a_silent_hook_may_hide_the_pops_of_a_proxy():
    trace = behind_proxy(until=40)
    assert distinct_transitions(trace, MINE) == [(60, "OPENED", f"{MINE} BEHIND_PROXY")]
    trace.falls_silent(121, "c/hook-broker-a-0")
    assert len(distinct_transitions(trace.passes(600), MINE)) == 1
    assert [what for _, what, _ in distinct_transitions(trace.passes(800), MINE)] == ["OPENED", "RESOLVED"]
    assert evidence(trace, MINE)[-1] == {"member": False}, "a proxy of which nothing is reported for long is forgotten"


@pytest.mark.parametrize("popper", ["a", PROXY])
def test_no_more_places_are_kept_of_one_that_pops_than_its_bound(monkeypatch, popper):
    monkeypatch.setattr(pops, "TARGETS_MAX", 2)
    trace = PopTrace().boots(0).heart_beat(0, "a")
    for topic in ("T", "U", "V", "T"):
        trace.pops(1, popper, topic=topic)
    [kept] = (*trace.state.pops.poppers.values(), *trace.state.pops.proxies.values())
    assert [one.topic for one in kept.targets] == ["T", "U"]
