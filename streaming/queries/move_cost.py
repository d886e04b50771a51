"""What it has cost a queue of a group to move: its measured pauses and duplicates."""

from pydantic import Field

from streaming.base.statements import statements_of
from streaming.queries.group_at import GroupAt
from streaming.queries.results import QueryResult
from streaming.tables.reader import ReadModel

_SQL = statements_of(__name__)

_REBALANCES = 20
"""The number of last rebalances that are looked at."""
_BACK_MS = 7 * 24 * 3_600_000
"""How far back they may be: before that the group may have been another one."""


class MoveCost(QueryResult):
    """The cost of moving a queue, as it was measured in the group's last rebalances; unknown is null, never 0."""

    rebalances: int = Field(description="Number of rebalances of the last 7 days, at most 20, in which a queue moved.")
    since: int | None = Field(description="Start of the oldest of them.")
    moves: int = Field(description="Number of queues that moved in them.")
    pauses: int = Field(description="Number of these whose pause was measured.")
    pause_ms: int | None = Field(description="Median of these pauses.")
    pause_ms_max: int | None = Field(description="Longest of these pauses.")
    pause_is_at_most: bool = Field(description="Whether one is an upper bound: polls give no exact times.")
    counted: int = Field(description="Number of moves whose duplicates were estimated.")
    reconsumed: int | None = Field(description="Sum of these estimates, in messages.")

    def duplicates(self, moves: int) -> int | None:
        """Return the messages that so many moves would have consumed twice, by the mean; None if it is unknown."""
        return None if self.reconsumed is None else round(moves * self.reconsumed / self.counted)


def move_cost(model: ReadModel, group_at: GroupAt, until: int) -> MoveCost:
    """Return what moving a queue of a group has cost before an instant (epoch milliseconds)."""
    parameters = {
        "cluster": group_at.cluster,
        "group": group_at.group,
        "since": until - _BACK_MS,
        "until": until,
        "last": _REBALANCES,
    }
    [row] = model.rows(_SQL["moves"], parameters)
    return MoveCost(**row)
