"""DELAYED_STUCK: a broker no longer delivers delayed messages, and so no retries (apache/rocketmq#4226, #1869)."""

import pytest

from rebalance_model.observe.events import BrokerStatus, DelayLevel
from tests.support.incident_rows import distinct_transitions, evidence, rows
from tests.support.trace import START, Trace

MINE = "DELAYED_STUCK"
EVERY = 10


def reported(answers, trace: Trace | None = None, begin: int = 0) -> Trace:
    """The collector reports these delay levels of broker-a, in each round those of one answer; None: an old broker."""
    trace = trace or Trace()
    for number, levels in enumerate(answers):
        status(trace, begin + number * EVERY, levels)
    return trace


def status(trace: Trace, at: int, levels: dict[int, tuple[int, int]] | None = None, timer_behind: int = 0) -> None:
    trace.tick(at)
    parts = None
    if levels is not None:
        parts = tuple(DelayLevel(level=level, offset=one, newest=most) for level, (one, most) in levels.items())
    now = START + at * 1_000
    fields = {"boot_time": 1, "asked": now, "broker": "broker-a", "delay_levels": parts, "timer_behind": timer_behind}
    trace._observe(BrokerStatus(**fields, **trace._of_collector(now)))


def test_a_level_whose_first_message_is_overdue_for_five_minutes():
    """Level 3 is of 10 s: the message that waits at 0 s is due at 10 s at the latest."""
    trace = reported([{3: (169_171, 198_299 + n)} for n in range(40)])
    assert distinct_transitions(trace, MINE) == [(320, "OPENED", f"{MINE} DELAY_LEVEL")]
    opened = rows(trace, MINE)[0]
    assert (opened.severity, opened.sub_cause, opened.subject, opened.group) == (
        "critical",
        "DELAY_LEVEL",
        "broker-a",
        "",
    )
    assert evidence(trace, MINE)[0] == {
        "limit_ms": 300_000,
        "level": 3,
        "delay_ms": 10_000,
        "commit_offset": 169_171,
        "broker_offset": 198_331,
        "messages": 29_160,
        "overdue_ms": 310_000,
    }


@pytest.mark.parametrize(
    "answers",
    [
        [{3: (n, n + 5)} for n in range(60)],  # it delivers one in each round
        [{17: (7, 9)}] * 200,  # of an hour: the message may have been sent just before
        [{}] * 60,
        [None] * 60,
        [{40: (7, 9)}] * 60,  # a level of the broker's own, whose delay is unknown
        [{3: (7, 9 + n)} for n in range(31)],  # overdue for less than five minutes
    ],
)
def test_what_is_a_near_miss(answers):
    assert reported(answers).incidents(MINE) == []


@pytest.mark.parametrize("answer", [{3: (8, 60)}, {}])
def test_it_is_over_when_a_message_is_delivered(answer):
    trace = reported([*[{3: (7, 60)}] * 40, answer])
    assert distinct_transitions(trace, MINE)[-1] == (400, "RESOLVED", f"{MINE} DELAY_LEVEL")


def test_it_is_unknown_while_the_broker_is_not_asked():
    trace = reported([{3: (7, 60)}] * 40)
    trace.is_back(400, "c/poll-1").falls_silent(500, "c/poll-1")
    assert [one.transition for one in rows(trace, MINE)] == ["OPENED"]


def test_answers_far_apart_prove_nothing():
    trace = reported([{3: (7, 60)}])
    status(trace, 600, {3: (7, 60)})
    assert trace.incidents(MINE) == []


def test_a_timer_wheel_that_stands():
    trace = Trace()
    for number in range(40):
        status(trace, number * EVERY, {}, timer_behind=number * EVERY * 1_000)
    assert distinct_transitions(trace, MINE) == [(310, "OPENED", f"{MINE} TIMER")]
    assert rows(trace, MINE)[0].sub_cause == "TIMER"
    status(trace, 400, {})
    assert distinct_transitions(trace, MINE)[-1] == (400, "RESOLVED", f"{MINE} TIMER")
