"""The parameters that several tools share."""

import re
from typing import Annotated

from pydantic import Field

from rebalance_model.entities import MessageQueue
from streaming.base.errors import UserError
from streaming.base.times import instant_ms, now_ms
from streaming.queries.present import TIME_FORMS

ROWS = 100
"""The number of elements of a list that a tool answers unless it is asked for more."""

_QUEUE = re.compile(r"(?P<topic>[^@]+)@(?P<broker>.+):(?P<queue_id>\d{1,9})", re.ASCII)

At = Annotated[
    str | int | None, Field(description=f"Time of the state: {TIME_FORMS}. Default: now, or the last known state.")
]
Since = Annotated[
    str | int | None, Field(description=f"Start of the period: {TIME_FORMS}. Default: one hour before `until`.")
]
Until = Annotated[str | int | None, Field(description="End of the period, in the same forms. Default: now.")]
GroupName = Annotated[str, Field(description="Name of the consumer group.")]
Cluster = Annotated[
    str | None, Field(description="Name of the RocketMQ cluster. Needed only if the group's name occurs in several.")
]
Topic = Annotated[str | None, Field(description="Only queues of this topic. Default: all topics.")]
QueueName = Annotated[str, Field(description="Queue as TOPIC@BROKER:ID, such as Orders@broker-a:3.")]
Retry = Annotated[bool, Field(description="Whether to include the queues of the group's retry topic.")]
Limit = Annotated[int, Field(ge=1, le=10_000, description="Maximum number of elements; `left_out` counts the others.")]


def time_of(text: str | int | None) -> int | None:
    """Return a time as an instant, epoch milliseconds; None: now.

    Raises:
        UserError: it is not a time.
    """
    return None if text is None else instant_ms(str(text), now_ms())


def text_of(time: str | int | None) -> str | None:
    """Return a time as text; None if there is none."""
    return None if time is None else str(time)


def queue_of(name: str) -> MessageQueue:
    """Return the queue of this name.

    Raises:
        UserError: it is not a queue's name.
    """
    if (found := _QUEUE.fullmatch(name.strip())) is None:
        raise UserError(f"Invalid queue {name!r}. Use TOPIC@BROKER:ID, such as Orders@broker-a:3.")
    return MessageQueue(found["topic"], found["broker"], int(found["queue_id"]))
