"""Evidence of an incident in words, and the commands to run about it.

Build the commands to run next about an incident, filled in from its row and evidence.

The only place that builds them: pages, REST, command line and alerts show the same.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rebalance_model.observe.rules.registry import RULES, advice_for, unit_of
from rebalance_model.observe.rules.rule import Inspection
from streaming.base.language import gettext, marked, recognized
from streaming.base.terminal import command_line
from streaming.queries.labels import NOT_KNOWN, duration, moment, yes_no
from streaming.queries.results import Incident, SuggestedCommand


def commands_of(incident: Incident) -> tuple[SuggestedCommand, ...]:
    """Return the commands about an incident by its cause."""
    return commands_from(incident.model_dump())


def commands_from(row: Mapping[str, Any]) -> tuple[SuggestedCommand, ...]:
    """Return the commands about an incident or one of its transitions.

    Args:
        row: code, sub_cause, group, client_id, topic, broker, queue_id, and evidence with its fields.

    Returns:
        The commands in the order in which to run them; one whose arguments are unknown is omitted.
    """
    advice = advice_for(row["code"], row["sub_cause"])
    return tuple(_commands(row, advice.inspect)) if advice is not None else ()


def _commands(row: Mapping[str, Any], inspections: tuple[Inspection, ...]) -> Iterator[SuggestedCommand]:
    for inspection in inspections:
        built = _BUILD[inspection](row)
        if built is not None:
            purpose, *words = built
            yield SuggestedCommand(purpose=gettext(purpose), text=command_line("mqadmin", *words))


def _threads(row: Mapping[str, Any]) -> tuple[str, ...] | None:
    client = row["client_id"] or row["evidence"].get("owner")
    if not (client and row["group"]):
        return None
    return marked("State and threads of the client"), "consumerStatus", "-g", row["group"], "-i", client, "-s"


def _message(row: Mapping[str, Any]) -> tuple[str, ...] | None:
    offset = row["evidence"].get("commit_offset")
    if row["queue_id"] is None or not isinstance(offset, int) or offset < 0:
        return None
    place = ("-b", row["broker"], "-t", row["topic"], "-i", str(row["queue_id"]), "-o", str(offset))
    return marked("The next message to be consumed"), "queryMsgByOffset", *place


def _dead_letter(row: Mapping[str, Any]) -> tuple[str, ...] | None:
    evidence = row["evidence"]
    broker, offset = evidence.get("broker"), evidence.get("first_offset")
    if not isinstance(broker, str) or not isinstance(offset, int):
        return None
    place = ("-b", broker, "-t", str(evidence["topic"]), "-i", "0", "-o", str(offset))
    return marked("The first dead letter that was added there"), "queryMsgByOffset", *place


def _members(row: Mapping[str, Any]) -> tuple[str, ...] | None:
    return (marked("Clients with address, version and subscriptions"), "consumerConnection", "-g", row["group"])


def _compare(row: Mapping[str, Any]) -> tuple[str, ...] | None:
    return marked("States of all clients, compared"), "consumerStatus", "-g", row["group"]


def _progress(row: Mapping[str, Any]) -> tuple[str, ...] | None:
    topic = row["topic"] or row["evidence"].get("topic")  # it fails without one if the group has no retry topic
    of_topic = ("-t", topic) if isinstance(topic, str) and topic else ()
    return marked("Offsets and lag by queue"), "consumerProgress", "-g", row["group"], *of_topic


def _brokers(_: Mapping[str, Any]) -> tuple[str, ...] | None:
    return marked("Registered brokers"), "clusterList"


def _routes(row: Mapping[str, Any]) -> tuple[str, ...] | None:
    topic = row["evidence"].get("topic")
    if not isinstance(topic, str):
        return None
    return marked("The topic's route; run it with -n and each name server"), "topicRoute", "-t", topic


_BUILD = {
    "THREADS": _threads,
    "MESSAGE": _message,
    "MEMBERS": _members,
    "COMPARE": _compare,
    "PROGRESS": _progress,
    "BROKERS": _brokers,
    "DEAD_LETTERS": _dead_letter,
    "ROUTES": _routes,
}
"""Returns the purpose, the subcommand of mqadmin and its arguments; None if an argument is unknown."""


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
