"""Format the evidence of an incident in the current language, each field by the unit that its rule declares."""

from collections.abc import Callable, Iterator, Mapping

from rebalance_model.observe.rules.registry import RULES, unit_of
from streaming.base.language import recognized
from streaming.queries.labels import NOT_KNOWN, duration, moment, yes_no

_LABELS = {
    "asking_ms": "asked for the lock for",
    "changed_ms": "changed before",
    "count": "connections",
    "first_queues": "some of these queues",
    "full_ms": "full for",
    "growing_ms": "growing for",
    "held_ms": "held for",
    "hook_silent": "hook silent",
    "lag_then": "lag when it lost its owner",
    "limit": "limit of the rule",
    "limit_ms": "limit of the rule",
    "mixed_ms": "mixed for",
    "not_acking_ms": "nothing acknowledged for",
    "refused_ms": "refused for",
    "rising_ms": "rising for",
    "settled_ms": "members unchanged for",
    "silent": "client silent",
    "silent_ms": "no answer for",
    "stalled_ms": "no commit for",
    "unanswered": "requests without an answer",
    "unowned_ms": "without an owner for",
    "window_ms": "observed for",
    "without_advance_ms": "without a commit for",
    "without_members_ms": "without members for",
}
"""The labels of fields whose names do not say what they are of."""


def evidence_items(code: str, evidence: Mapping[str, object], now: int) -> list[tuple[str, str]]:
    """Return the known fields as pairs of label and formatted value.

    Args:
        code: the code of the incident.
        evidence: the evidence of one of its transitions, as in its row.
        now: epoch milliseconds; a time on another day is shown with its date.
    """
    return [
        (label(code, name), formatted(code, name, value, now))
        for name, value in evidence.items()
        if value is not None and value != ""
    ]


def label(code: str, name: str) -> str:
    """Return the label of a field in the current language: its name without the unit, which the value has."""
    return recognized(english_label(code, name), _NAMED)


def english_label(code: str, name: str) -> str:
    """Return the label of a field in English."""
    plain = name.replace("_ms", "") if unit_of(code, name) == "ms" else name
    return _LABELS.get(name, plain.replace("_", " "))


def english_labels() -> Iterator[str]:
    """Yield the labels of all fields in English; one with ``{name}`` is of fields whose names end with that."""
    for rule in RULES:
        for name in rule.units:
            stem = name.removesuffix("*")
            if stem:
                yield english_label(rule.code, stem) + ("{name}" if stem != name else "")


_NAMED = tuple(sorted({text for text in english_labels() if text.endswith("{name}")}))


def formatted(
    code: str,
    name: str,
    value: object,
    now: int,
    *,
    number: Callable[[int], str] = str,
    time: Callable[[int, int], str] = moment,
) -> str:
    """Format the value of a field.

    Args:
        code: the code of the incident.
        name: the name of the field.
        value: its value; None, an empty text and the instant 0 are unknown and give `NOT_KNOWN`.
        now: epoch milliseconds; a time on another day is shown with its date.
        number: formats a number that is neither a duration nor an instant.
        time: formats an instant, with its date if it is not on the same day as the second one.
    """
    if value is None or value == "":
        return NOT_KNOWN
    if isinstance(value, bool):
        return yes_no(value)
    if not isinstance(value, int):
        return str(value)
    unit = unit_of(code, name)
    if unit == "ms":
        return f"-{duration(-value)}" if value < 0 else duration(value)
    if unit == "epoch_ms":
        return time(value, now) if value else NOT_KNOWN
    return number(value)
