"""Lag over time, and messages in retry and dead-letter topics."""

from pydantic import Field

from streaming.queries.results.base import Instant, QueryResult


class FailedMessages(QueryResult):
    """The messages of a group's retry topic or dead-letter topic at a broker, as last answered by an instant."""

    topic: str
    broker: str
    given_up: bool = Field(
        title="State",
        description="Whether these are dead letters: they have used up their attempts, and no consumer gets them.",
    )
    messages: int | None = Field(
        description="Retry topic: messages that wait to be consumed again, without those whose delay is not over."
        " Dead-letter topic: messages that it still stores."
    )
    added: int | None = Field(
        description="Messages that were added within the last hour, or since the broker was first asked; null if the"
        " topic was deleted meanwhile."
    )
    added_ms: int = Field(description="The time over which they were counted, in milliseconds.")
    newest_at: Instant | None = Field(
        title="Newest", description="When the newest dead letter was stored, by the broker's clock."
    )
    time: Instant = Field(description="Time of the observation.")
    age_ms: int = Field(title="Age", description="Age of the observation at the requested time, in milliseconds.")
    is_stale: bool = Field(description="Whether it is older than two intervals of its source.")


class LagPoint(QueryResult):
    """Lag and waiting time of a topic at the end of a time slice."""

    time: Instant
    topic: str
    lag: int | None = Field(description="Sum over the queues whose lag is known and not stale.")
    lag_is_at_least: bool = Field(description="Whether the lag of one of these is a lower bound, by a broker hook.")
    lag_unknown: int = Field(description="Number of queues whose lag is unknown or stale.")
    waiting_ms: int | None = Field(description="Longest known, fresh waiting time of the queues, in milliseconds.")
