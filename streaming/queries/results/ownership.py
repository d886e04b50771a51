"""Who owned a queue from when until when."""

from pydantic import Field

from streaming.queries.results.base import Instant, QueryResult


class Interval(QueryResult):
    """An interval during which a client owned a queue; `to_time` is null while it still does."""

    cluster: str
    group: str
    topic: str
    broker: str
    queue_id: int
    client_id: str
    from_time: Instant
    to_time: Instant | None
    duration_ms: int | None
    evidence: str
    end_evidence: str | None
    rebalance_id: str

    def by(self, instant: int) -> "Interval":
        """Return the interval as it was at an instant, epoch milliseconds: what ended later had not ended."""
        if self.to_time is None or self.to_time <= instant:
            return self
        return self.model_copy(update={"to_time": None, "duration_ms": None, "end_evidence": None})


class OwnerChange(QueryResult):
    """A queue whose owner differs between two instants; null: it was unassigned, or did not exist yet."""

    cluster: str
    group: str
    topic: str
    broker: str
    queue_id: int
    from_client: str | None = Field(title="Earlier owner")
    to_client: str | None = Field(title="Later owner")
    is_new: bool = Field(description="Whether the queue was not known yet at the earlier time.")
