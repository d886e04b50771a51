"""Build the commands to run next about an incident, filled in from its row and evidence.

The only place that builds them: pages, REST, command line and alerts show the same.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rebalance_model.observe.rules.registry import advice_for
from rebalance_model.observe.rules.rule import Inspection
from streaming.base.language import gettext, marked
from streaming.base.terminal import command_line
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
