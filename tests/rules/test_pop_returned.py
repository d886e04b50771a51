"""POP_RETURNED: popped messages come back, because they were not acknowledged, or were refused."""

import pytest

from rebalance_model.observe.events import ConsumeStats, OffsetInfo
from rebalance_model.observe.state import popped, popped_queues
from tests.support.incident_rows import distinct_transitions, evidence, rows
from tests.support.pop_trace import PROXY, PopTrace
from tests.support.trace import START, TOPIC, Trace, mq

MINE = "POP_RETURNED"
EXPIRED, REJECTED = f"{MINE} EXPIRED", f"{MINE} REJECTED"


def acking(until: int, left: tuple[int, ...] = ()) -> PopTrace:
    """A proxy's clients acknowledge a message a second, but those that are left."""
    trace = PopTrace().boots(0)
    for at in range(until):
        trace.pops(at + 0.1, PROXY, invisible=20)
        if at not in left:
            trace.acks(at + 0.5, PROXY, at, popped=at + 0.1, invisible_ms=20_000)
    return trace


def test_a_message_that_nobody_acknowledges_comes_back():
    """Popped at 31 at the latest, invisible for 20 s, and 5 s later in the retry topic."""
    trace = acking(60, (30,))
    [(at, transition, what)] = distinct_transitions(trace, MINE)
    assert (transition, what) == ("OPENED", EXPIRED)
    assert 55 <= at <= 57
    assert (rows(trace, MINE)[0].severity, evidence(trace, MINE)[0]["expired"]) == ("info", 1)
    trace.passes(at + 60.1)
    assert distinct_transitions(trace, MINE)[-1][1:] == ("RESOLVED", EXPIRED)


def test_many_are_a_warning():
    trace = acking(62, tuple(range(20, 34)))
    assert rows(trace, MINE)[-1].severity == "warning"
    assert evidence(trace, MINE)[-1]["expired"] >= 10


def test_an_acknowledgement_just_in_time_is_a_near_miss():
    trace = acking(54, (30,)).acks(54.5, PROXY, 30, popped=30.1, invisible_ms=20_000).passes(120)
    assert trace.incidents(MINE) == []


def test_a_message_that_is_refused_for_a_minute_is_poison():
    trace = acking(10)
    topic = f"%RETRY%{trace.state.group}_{TOPIC}"
    trace.changes(10, PROXY, 0, popped=9.5, to=30, topic=topic)
    assert trace.incidents(MINE) == []  # its second delivery
    trace.changes(41, PROXY, 1, popped=40.5, to=60, topic=topic)
    assert distinct_transitions(trace, MINE) == [(41, "OPENED", REJECTED)]
    assert (rows(trace, MINE)[0].severity, evidence(trace, MINE)[0]["topic"]) == ("warning", TOPIC)
    trace.passes(101.1)
    assert distinct_transitions(trace, MINE)[-1] == (101.001, "RESOLVED", REJECTED)


def test_after_lost_calls_nothing_that_was_popped_before_has_come_back():
    trace = acking(31, (20, 21, 22))
    trace.hook_seq["broker-a-0"] += 1
    trace.acks(32, PROXY, 31, popped=31).passes(100)
    assert trace.incidents(MINE) == []


def test_a_gap_that_another_call_shows_is_one_of_acknowledgements_too():
    trace = acking(31, (20, 21, 22))
    trace.hook_seq["broker-a-0"] += 1
    trace.heart_beat(31.5, "a").acks(32, PROXY, 31, popped=31).passes(100)
    assert trace.incidents(MINE) == []


UNDETERMINED = f"{MINE} UNDETERMINED"
RETRY = f"%RETRY%g_{TOPIC}"


def answers(returned: dict[int, int], until: int, *, retry: str = RETRY, commit: int = 10, trace: Trace | None = None):
    """Polls of a gRPC group: ``returned`` has by second how many messages its retry topic got; commits advance."""
    trace = trace or Trace()
    for at in range(0, until + 1, 10):
        trace.poll(at, {})
        stored = 5 + sum(count for when, count in returned.items() if when <= at)
        rows = [OffsetInfo(mq=mq(0), broker_offset=100 + commit * at, consumer_offset=100 + commit * at)]
        rows += [OffsetInfo(mq=mq(0, retry), broker_offset=stored, consumer_offset=stored)]
        trace._fold(ConsumeStats(queues=tuple(rows), **trace._poll(START + at * 1_000)))
    return trace


def test_by_polls_a_retry_topic_that_grows_shows_that_messages_come_back():
    """From offsets it is not known whether they were refused or expired; few are no reason to warn."""
    trace = answers({40: 1, 60: 2, 110: 1, 160: 1}, 240)
    assert trace.incidents(MINE) == [(160, "OPENED", UNDETERMINED), (220.001, "RESOLVED", UNDETERMINED)]
    assert rows(trace, MINE)[0].severity == "info"
    assert evidence(trace, MINE)[0] == {"returned": 2, "handed_out": 700, "window_ms": 60_000, "topic": TOPIC}


@pytest.mark.parametrize("returned", [{40: 30}, {40: 20, 70: 20, 100: 20, 130: 20}, {40: 1, 180: 1, 320: 1}])
def test_what_clients_give_back_when_they_are_restarted_is_a_near_miss(returned):
    assert answers(returned, 400).incidents(MINE) == []


def test_by_polls_a_fifth_of_what_was_handed_out_is_a_warning():
    returned = dict.fromkeys(range(20, 200, 10), 3)
    assert [one.severity for one in rows(answers(returned, 190, commit=1), MINE)] == ["warning"]
    assert [one.severity for one in rows(answers(returned, 190, commit=2), MINE)] == ["info"]


@pytest.mark.parametrize("retry", ["%RETRY%g", "%RETRY%other_Orders", "Orders2"])
def test_a_retry_topic_of_classic_consumers_is_a_near_miss(retry):
    assert answers(dict.fromkeys(range(40, 200, 20), 20), 240, retry=retry).incidents(MINE) == []


def test_a_retry_topic_that_is_first_seen_has_messages_of_any_age():
    trace = Trace()
    for at in range(0, 50, 10):
        trace.poll(at, {}, {0: (100 + at, 100 + at)})
    stored = OffsetInfo(mq=mq(0, RETRY), broker_offset=900, consumer_offset=900)
    trace._fold(ConsumeStats(queues=(stored,), **trace._poll(START + 40_000)))
    assert trace.incidents(MINE) == []


def test_what_came_back_while_nobody_asked_is_not_judged():
    trace = answers({20: 1, 80: 1, 140: 1}, 140)
    assert trace.incidents(MINE) == [(140, "OPENED", UNDETERMINED)]
    trace.tick(300)
    assert trace.incidents(MINE) == [(140, "OPENED", UNDETERMINED)]  # no answer shows that none came back


def test_what_came_back_between_answers_far_apart_is_not_counted():
    """Without answers in between it is not known when it came."""
    trace = answers({20: 1, 80: 1}, 80)
    for at in (150, 160):
        stored(trace, at, OffsetInfo(mq=mq(0, RETRY), broker_offset=8, consumer_offset=8))
    assert trace.incidents(MINE) == []


def stored(trace: Trace, at: float, *rows: OffsetInfo) -> None:
    """A broker's answer with these offsets."""
    trace._fold(ConsumeStats(queues=rows, **trace._poll(START + round(1_000 * at))))


@pytest.mark.parametrize("last_call", [1, 10])
def test_what_polls_prove_a_hook_that_shows_no_call_does_not_disprove(last_call):
    trace = acking(last_call)
    for at in range(20, 200, 10):
        stored(trace, at, OffsetInfo(mq=mq(0, RETRY), broker_offset=at, consumer_offset=at))
    assert [one.severity for one in rows(trace, MINE)] == ["warning"]


def test_one_that_acknowledges_nothing_is_said_by_hook_and_polls():
    """Each broker's answer shows how far the queue was popped; no ack has ever shown that it is one."""
    trace = PopTrace().boots(0)
    for at in range(120):
        trace.pops(at + 0.1, PROXY, invisible=20)
        if at % 10 == 5:
            stored(trace, at + 0.5, OffsetInfo(mq=mq(0), broker_offset=3 * at, consumer_offset=3 * at))
    [opened] = rows(trace, MINE)
    assert (opened.sub_cause, opened.severity) == ("EXPIRED", "warning")
    assert 40 <= (opened.time - START) / 1_000 <= 60
    [row] = [one for one in trace.state.pops.queues.queues.values() if one.answered_to > 0]
    assert popped.in_flight(row, trace.now) == 60, "what was popped within the last 20 s, by two answers"


def test_a_hook_that_is_silent_may_hide_acknowledgements():
    trace = acking(31)
    trace.falls_silent(31, "c/hook-broker-a-0")
    for at in range(40, 160, 10):
        stored(trace, at, OffsetInfo(mq=mq(0), broker_offset=at, consumer_offset=at))
    assert trace.incidents(MINE) == []


def test_acknowledged_messages_that_an_answer_shows_first_are_a_near_miss():
    trace = PopTrace().boots(0)
    for at in range(120):
        trace.pops(at + 0.1, PROXY, invisible=20)
        if at % 10 == 5:
            stored(trace, at + 0.2, OffsetInfo(mq=mq(0), broker_offset=at + 1, consumer_offset=at + 1))
        trace.acks(at + 0.5, PROXY, at, popped=at + 0.1, invisible_ms=20_000)
    assert trace.incidents(MINE) == []


def test_after_a_minute_without_any_telemetry_nothing_has_come_back():
    trace = acking(31, (20, 21, 22)).stands(32, 92).acks(93, PROXY, 90, popped=92.5).passes(150)
    assert trace.incidents(MINE) == []


def test_acknowledgements_of_a_topic_of_which_no_pop_was_seen_count():
    """The hook, or the job, started between a POP and the acknowledgements."""
    trace = PopTrace().boots(0)
    for at, offset in ((1, 0), (2, 2)):
        trace.acks(at, PROXY, offset, popped=at - 0.5, invisible_ms=20_000)
    assert distinct_transitions(trace.passes(60), MINE)[0] == (26.501, "OPENED", EXPIRED)


def test_what_no_expression_matches_is_popped_and_never_acknowledged():
    """One topic of two is popped with an expression from 31 s on: only the other's message has come back."""
    trace = acking(31, (20, 21, 22))
    for at in (1, 2, 4):
        trace.acks(31 + at / 10, PROXY, at, popped=31, invisible_ms=20_000, topic="Other")
    trace.pops(31.5, PROXY, invisible=20, filtered=True).passes(100)
    assert [one["expired"] for one in evidence(trace, MINE)][:1] == [1]


def test_a_queue_that_nobody_pops_for_an_hour_is_forgotten_with_its_topic():
    trace = acking(10)
    for at in range(10, 3_700, 30):
        trace.heart_beat(at, "a")
    assert (trace.state.pops.queues.queues, trace.state.pops.queues.topics) == ({}, {})


def test_no_more_queues_and_topics_are_kept_of_a_group_than_its_bounds(monkeypatch):
    monkeypatch.setattr(popped_queues, "QUEUES_MAX", 1)
    monkeypatch.setattr(popped_queues, "TOPICS_MAX", 1)
    trace = acking(10)
    for offset in (0, 2):
        trace.pops(10, PROXY, topic="Other").acks(11, PROXY, offset, popped=10, topic="Other")
    kept = trace.state.pops.queues
    assert (kept.queues.keys(), kept.topics.keys()) == ({mq(0)}, {("broker-a", TOPIC)})
    assert trace.passes(120).incidents(MINE) == []
