"""The sentences about an incident in the current language: what it means, and what to do first.

A row has them in English, as its release wrote them. Where the catalogue lacks one, because another release
wrote it, this release's advice for the same code and cause is shown instead.
"""

from rebalance_model.observe.rules.registry import advice_for, title_of
from streaming.base.language import ENGLISH, gettext, in_language
from streaming.queries.results import Incident


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
