"""STRATEGY_MISMATCH and MIXED_CONSUME_MODE: declarations that all members must share."""

from dataclasses import replace

import pytest

from tests.support.rounds import CIRCLE, FOUR, MINE, evidence, rounds
from tests.support.trace import SILENT, Trace, holding


@pytest.mark.parametrize(
    ("odd", "code", "expected"),
    [
        (
            replace(holding(3), strategy=CIRCLE),
            "STRATEGY_MISMATCH",
            f"AllocateMessageQueueAveragely by 2, {CIRCLE} by 1",
        ),
        (replace(holding(3), orderly=False), "MIXED_CONSUME_MODE", "ordered by 2, concurrent by 1"),  # issue 6164
    ],
)
def test_declarations_that_all_members_must_share(odd, code, expected):
    """c joins at 20 and declares it at 20 and at 30; it leaves at 60."""
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 60, {"a": holding(0, 1), "b": holding(2), "c": odd})
    rounds(trace, 60, 80, FOUR)
    assert trace.incidents(code) == [(30, "OPENED", code), (60, "RESOLVED", code)]
    assert evidence(trace, code) == {"declared": expected, "members": "c"}


def test_a_version_that_is_the_time_of_the_answer_is_no_other_declaration():
    """The client in .NET has a new version of its subscriptions in each answer."""
    odd = replace(holding(3), orderly=False, subscribes=("Orders",), versions_are_times=True)
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 60, {"a": holding(0, 1), "b": holding(2), "c": odd})
    assert trace.incidents("MIXED_CONSUME_MODE") == [(30, "OPENED", "MIXED_CONSUME_MODE")]


@pytest.mark.parametrize("odd", [replace(holding(3), strategy=CIRCLE), replace(holding(3), orderly=False)])
def test_a_difference_declared_once_is_a_near_miss(odd):
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.poll(20, {"a": holding(0, 1), "b": holding(2), "c": odd})
    rounds(trace, 30, 60, FOUR)
    assert trace.incidents(*MINE) == []


def test_a_member_that_has_never_answered_declares_nothing():
    trace = rounds(Trace(), 0, 40, {"a": holding(0, 1), "b": holding(2, 3), "c": SILENT})
    assert trace.incidents("STRATEGY_MISMATCH", "MIXED_CONSUME_MODE") == []
