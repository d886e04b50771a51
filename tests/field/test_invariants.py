"""What must hold of every report, by every source: no rule flaps (issue 49, A4)."""

from collections import defaultdict

import pytest

from tests.support.field import CASES, SOURCES, concluded

QUICK = ("02-pulls-lost-after-network-loss", "03-pull-refused", "21-same-id")
"""Reports of which `make test` judges the invariants."""
OPENINGS_MAX, CAUSES_MAX = 2, 3


def restless(conclusions):
    """Return the codes and subjects that open, or change their cause, more often than a person can follow."""
    opened, causes = defaultdict(list), defaultdict(list)
    last = {}
    for transition in conclusions.transitions():
        key = (transition.code, transition.subject)
        if transition.transition == "OPENED":
            opened[key].append(conclusions.seconds(transition))
        elif transition.sub_cause != last.get(key):
            causes[key].append(conclusions.seconds(transition))
        last[key] = transition.sub_cause
    often = [key for key, at in opened.items() if in_window(at, 1_800) > OPENINGS_MAX]
    return sorted({*often, *(key for key, at in causes.items() if in_window(at, 3_600) > CAUSES_MAX)})


def in_window(times, length):
    """Return how many there are at most within any such number of seconds."""
    return max(sum(begin <= at < begin + length for at in times) for begin in times)


def cases(names):
    """Return reports with the sources that they have."""
    return [
        (name, source) for name in names for source in SOURCES if (CASES / name / f"input-{source}.jsonl.gz").exists()
    ]


@pytest.mark.parametrize(("name", "source"), cases(QUICK))
def test_no_rule_flaps(name, source):
    assert restless(concluded(name, source)) == []


@pytest.mark.prove
@pytest.mark.parametrize(("name", "source"), cases(sorted({one.name for one in CASES.iterdir()} - set(QUICK))))
def test_no_rule_flaps_in_any_report(name, source):
    assert restless(concluded(name, source)) == []
