"""Facts of a group are found once a step: at its end they are what they would be if they were found then."""

import pytest

from rebalance_model.observe import group_observer
from rebalance_model.observe.facts.group_facts import GroupFacts
from rebalance_model.observe.step import GroupStep
from tests.core.observe.test_concerns import fold
from tests.detection.generator import scenario_of
from tests.support.field import SOURCES, events_of
from tests.support.simulated import simulate

pytestmark = pytest.mark.replaces


@pytest.fixture
def outdated(monkeypatch):
    """Return the facts that were outdated at the end of a step, with how many were found."""
    wrong, counts = [], {"found": 0}
    judge = group_observer.judge

    def checked(step: GroupStep):
        judged = judge(step)
        facts_then, step._facts = step.facts, None
        for name in (*GroupFacts.__struct_fields__, *vars(facts_then)):
            counts["found"] += 1
            then, now = getattr(facts_then, name), getattr(step.facts, name)
            if then != now:
                wrong.append(f"{name} at {step.now}: {then}, not {now}")
        return judged

    monkeypatch.setattr(group_observer, "judge", checked)
    yield wrong
    assert counts["found"] > 0


@pytest.mark.parametrize("seed", [8, 44, 83, 284])
def test_no_fact_of_a_simulated_group_is_outdated(outdated, seed):
    fold(simulate(scenario_of(seed), seed).events)
    assert outdated == []


@pytest.mark.parametrize("case", ["19-broadcast-illegal", "21-same-id", "24-pull-client-in-push-group"])
def test_no_fact_of_a_reported_group_is_outdated(outdated, case):
    for source in SOURCES:
        fold(events_of(case, source))
    assert outdated == []
