"""Say what a change of a group's members would cost: queues that move, their pauses, and the ways to leave.

A client that shuts down unregisters and unlocks: the broker notifies the others, which rebalance at once. If it is
killed, its connection closes, so the others rebalance at once, too, but its locks stay until they expire. If it is cut
off, the broker sees nothing: it drops the client after too long without a heartbeat; by then the locks have expired.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from rebalance_model.observe.policy import Policy
from streaming.base.language import gettext, marked
from streaming.base.statements import statements_of
from streaming.queries import labels
from streaming.queries.group_at import GroupAt
from streaming.queries.results import QueryResult
from streaming.tables.reader import ReadModel

_SQL = statements_of(__name__)

_REBALANCES = 20
"""The number of last rebalances that are looked at."""
_BACK_MS = 7 * 86_400_000
"""The age that they may have: before that the group may have been another one."""


class MoveCost(QueryResult):
    """The cost of moving a queue, as it was measured in the group's last rebalances; unknown is null, never 0."""

    rebalances: int = Field(description="Number of rebalances of the last 7 days, at most 20, in which a queue moved.")
    since: int | None = Field(description="Start of the oldest of them.")
    moves: int = Field(description="Number of queues that moved in them.")
    pauses: int = Field(description="Number of these whose pause was measured.")
    pause_ms: int | None = Field(description="Median of these pauses.")
    pause_ms_max: int | None = Field(description="Longest of these pauses.")
    pause_is_at_most: bool = Field(description="True if one is an upper bound: polls give no exact times.")
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


Way = Literal["SHUTDOWN", "KILLED", "CUT_OFF"]
_TRIGGERS: dict[Way, str] = {
    "SHUTDOWN": "CLIENT_UNREGISTERED",
    "KILLED": "CONNECTION_CLOSED",
    "CUT_OFF": "HEARTBEAT_EXPIRED",
}

LABELS: dict[Way, str] = {
    "SHUTDOWN": marked("Clean shutdown"),
    "KILLED": marked("Process killed"),
    "CUT_OFF": marked("Host or network lost"),
}
_REASONS: dict[Way, str] = {
    "SHUTDOWN": marked("It unregisters and unlocks its queues: the others take them at once."),
    "KILLED": marked("The broker sees its connection close and tells the others at once."),
    "CUT_OFF": marked("The broker drops it when no heartbeat has come for that long, and then tells the others."),
}
_LOCK = marked("An ordered queue waits until its lock expires, too: up to {lock} after it was last renewed.")


class Departure(QueryResult):
    """A way to leave a group, and how long the queues of the client wait for a new owner."""

    way: Way = Field(description="SHUTDOWN (it unregisters), KILLED (its connection closes), CUT_OFF (no sign at all).")
    noticed_ms_max: int = Field(description="The longest time until the broker notices; 0: at once.")
    lock_ms_max: int | None = Field(
        description="The longest further time that its locks are held; 0: none; null: unknown whether it is ordered."
    )
    measured_moves: int = Field(description="Number of queues that moved in this way in the last 7 days.")
    pause_ms: int | None = Field(description="Median of their pauses, milliseconds; null: none was measured.")
    pause_ms_max: int | None = Field(description="Longest of their pauses.")

    @property
    def label(self) -> str:
        """The name of the way."""
        return gettext(LABELS[self.way])

    @property
    def bound(self) -> str:
        """Return how long a queue waits at most before another client may take it."""
        most = self.noticed_ms_max + (self.lock_ms_max or 0)
        if not most and self.lock_ms_max is not None:
            return gettext("at once")
        if not most:
            return labels.NOT_KNOWN
        return gettext("up to {duration}", duration=labels.duration(most))

    @property
    def reason(self) -> str:
        """Return why it takes that long."""
        said = gettext(_REASONS[self.way])
        if not self.lock_ms_max:
            return said
        return f"{said} {gettext(_LOCK, lock=labels.duration(self.lock_ms_max))}"


def departures(
    model: ReadModel, group_at: GroupAt, policy: Policy, *, orderly: bool | None, until: int
) -> Sequence[Departure]:
    """Return each way in which a client of a group may leave.

    Args:
        model: the tables.
        group_at: the group.
        policy: the policy of the group, which has the brokers' limits.
        orderly: whether its clients lock their queues; None: it is unknown.
        until: the instant until which pauses are taken from history, epoch milliseconds.
    """
    parameters = {"cluster": group_at.cluster, "group": group_at.group, "since": until - _BACK_MS, "until": until}
    measured = {row["trigger"]: row for row in model.rows(_SQL["measured_pauses"], parameters)}
    lock = {True: policy.broker_lock_max_live_time, False: 0, None: None}[orderly]
    ways = []
    for way, trigger in _TRIGGERS.items():
        row = measured.get(trigger, {})
        noticed = policy.channel_expired_after if way == "CUT_OFF" else 0
        ways.append(
            Departure(
                way=way, noticed_ms_max=noticed, lock_ms_max=lock if way == "KILLED" else 0,
                measured_moves=row.get("moves", 0), pause_ms=row.get("pause_ms"), pause_ms_max=row.get("pause_ms_max"),
            )
        )  # fmt: skip
    return ways


class Share(QueryResult):
    """The number of queues of a client before and after a change."""

    client_id: str
    now: int
    then: int
    gains: tuple[str, ...]
    loses: tuple[str, ...]
    is_member: bool = Field(default=True, description="True if it is a member then.")


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
    pause_is_at_most: bool = Field(default=False, description="True if it is an upper bound.")
    duplicates: int | None = Field(
        default=None,
        description="Expected messages that are consumed twice, by the mean of the group's measured moves; null if"
        " none was measured.",
    )
    measured_moves: int = Field(default=0, description="Number of the group's moves that the expectation is from.")
    warnings: tuple[str, ...] = Field(default=(), description="The uncertainties about the group, in sentences.")

    @property
    def sizes(self) -> list[int]:
        """The number of queues of each client that is a member then."""
        return [share.then for share in self.shares if share.is_member]

    def listed(self, most: int) -> Sequence[Share]:
        """Return all shares; if they are more than ``most``, those of clients whose queues change."""
        if len(self.shares) <= most:
            return self.shares
        return [share for share in self.shares if share.gains or share.loses]
