"""Rules and snapshots read facts (`observe.facts`): none asks whether there is a hook or a collector.

What one source proves would be lost to a rule that asks so where another source exists, and does not know it.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.docs.source import ROOT

OBSERVE = ROOT / "rebalance_model/observe"
ABOUT_SOURCES = {"broker_unreachable.py", "coverage.py", "telemetry_gap.py"}
"""Modules whose subject is a source: what reports a group, and what no longer does."""


def questions(tree: ast.AST) -> Iterator[str]:
    """Yield the places that ask for a source, each with its line."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.Attribute(attr="hook" | "hook_view" | "hook_source" | "live_hook" | "hook_of" | "is_polled")
                | ast.Attribute(value=ast.Name(id="state") | ast.Attribute(attr="state"), attr="pops")
                | ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[ast.Attribute(attr="hooks")])
                | ast.Compare(left=ast.Constant("POLLS" | "HOOKS"), comparators=[ast.Attribute(attr="missing")])
                | ast.Call(func=ast.Attribute(value=ast.Attribute(attr="hooks"), attr="get"))
            ):
                yield f"{node.lineno} {ast.unparse(node)}"


def test_no_rule_asks_whether_there_is_a_source():
    files = [OBSERVE / "snapshots.py", *(OBSERVE / "rules").glob("*.py")]
    asked = {file.name: list(questions(ast.parse(file.read_text("utf-8")))) for file in files}
    assert {name: places for name, places in asked.items() if places and name not in ABOUT_SOURCES} == {}
    assert all(asked[name] for name in ABOUT_SOURCES)


@pytest.mark.parametrize(
    "source",
    [
        "q.hook is None",
        "queue.hook_view.refusals",
        "step.state.is_polled and f()",
        "hook = step.hook_of(broker)",
        "step.state.pops is not None",
        "state.pops.poppers",
        "broker in step.facts.hooks",
        "step.facts.hooks.get(broker)",
        "'POLLS' in step.facts.missing",
    ],
)
def test_a_question_is_found(source):
    assert list(questions(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "q.calls is None",
        "q.watched_since <= step.now",
        "step.facts.pops.poppers",
        "for broker, calls in step.facts.hooks.items(): f()",
        "'OFFSETS' in step.facts.missing",
    ],
)
def test_a_fact_passes(source):
    assert not list(questions(ast.parse(source)))
