"""Rebalances, their moves, and what they have cost together."""

from pydantic import Field

from rebalance_model.observe.effects import MoveKind
from streaming.queries.results.base import Instant, QueryResult


class RebalanceMove(QueryResult):
    """One queue of a settled rebalance."""

    topic: str
    broker: str
    queue_id: int
    from_client: str | None = Field(title="From")
    to_client: str | None = Field(title="To")
    kind: MoveKind = Field(
        title="Change", description="MOVED, INTERRUPTED (re-acquired by the same client) or UNASSIGNED."
    )
    pause_ms: int | None = Field(title="Pause")
    pause_is_at_most: bool = Field(description="Whether the pause is an upper bound: polls give no exact times.")
    reconsumed: int | None = Field(title="Duplicates (estimated)")
    reconsumed_min: int | None
    reconsumed_max: int | None


class Rebalance(QueryResult):
    """One settled rebalance; see `rebalance_model.observe.effects.RebalanceSettled`."""

    cluster: str
    group: str
    rebalance_id: str = Field(title="Id")
    start_time: Instant = Field(title="Started")
    end_time: Instant
    trigger: str = Field(title="Cause")
    trigger_client: str | None = Field(title="Trigger")
    causes: tuple[str, ...]
    members_before: tuple[str, ...]
    members_after: tuple[str, ...]
    queues_moved: int = Field(title="Moved")
    queues_interrupted: int = Field(title="Interrupted")
    queues_unassigned: int = Field(title="Unassigned")
    queues_moved_min: int = Field(title="Necessary", description="Number of queues that had to move in any case.")
    pause_ms_max: int | None = Field(title="Longest pause")
    pause_ms_p50: int | None = Field(title="Median pause")
    pause_is_at_most: bool
    reconsumed: int | None = Field(title="Duplicates (estimated)")
    reconsumed_min: int | None
    reconsumed_max: int | None
    converged: bool | None = Field(
        title="Ended as expected", description="Whether each queue had its expected owner at the end."
    )
    moves: tuple[RebalanceMove, ...] = ()

    @property
    def pause_ms_sum(self) -> int | None:
        """The sum of the known pauses of its moves, milliseconds; None if none is known."""
        known = [move.pause_ms for move in self.moves if move.pause_ms is not None]
        return sum(known) if known else None


class RebalanceTotals(QueryResult):
    """What the rebalances of a group in a period have cost together."""

    rebalances: int
    first: Instant | None = Field(description="Start of the first one; null if there are none.")
    pause_ms: int | None = Field(description="Sum of the known pauses of all queues; null if none is known.")
    pause_is_at_most: bool = Field(description="Whether one of them is an upper bound.")
    pauses_unknown: int = Field(description="Number of moves whose pause is unknown.")
    costliest: str | None = Field(description="Id of the one with the largest sum of pauses; null if none is known.")
    costliest_pause_ms: int | None
    by_cause: dict[str, int] = Field(description="Number of rebalances by cause, the most frequent first.")
    pause_by_cause: dict[str, int | None] = Field(
        default_factory=dict, description="Sum of the known pauses by cause, in milliseconds; null if none is known."
    )
