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


class QueueOfAnyGroup(NamedTuple):
    """A queue as it was typed, without a group."""

    topic: str
    broker: str | None
    """None: the one that has the queue."""
    queue_id: int


def parse_any_queue(
    names: Sequence[str] | None, group: str | None, topic: str | None, example: str
) -> NamedQueue | QueueOfAnyGroup:
    """Return the queue that arguments and options name, perhaps without a group.

    Args:
        names: the arguments.
        group: the option of the group.
        topic: the option of the topic.
        example: a valid command, for the error message.

    Raises:
        BadParameter: the queue is missing, or too much is given.
    """
    given = list(names or ())
    queue = _QUEUE.fullmatch(given.pop()) if given else None
    if queue is None:
        raise typer.BadParameter(f"Specify the queue last, as BROKER:QUEUE: {example}")
    if topic is not None and queue["topic"] not in {None, topic}:
        raise typer.BadParameter(f"Specify one topic: {queue['topic']} or {topic}.")
    named_topic, queue_id = queue["topic"] or topic, int(queue["queue_id"])
    if not given and group is None:
        if named_topic is not None:
            return QueueOfAnyGroup(named_topic, queue["name"], queue_id)
        return QueueOfAnyGroup(queue["name"], None, queue_id)
    wanted_topic = named_topic or (given.pop() if len(given) > (group is None) else None)
    wanted_group = group or given.pop()
    if given:
        raise typer.BadParameter(f"Specify group, topic and queue: {example}")
    return NamedQueue(wanted_group, wanted_topic, queue["name"], queue_id)
