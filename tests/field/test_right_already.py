"""Reports that were judged right from the beginning: they stay so."""

import pytest

from tests.support.field import SOURCES, concluded


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", ["16-assign-all", "16b-assign-split", "16c-assign-split-subscribed"])
def test_manual_assignment_raises_no_critical(name, source):
    """Each reader has what it assigned itself: nothing is unassigned or owned twice."""
    found = concluded(name, source)
    assert [one.code for one in found.transitions() if one.severity == "critical"] == []


@pytest.mark.parametrize("name", ["28-clock-ahead", "28b-clock-behind", "28c-clock-step"])
def test_a_clients_clock_is_clock_skew_alone(name):
    found = concluded(name, "poll")
    assert {one.code for one in found.transitions()} == {"CLOCK_SKEW"}
