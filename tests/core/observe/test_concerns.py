"""A rule that is left out would have found nothing: the property on which `rules.concerns` rests."""

import dataclasses

import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.rules import concerns
from rebalance_model.observe.rules.registry import CLIENT_RULES, QUEUE_RULES, check
from rebalance_model.observe.rules.rule import Holds
from rebalance_model.observe.step import GroupStep
from tests.detection.generator import scenario_of
from tests.support import field
from tests.support.field import CASES, SOURCES
from tests.support.simulated import simulate

SEEDS = (2, 5, 8, 10)
"""With the reports of the short form these find every pair of rule and flag that all seeds and reports find."""
MORE_SEEDS = sorted({*range(12)} - {*SEEDS})
REPORTS = {
    "03-pull-refused", "04-paused", "05c-topic-recreated-connector", "12-thread-pool", "19-broadcast-illegal",
    "21-same-id", "28-clock-ahead", "28c-clock-step",
}  # fmt: skip
"""Of the short form."""


def report(name: str) -> object:
    return pytest.param(name, marks=() if name in REPORTS else pytest.mark.prove)


@pytest.fixture
def missed(monkeypatch):
    """Return what a rule that was left out would have found, with how often one was left out."""
    left_out, of_queue, of_client = [], concerns.of_queue, concerns.of_client
    counts = {"left out": 0}

    def watch(step: GroupStep, rules, subject, flags: int) -> int:
        due = step.state.next_check
        for rule in rules:
            if not rule.concerns & flags:
                counts["left out"] += 1
                if isinstance(rule.judge(step, subject), Holds) or step.state.next_check != due:
                    left_out.append(f"{rule.code} {subject}")
                    step.state.next_check = due
        return flags

    def queue(step: GroupStep, mq: MessageQueue, *args, of_offsets: bool) -> int:
        flags = of_queue(step, mq, *args, of_offsets=of_offsets)
        return watch(step, QUEUE_RULES, QueueFacts.of(step.facts, mq), flags)

    def client(step: GroupStep, client_id: str) -> int:
        return watch(step, CLIENT_RULES, client_id, of_client(step, client_id))

    monkeypatch.setattr(concerns, "of_queue", queue)
    monkeypatch.setattr(concerns, "of_client", client)
    yield left_out
    assert counts["left out"] > 0


def fold(events, *, telemetry: str = "both") -> None:
    shard, now = Shard(None, GroupsInMemory(), Policy()), 0
    for event in events:
        now = max(now, event.time)
        if telemetry == "both" or event.source_id.startswith(telemetry):
            shard.push(event, now)
    shard.finish()


@pytest.mark.replaces
@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.prove) for seed in MORE_SEEDS)])
def test_a_rule_left_out_of_a_simulation_finds_nothing(missed, seed):
    events = simulate(scenario_of(seed), seed).events
    for telemetry in SOURCES:
        fold(events, telemetry=telemetry)
    assert missed == []


@pytest.mark.replaces
@pytest.mark.parametrize("case", [report(path.name) for path in sorted(CASES.iterdir())])
def test_a_rule_left_out_of_a_report_finds_nothing(missed, case):
    for source in SOURCES:
        if (CASES / case / f"input-{source}.jsonl.gz").exists():
            fold(field.events_of(case, source))
    assert missed == []


@pytest.mark.parametrize("rule", [*QUEUE_RULES, *CLIENT_RULES], ids=lambda rule: rule.code)
def test_a_rule_about_queues_or_clients_without_a_concern_is_refused(rule):
    with pytest.raises(ValueError, match=f"{rule.code}: concerns must name"):
        check([dataclasses.replace(rule, concerns=0, absorbed_by=())])
