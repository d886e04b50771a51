"""What a rule says of itself: what its incidents mean, what to do first, and what their evidence is."""

import importlib

from pydantic import Field

from rebalance_model.observe.rules import rule as rule_module
from rebalance_model.observe.rules.registry import RULES
from streaming.base.errors import NotFoundError
from streaming.base.language import gettext, marked
from streaming.base.nearest import did_you_mean
from streaming.queries.results import QueryResult

ABOUT = (
    marked("queue"), marked("client"), marked("broker"), marked("rebalance"), marked("group"), marked("cluster"),
)  # fmt: skip
"""The kinds of subject of a rule."""


class SubCauseText(QueryResult):
    """What a sub-cause of an incident means, and what to do first."""

    sub_cause: str = Field(description="Empty: none.")
    what: str
    first_step: str


class RuleText(QueryResult):
    """A rule: the incidents of one code."""

    code: str
    about: tuple[str, ...] = Field(description="The kinds of subject: queue, client, broker, group, …")
    summary: str
    needs: tuple[str, ...] = Field(description="The telemetry without which the rule is suspended: then unknown.")
    explained_by: tuple[str, ...] = Field(description="Codes of the incidents whose child it is while one is open.")
    sub_causes: tuple[SubCauseText, ...]
    evidence: dict[str, str] = Field(
        description="Unit of each field of the evidence: ms, epoch_ms, messages, per_hour, offset, count, flag or text."
        " A name that ends in * is a prefix."
    )


def rule_codes() -> list[str]:
    """Return the codes of all rules, in alphabetical order."""
    return sorted({rule.code for rule in RULES})


def rule_text(code: str) -> RuleText:
    """Return what a rule says of itself.

    Raises:
        NotFoundError: there is no such code.
    """
    rules = [rule for rule in RULES if rule.code == code.upper()]
    if not rules:
        names = did_you_mean(code.upper(), rule_codes()) or gettext("the README of the rules lists all.")
        raise NotFoundError(gettext("Unknown code {code}: {advice}", code=code, advice=names))
    by_sub_cause = {sub: rule.advise(sub) for rule in rules for sub in rule.sub_causes}
    return RuleText(
        code=rules[0].code,
        about=tuple(dict.fromkeys(rule.about for rule in rules)),
        summary=rule_summary(rules[0].code),
        needs=tuple(rules[0].needs),
        explained_by=tuple(rules[0].absorbed_by),
        sub_causes=tuple(
            SubCauseText(sub_cause=sub, what=advice.what, first_step=advice.first_step)
            for sub, advice in by_sub_cause.items()
        ),
        evidence={name: unit for rule in rules for name, unit in rule.units.items()},
    )


def rule_summary(code: str) -> str:
    """Return the first sentence of a rule's file."""
    module = importlib.import_module(f"{rule_module.__package__}.{code.lower()}")
    paragraph = " ".join((module.__doc__ or "").split("\n\n")[0].split())
    text = paragraph.partition(": ")[2]
    return text[:1].upper() + text[1:]
