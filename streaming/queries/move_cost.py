"""What it has cost a queue of a group to move: its measured pauses and duplicates."""

from pydantic import Field

from streaming.queries.group_at import GroupAt
from streaming.queries.results import QueryResult
from streaming.tables.reader import ReadModel

_REBALANCES = 20
"""The number of last rebalances that are looked at."""
_BACK_MS = 7 * 24 * 3_600_000
"""How far back they may be: before that the group may have been another one."""

_MOVES = """
SELECT count(DISTINCT m.rebalance_id) AS rebalances, count(*) AS moves, min(m.start_time) AS since,
    count(m.move.pause_ms) AS pauses, median(m.move.pause_ms)::BIGINT AS pause_ms, max(m.move.pause_ms) AS pause_ms_max,
    coalesce(bool_or(m.move.pause_is_at_most) FILTER (m.move.pause_ms IS NOT NULL), false) AS pause_is_at_most,
    count(m.move.reconsumed) AS counted, sum(m.move.reconsumed)::BIGINT AS reconsumed
FROM (
    SELECT r.rebalance_id, r.start_time, unnest(r.moves) AS move
    FROM (
        SELECT r.* FROM rebalances r
        WHERE r.cluster = $cluster AND r.group = $group
            AND r.start_time >= from_ms($since) AND r.end_time <= from_ms($until)
        ORDER BY r.start_time DESC, r.seq DESC
        LIMIT $last
    ) r
) m
WHERE m.move.kind = 'MOVED' AND m.move.from_client IS NOT NULL
"""


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


def move_cost(model: ReadModel, of: GroupAt, until: int) -> MoveCost:
    """Return what moving a queue of a group has cost before an instant (epoch milliseconds)."""
    wanted = {"cluster": of.cluster, "group": of.group, "since": until - _BACK_MS, "until": until, "last": _REBALANCES}
    [row] = model.rows(_MOVES, wanted)
    return MoveCost(**row)
