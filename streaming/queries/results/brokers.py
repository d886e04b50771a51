"""The brokers of a group, and how fresh their answers are."""

from pydantic import Field

from streaming.queries.results.base import Instant, QueryResult

ASKED_WITHIN_MS = 300_000
"""How far back the archive is read for requests."""


class GroupBroker(QueryResult):
    """A broker that has queues of a group, as collectors asked it about the group within the last 5 minutes."""

    broker: str
    asked_at: Instant | None = Field(description="When it was last asked; null: not within the last 5 minutes.")
    answered_at: Instant | None = Field(description="Time of its last answer; null: none within the last 5 minutes.")
    silent_since: Instant | None = Field(
        description="When the first request was sent that it left without an answer, as all later ones; null: it"
        " answered the last one, or was not asked."
    )
    remark: str = Field(description="Why the last of these requests has no answer; empty if it has one.")
    as_of: Instant = Field(description="Time of the newest telemetry of its cluster in the archive: so much is known.")
    is_fresh: bool = Field(
        description="Whether it had answered within two intervals of the collector before that, or 30 s if longer."
    )
