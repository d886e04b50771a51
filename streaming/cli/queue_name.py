"""Parse a queue as people type it."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import typer

_QUEUE = re.compile(r"(?:(?P<topic>[^@]+)@)?(?P<name>.+):(?P<queue_id>\d{1,9})", re.ASCII)
"""A queue as TOPIC@BROKER:QUEUE, as BROKER:QUEUE or as TOPIC:QUEUE."""
METAVAR = "[GROUP] [TOPIC] BROKER:QUEUE"
HELP = "Queue; TOPIC@BROKER:QUEUE is also accepted, and TOPIC:QUEUE if one broker has the topic."


class NamedQueue(NamedTuple):
    """A queue as it was typed."""

    group: str
    topic: str | None
    """None: ``name`` is the topic, and the broker is the one that has the queue."""
    name: str
    """The broker, or the topic."""
    queue_id: int


def parse_queue(names: Sequence[str] | None, group: str | None, topic: str | None, example: str) -> NamedQueue:
    """Return the queue that arguments and options name.

    Args:
        names: the arguments.
        group: the option of the group.
        topic: the option of the topic.
        example: a valid command, for the error message.

    Raises:
        BadParameter: group or queue is missing.
    """
    given = list(names or ())
    queue = _QUEUE.fullmatch(given.pop()) if given else None
    if queue is None:
        raise typer.BadParameter(f"Specify the queue last, as BROKER:QUEUE: {example}")
    wanted_topic = queue["topic"] or topic or (given.pop() if len(given) > (group is None) else None)
    wanted_group = group or (given.pop() if given else None)
    if wanted_group is None or given:
        raise typer.BadParameter(f"Specify group, topic and queue: {example}")
    return NamedQueue(wanted_group, wanted_topic, queue["name"], int(queue["queue_id"]))
