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


class Plan(QueryResult):
    """The allocation that a strategy computes for a changed membership."""

    strategy: str
    topic: str
    queues: int
    queues_moved: int = Field(description="Number of queues that get a different owner.")
    queues_moved_min: int = Field(description="Minimum number of queues that must move.")
    shares: tuple[Share, ...]
    refused: str | None = Field(description="Reason why the strategy cannot allocate; null if it can.")

    @property
    def sizes(self) -> list[int]:
        """The number of queues of each client that is a member then."""
        return [share.then for share in self.shares if share.then or not share.loses]

    def listed(self, most: int) -> Sequence[Share]:
        """Return all shares; if they are more than ``most``, those of clients whose queues change."""
        if len(self.shares) <= most:
            return self.shares
        return [share for share in self.shares if share.gains or share.loses]
