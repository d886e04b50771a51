"""A spool that is shipped late: its numbers are complete, so that nothing of it is lost."""

import pytest

from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.events import HookEvent
from tests.support.field import events_of
from tests.support.folding import Fold
from tests.support.invariants import violations

CASES = ("16b-assign-split", "04-paused")
KEPT = 300_000
"""For so long the hook's events are kept before the first one is shipped; milliseconds."""
SPEED = 10
"""They are shipped so much faster than they were made."""


def shipped(name: str, *, without: int = -1) -> list[IncidentTransition]:
    """Return the incidents about telemetry of a case whose hook is shipped late; without one of its early events."""
    events = events_of(name, "both")
    start, calls, log = events[0].time, 0, []
    for event in events:
        at = event.time
        if event.source == "hook":
            calls += isinstance(event, HookEvent)
            if isinstance(event, HookEvent) and calls == without:
                continue
            at = max(at, start + KEPT + (at - start) // SPEED)
        log.append((at, event))
    fold, effects = Fold(), []
    for at, event in sorted(log, key=lambda one: one[0]):
        effects += fold.push(event, at)
    effects += fold.shard.finish()
    assert violations(effects) == []
    return [one for one in effects if isinstance(one, IncidentTransition) and one.code == "TELEMETRY_GAP"]


@pytest.mark.parametrize("name", CASES)
def test_a_backlog_that_is_complete_is_late_once_and_not_lost(name):
    gaps = shipped(name)
    assert "HOOK_LOST" not in {one.sub_cause for one in gaps}
    assert [one.sub_cause for one in gaps if one.transition == "OPENED"] == ["LATE"]
    assert [one.group for one in gaps if one.transition == "RESOLVED"] == [""]


def test_a_backlog_with_a_gap_is_lost_too():
    gaps = shipped(CASES[0], without=40)
    assert "HOOK_LOST" in {one.sub_cause for one in gaps}
