"""Invariants of every report, by every source (issue 49).

No rule flaps: at most two openings of a code and subject in 30 minutes, three changes of its sub-cause in an hour. What
hook or polls show alone, both show together. No group is OK while a queue with messages has stood for ten minutes.
"""

from collections import defaultdict

import pytest

from rebalance_model.observe.events import ConsumeStats
from tests.support.field import CASES, SOURCES, concluded, events_of

QUICK = ("02-pulls-lost-after-network-loss", "03-pull-refused", "21-same-id")
"""Reports of which `make test` judges the invariants."""
OPENINGS_MAX, CAUSES_MAX = 2, 3
STANDS = 600_000
"""Milliseconds."""
NOT_WAITING = {
    "07-tag-never-matches-go": set(SOURCES),
    "08-tag-never-matches-java": set(SOURCES),
}
"""By report, the sources that may say OK: a filter leaves the messages out."""


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


def standing(events):
    """Return the queues that have messages by their brokers' answers, and whose commit has not advanced for long."""
    last, since = {}, {}
    for event in events:
        for row in (event.queues or ()) if isinstance(event, ConsumeStats) else ():
            before = last.get(row.mq)
            waits = row.broker_offset > row.consumer_offset
            if before is None or before.consumer_offset != row.consumer_offset or not waits:
                since[row.mq] = event.time
            last[row.mq] = row
    end = events[-1].time
    return {
        str(mq) for mq, row in last.items() if row.broker_offset > row.consumer_offset and end - since[mq] >= STANDS
    }


TRUTH_CHANGES = {"47-heartbeat-interval-ten-minutes": "poll"}
"""A report whose members leave and come back as often, by the brokers' lists, which show no heartbeats."""


def unknown_by_both(name):
    """Return the subjects with a warning by hook or polls alone that have none by both."""
    warned = {}
    for source in SOURCES:
        at_end = concluded(name, source).open_at_end() if has(name, source) else ()
        warned[source] = {one.subject for one in at_end if one.severity != "info"}
    return (warned["poll"] | warned["hook"]) - warned["both"]


def has(name, source):
    """Return whether the report has this kind of telemetry."""
    return (CASES / name / f"input-{source}.jsonl.gz").exists()


def check(name):
    """Check one report by each source."""
    conclusions = {source: concluded(name, source) for source in SOURCES if has(name, source)}
    judged = {source: one for source, one in conclusions.items() if TRUTH_CHANGES.get(name) != source}
    assert [(source, found) for source, one in judged.items() if (found := restless(one))] == []
    if has(name, "both"):
        assert unknown_by_both(name) == set()
    if has(name, "poll") and standing(events_of(name, "poll")):
        green = {source for source, one in conclusions.items() if one.group().health == "OK"}
        assert green <= NOT_WAITING.get(name, set())


@pytest.mark.parametrize("name", QUICK)
def test_the_invariants_hold(name):
    check(name)


@pytest.mark.prove
@pytest.mark.parametrize("name", sorted({one.name for one in CASES.iterdir()} - set(QUICK)))
def test_the_invariants_hold_of_every_report(name):
    check(name)
