"""What an allocation strategy would give each client after clients join or leave."""

from collections.abc import Sequence

from pydantic import Field

from streaming.queries.results import QueryResult


class Share(QueryResult):
    """The number of queues of a client before and after a change."""

    client_id: str
    now: int
    then: int
    gains: tuple[str, ...]
    loses: tuple[str, ...]
    is_member: bool = Field(default=True, description="Whether it is a member then.")


class PlannedMove(QueryResult):
    """A queue that gets a different owner."""

    queue: str = Field(description="TOPIC@BROKER:ID.")
    from_client: str | None = Field(title="From", description="Its owner now; null: none.")
    to_client: str | None = Field(title="To", description="Its owner then; null: none.")


class Plan(QueryResult):
    """The allocation that a strategy computes for a changed membership."""

    strategy: str
    topic: str
    queues: int
    queues_moved: int = Field(description="Number of queues that get a different owner.")
    queues_moved_min: int = Field(description="Minimum number of queues that must move.")
    queues_unassigned: int = Field(
        default=0, description="Number of queues that no client gets; theirs is no pause, but until the next change."
    )
    shares: tuple[Share, ...]
    refused: str | None = Field(description="Reason why the strategy cannot allocate; null if it can.")
    moves: tuple[PlannedMove, ...] = Field(default=(), description="Each queue that gets a different owner.")
    pause_ms: int | None = Field(
        default=None,
        description="Expected pause of a queue that moves: the median of the group's measured ones, in milliseconds;"
        " null if none was measured.",
    )
    pause_is_at_most: bool = Field(default=False, description="Whether it is an upper bound.")
    duplicates: int | None = Field(
        default=None,
        description="Expected messages that are consumed twice, by the mean of the group's measured moves; null if"
        " none was measured.",
    )
    measured_moves: int = Field(default=0, description="Number of the group's moves that the expectation is from.")
    warnings: tuple[str, ...] = Field(default=(), description="What is not well known of the group, in sentences.")

    @property
    def sizes(self) -> list[int]:
        """The number of queues of each client that is a member then."""
        return [share.then for share in self.shares if share.is_member]

    def listed(self, most: int) -> Sequence[Share]:
        """Return all shares; if they are more than ``most``, those of clients whose queues change."""
        if len(self.shares) <= most:
            return self.shares
        return [share for share in self.shares if share.gains or share.loses]
