"""Sentences about rules and incidents in the current language: meaning, first step, evidence.

A row has its sentences in English, as its release wrote them. Where the catalogue lacks one, because another release
wrote it, this release's advice for the same code and cause is shown instead.
"""

import importlib

from pydantic import Field

from rebalance_model.observe.rules import rule as rule_module
from rebalance_model.observe.rules.registry import RULES, advice_for, title_of
from streaming.base.errors import NotFoundError
from streaming.base.language import ENGLISH, gettext, in_language, marked
from streaming.base.nearest import did_you_mean
from streaming.queries.results import Incident, QueryResult


def headline(incident: Incident) -> str:
    """Return what is wrong and why, in a few words: ``Orders:3 is stuck: the listener refuses one message``.

    One that stands for others of several queues names their number. An incident of a release that has another rule is
    called by its code.
    """
    title, advice = title_of(incident.code), advice_for(incident.code, incident.sub_cause)
    if title is None:
        return incident.title
    queue = f"{incident.topic}:{incident.queue_id}" if incident.queue_id is not None else ""
    if queue and incident.alike:
        queue = gettext("{queue} (and {n} more)", queue=queue, n=f"{incident.alike:,}")
    group = incident.group or incident.cluster
    said = gettext(title, subject=queue or incident.subject or group, group=group)
    why = advice.short if advice is not None else ""
    return gettext("{title}: {reason}", title=said, reason=gettext(why)) if why else said


def with_headline(incident: Incident) -> Incident:
    """Return an incident with its headline in English, as its other texts."""
    with in_language(ENGLISH):
        return incident.model_copy(update={"headline": headline(incident)})


def explained(text: str, code: str, cause: str) -> str:
    """Return what an incident means.

    Args:
        text: the sentence in its row.
        code: its code.
        cause: the sub-cause that the sentence is about.
    """
    said, advice = gettext(text), advice_for(code, cause)
    return gettext(advice.what) if said == text and advice is not None and _differs(advice.what) else said


def advised(text: str, code: str, cause: str) -> str:
    """Return what to do first; the arguments are those of `explained`."""
    said, advice = gettext(text), advice_for(code, cause)
    return gettext(advice.first_step) if said == text and advice is not None and _differs(advice.first_step) else said


def first_step(incident: Incident) -> str:
    """Return what to do first about an incident."""
    return advised(incident.first_step, incident.code, incident.sub_cause)


def _differs(text: str) -> bool:
    """Return whether the current language has words of its own for a text."""
    return gettext(text) != text


ABOUT = (
    marked("queue"), marked("client"), marked("broker"), marked("rebalance"), marked("group"), marked("cluster"),
)  # fmt: skip
"""The kinds of subject of a rule."""


class SubCauseText(QueryResult):
    """The meaning of a sub-cause of an incident, and what to do first."""

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
