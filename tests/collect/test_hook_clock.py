"""The clock of the broker's host is wrong when the broker starts, and is set while calls come (libfaketime)."""

import time

import pytest

from rebalance_model.observe import events
from tests.support import hooked
from tests.support.faketime import FakeClock
from tests.support.hook_process import LATER, commit, of_kind, until

pytestmark = pytest.mark.xdist_group("hook jar")


@pytest.mark.parametrize("ahead", [3_600, *(pytest.param(one, marks=pytest.mark.prove) for one in (-3_600, 600, -600))])
def test_a_clock_that_is_set_is_followed_and_reported(new_jvm, tmp_path, ahead):
    clock = FakeClock(tmp_path / "clock", ahead)
    jvm, spool = new_jvm(**clock.environment), tmp_path / "spool"
    jvm.start(spool=str(spool))
    commit(jvm, 1)
    until(lambda: of_kind(hooked.spooled(spool), events.Tick))
    clock.set(0)
    until(lambda: of_kind(hooked.spooled(spool), events.ClockStep))
    commit(jvm, 2)
    hook_events = until(lambda: ticked_after_the_step(hooked.spooled(spool)))
    at = next(place for place, event in enumerate(hook_events) if isinstance(event, events.ClockStep))
    before, after, now = hook_events[:at], hook_events[at:], time.time_ns() // 1_000_000
    assert abs(hook_events[at].step + 1_000 * ahead) < 1_000
    assert [event.seq for event in hook_events if event.BROADCAST] == list(
        range(1, 1 + sum(e.BROADCAST for e in hook_events))
    )
    assert all(abs(event.time - 1_000 * ahead - now) < 1_000 * LATER for event in before)
    assert all(abs(event.time - now) < 1_000 * LATER for event in after)
    assert all([event.time for event in part] == sorted(event.time for event in part) for part in (before, after))
    assert [[event.offset for event in of_kind(part, events.UpdateConsumerOffset)] for part in (before, after)] == [
        [1],
        [2],
    ]


def ticked_after_the_step(hook_events):
    """Return the events once one of them is a tick after the second commit."""
    at = next(
        (place for place, event in enumerate(hook_events) if isinstance(event, events.ClockStep)), len(hook_events)
    )
    commits = of_kind(hook_events[at:], events.UpdateConsumerOffset)
    return hook_events if commits and of_kind(hook_events[hook_events.index(commits[0]) :], events.Tick) else None
