"""The registry of rules: what it refuses, and what is derived from it."""

import pkgutil
from dataclasses import replace
from pathlib import Path

import pytest

from rebalance_model.observe import rules
from rebalance_model.observe.rules import lifecycle, registry
from rebalance_model.observe.rules.lock_contended import RULE
from rebalance_model.observe.rules.registry import RULES, advice_for, check, codes_needing, title_of, unit_of
from rebalance_model.observe.rules.rule import Advice, GroupRule, Rule

STORM = next(rule for rule in RULES if rule.code == "REBALANCE_STORM")
UNADVISED = {"REFUSED": RULE.advice["REFUSED"]}
WRONG = {
    "LOCK_CONTENDED: two rules about a queue have this code": [RULE, RULE],
    "LOCK_CONTENDED: rules of one code must declare the same needs": [
        RULE,
        GroupRule("LOCK_CONTENDED", STORM.judge, STORM.evidence, STORM.units, STORM.advice),
    ],
    "LOCK_CONTENDED: its rules declare different units for the evidence field holder": [
        RULE,
        GroupRule("LOCK_CONTENDED", STORM.judge, STORM.evidence, {"holder": "count"}, {}, needs=("HOOKS",)),
    ],
    "LOCK_CONTENDED: absorbed_by names REBALANCE_STORM, which is no rule": [RULE],
    "LOCK_CONTENDED: sub-cause 'ALTERNATING' must be both in sub_causes and in advice": [
        replace(RULE, advice=UNADVISED, absorbed_by=()),
    ],
    "LOCK_CONTENDED: sub-cause '' must be both in sub_causes and in advice": [
        replace(RULE, sub_causes=(), advice={}, absorbed_by=())
    ],
    "LOCK_CONTENDED: the advice for sub-cause 'REFUSED' is empty": [
        replace(RULE, advice={**RULE.advice, "REFUSED": Advice("", "")}, absorbed_by=())
    ],
    "LOCK_CONTENDED: units declares no evidence field": [replace(RULE, units={}, absorbed_by=())],
    "LOCK_CONTENDED: evidence field asking_ms is declared as count, but its name implies ms": [
        replace(RULE, units={"asking_ms": "count"}, absorbed_by=())
    ],
}


@pytest.mark.parametrize("error", WRONG)
def test_inconsistent_rules_are_refused(error):
    with pytest.raises(ValueError, match=f"^{error}$"):
        check(WRONG[error])


def test_every_rule_of_the_folder_is_registered():
    modules = (module.name for module in pkgutil.iter_modules(rules.__path__, f"{rules.__name__}."))
    rules_of_folder = [
        value
        for module in modules
        for value in vars(__import__(module, fromlist=["RULE"])).values()
        if isinstance(value, Rule)
    ]
    assert {id(rule) for rule in rules_of_folder} == {id(rule) for rule in RULES}
    assert len(RULES) == sum(len(kind) for kind in _kinds())


def _kinds():
    return (
        registry.QUEUE_RULES,
        registry.CLIENT_RULES,
        registry.BROKER_RULES,
        registry.REBALANCE_RULES,
        registry.GROUP_RULES,
        registry.CLUSTER_RULES,
    )


def test_a_sub_cause_without_advice_is_an_error():
    with pytest.raises(LookupError, match="LOCK_CONTENDED has no advice for the sub-cause 'OTHER'"):
        RULE.advise("OTHER")


def test_a_cause_of_every_queue_incident_is_a_rule():
    assert registry.CODES.issuperset(lifecycle._SOURCES)


def test_rules_are_selected_by_the_telemetry_that_they_need():
    assert codes_needing() == frozenset()
    assert codes_needing("COMMITS") == {"MESSAGES_RETRIED", "OFFSET_REGRESSION", "POP_RETURNED"}
    assert codes_needing("PULLS", "LISTS") == {"PULL_REFUSED", "QUEUE_STALLED", "CID_VIEW_SPLIT"}


@pytest.mark.parametrize(
    ("code", "field", "unit"),
    [
        ("LOCK_CONTENDED", "asked_by", "text"),
        ("LOCK_CONTENDED", "clear_since", "epoch_ms"),
        ("TELEMETRY_GAP", "lost_from", "epoch_ms"),
        ("TELEMETRY_GAP", "limit_ms", "ms"),
        ("REBALANCE_STORM", "CLIENT_LEFT a", "count"),
        ("CID_VIEW_SPLIT", "members of broker-a", "count"),
        ("A_FORMER_RULE", "held_ms", "ms"),
        ("LOCK_CONTENDED", "former", None),
    ],
)
def test_a_field_of_the_evidence_has_a_unit(code, field, unit):
    assert unit_of(code, field) == unit


def test_the_readme_names_every_rule():
    table = (Path(__file__).parents[2] / "README.md").read_text().partition("## What it finds")[2].partition("\n## ")[0]
    assert [code for code in registry.CODES if f"`{code}`" not in table] == []


def test_the_advice_for_an_incident_is_that_of_its_code_and_sub_cause():
    assert advice_for("LOCK_CONTENDED", "REFUSED") == RULE.advice["REFUSED"]
    assert advice_for("LOCK_CONTENDED", "OTHER") is advice_for("OTHER", "") is None


def test_the_title_of_an_incident_is_that_of_its_code():
    assert (title_of("LOCK_CONTENDED"), title_of("OTHER")) == (RULE.title, None)
