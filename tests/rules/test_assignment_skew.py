"""ASSIGNMENT_SKEW: one member with far more queues than the mean."""

from dataclasses import replace

import pytest

from tests.support.rounds import HASH, MINE, OWN, evidence, rounds
from tests.support.trace import SILENT, Member, Trace, holding


def skewed(most: int) -> dict[str, Member]:
    """a has ``most`` of the queues, b and c one each and d none."""
    return {"a": holding(*range(most)), "b": holding(most), "c": holding(most + 1), "d": holding()}


def test_issue_1333_one_member_with_more_than_twice_the_mean():
    """6 of 8 queues, the mean is 2: for example by an uneven hash ring."""
    trace = Trace(route=8)
    rounds(trace, 0, 100, {c: replace(m, strategy=HASH) for c, m in skewed(6).items()})
    even = {c: replace(holding(2 * n, 2 * n + 1), strategy=HASH) for n, c in enumerate("abcd")}
    rounds(trace, 100, 120, even)
    assert trace.incidents(*MINE) == [(60, "OPENED", "ASSIGNMENT_SKEW"), (100, "RESOLVED", "ASSIGNMENT_SKEW")]
    assert evidence(trace, "ASSIGNMENT_SKEW")["client"] == "a"


@pytest.mark.parametrize(
    ("queues", "members"),
    [
        (5, skewed(3)),  # the mean is 1.25: more than twice it, and not more than two above it
        (8, {"a": holding(*range(7)), "b": holding(7)}),  # the mean is 4: three above it, and not twice it
    ],
)
def test_far_from_the_mean_in_one_way_only_is_a_near_miss(queues, members):
    trace = rounds(Trace(route=queues), 0, 120, {c: replace(m, strategy=OWN) for c, m in members.items()})
    assert trace.incidents(*MINE) == []


def test_the_share_of_a_client_id_that_two_processes_have_is_that_of_both():
    """Consistent hashing deals out to ids that it is given twice."""
    trace = Trace(route=8, listed_twice="a")
    rounds(trace, 0, 120, {c: replace(m, strategy=HASH) for c, m in skewed(6).items()})
    assert trace.incidents("ASSIGNMENT_SKEW") == []


def test_the_queues_of_a_silent_member_are_unknown():
    members = {c: replace(m, strategy=HASH) for c, m in skewed(6).items()} | {"d": SILENT}
    trace = rounds(Trace(route=8), 0, 120, members)
    assert trace.incidents("ASSIGNMENT_SKEW") == []
