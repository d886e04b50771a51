"""State of a group at an instant, for its page: members, unexpected owners and changes."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pydantic import Field

from streaming.base.language import gettext, marked
from streaming.queries import labels
from streaming.queries.clients import clients_of_proxies
from streaming.queries.columns import MEMBER
from streaming.queries.columns.column import ColumnValue, Context, ResultColumn, counted
from streaming.queries.group_at import find_group
from streaming.queries.groups import failed_messages, group_brokers, read_group
from streaming.queries.health import HEALTH
from streaming.queries.incidents import group_incidents
from streaming.queries.labels import queue_name
from streaming.queries.ownership import queues
from streaming.queries.present import HistoryBounds, history_ends
from streaming.queries.results import (
    FailedMessages,
    Group,
    GroupBroker,
    GroupClient,
    GroupMember,
    Incident,
    Queue,
    Rebalance,
)
from streaming.queries.roots import folded
from streaming.serve.dashboard.parts.ordering import Order, number
from streaming.serve.dashboard.timeline.lane_folds import History, LaneFilter, Place
from streaming.tables import ReadModel

REBALANCE_ORDERS: Mapping[str, Order[Rebalance]] = {
    "newest": Order(marked("Newest first"), lambda r: (r.start_time,)),
    "total": Order(marked("Largest total pause"), lambda r: number(r.pause_ms_sum)),
    "longest": Order(marked("Longest pause"), lambda r: number(r.pause_ms_max)),
    "moved": Order(marked("Most queues moved"), lambda r: (r.queues_moved,)),
    "duration": Order(marked("Longest duration"), lambda r: (r.end_time - r.start_time,)),
    "duplicates": Order(marked("Most duplicates"), lambda r: number(r.reconsumed)),
}
"""The orders of a group's rebalances; the first one is used if none is chosen."""


@dataclass(frozen=True)
class State:
    """A group at an instant."""

    ends: HistoryBounds
    group: Group
    queues: list[Queue]
    incidents: list[Incident]
    """The open incidents."""
    failed: list[FailedMessages]
    proxied: tuple[GroupClient, ...] = ()
    """The clients behind proxies."""
    brokers: Sequence[GroupBroker] = ()
    """The brokers, with the time of their last answers."""

    @property
    def consequences(self) -> int:
        """The number of open incidents that others explain or stand for: `Group.incidents` does not count them."""
        return len(self.incidents) - len(folded(self.incidents))


class MemberLoad(GroupMember):
    """A client with its queues, and how they are."""

    expected: int | None = Field(description="Number of queues that the strategy assigns to it; null if unknown.")
    lag: int | None = Field(description="Sum of the known, fresh lags of its queues.")
    lag_is_at_least: bool = Field(description="True if one of these is a lower bound, or others are not known.")
    troubled: int = Field(title="Not OK", description="Number of its queues that are not OK.")


def _expected(member: MemberLoad, _: Context) -> ColumnValue:
    differs = member.expected is not None and member.expected != member.queues
    return ColumnValue(labels.number(member.expected), "attention" if differs else "")


def _lag(member: MemberLoad, _: Context) -> ColumnValue:
    return ColumnValue(labels.total(member.lag, 0, at_least=member.lag_is_at_least))


MEMBER_COLUMNS = (
    MEMBER["client_id"],
    MEMBER["queues"],
    ResultColumn(MemberLoad, "expected", "count", _expected),
    ResultColumn(MemberLoad, "lag", "count", _lag),
    ResultColumn(MemberLoad, "troubled", "count", lambda m, _: counted(m.troubled)),
)


def state(model: ReadModel, name: str, cluster: str | None, at: int | None) -> State:
    """Read the state of a group at an instant.

    Raises:
        UserError: see `streaming.queries.group_at.find_group`.
    """
    group_at = find_group(model, name, cluster, at)
    group = read_group(model, group_at)
    return State(
        ends=history_ends(model, at),
        group=group,
        queues=queues(model, group_at),
        incidents=group_incidents(model, group_at, only_open=True),
        failed=failed_messages(model, group_at),
        proxied=clients_of_proxies(model, group_at, group.proxied_clients),
        brokers=group_brokers(model, group_at),
    )


def members(group: Group, of_group: Iterable[Queue]) -> list[MemberLoad]:
    """List members and other owners of queues: non-members first, then by the number of queues that are not OK."""
    own: dict[str, list[Queue]] = defaultdict(list)
    expected: Counter[str] = Counter()
    predicted = False
    for queue in of_group:
        if queue.owner is not None:
            own[queue.owner].append(queue)
        if queue.expected_owner is not None:
            predicted = True
            expected[queue.expected_owner] += 1
    loads = [
        MemberLoad(
            client_id=client, is_member=client in group.members, queues=len(own[client]),
            expected=expected[client] if predicted else None,
            lag=_sum(queue.lag for queue in own[client] if not queue.lag_is_stale),
            lag_is_at_least=any(q.lag is None or q.lag_is_stale or q.lag_is_at_least for q in own[client]),
            troubled=sum(queue.status != "OK" for queue in own[client]),
        )
        for client in sorted({*group.members, *own})
    ]  # fmt: skip
    return sorted(loads, key=lambda m: (m.is_member, -m.troubled, -m.queues, m.client_id))


def in_order(queues: Iterable[Queue], order: str) -> list[Queue]:
    """Sort queues by ``status`` (the worst first), ``name`` or ``lag`` (the largest first)."""
    keys = {
        "status": lambda q: (HEALTH[q.status].rank, not q.is_elsewhere, q.topic, q.broker, q.queue_id),
        "name": lambda q: (q.topic, q.broker, q.queue_id),
        "lag": lambda q: (-(q.lag if q.lag is not None else -1), q.topic, q.broker, q.queue_id),
    }
    return sorted(queues, key=keys[order])


def owners_in(history: History) -> defaultdict[Place, list[str]]:
    """Return the clients that owned each queue in a period, in order of time."""
    owners: defaultdict[Place, list[str]] = defaultdict(list)
    for interval in history.intervals:
        of_queue = owners[interval.topic, interval.broker, interval.queue_id]
        if interval.client_id not in of_queue:
            of_queue.append(interval.client_id)
    return owners


def matches(queue: Queue, lane_filter: LaneFilter, owners: Sequence[str] = (), *, moved: bool = False) -> bool:
    """Return whether a queue, or one of the clients that owned it in the period, matches the user's filters.

    Args:
        queue: the queue.
        lane_filter: the filters.
        owners: the clients that owned it in the period.
        moved: whether its owner changed in the period.
    """
    if (lane_filter.only_problems and not queue.is_problem) or (lane_filter.only_moved and not moved):
        return False
    name = queue_name(queue.topic, queue.broker, queue.queue_id)
    owner = queue.owner or f"unassigned {gettext('unassigned')}"
    return lane_filter.text in " ".join((name, owner, queue.expected_owner or "", *owners)).lower()


def changes(history: History) -> list[int]:
    """List the instants in a period at which anything changed, ascending; of a rebalance, its start and its end."""
    since, until = history.window
    times = {time for i in history.intervals for time in (i.from_time, i.to_time)}
    times |= {time for i in history.incidents for time in (i.opened_at, i.resolved_at)}
    rebalances = sorted((rebalance.start_time, rebalance.end_time) for rebalance in history.rebalances)
    starts, ends = [start for start, _ in rebalances], list(accumulate((end for _, end in rebalances), max))

    def within(time: int) -> bool:
        before = bisect_left(starts, time)
        return before > 0 and time < ends[before - 1]

    instants = {time for time in times if time is not None and not within(time)}.union(*rebalances)
    return sorted(time for time in instants if since <= time <= until)


def before(times: Sequence[int], at: int) -> int | None:
    """Return the last time before an instant."""
    index = bisect_left(times, at)
    return times[index - 1] if index else None


def after(times: Sequence[int], at: int) -> int | None:
    """Return the first time after an instant."""
    index = bisect_right(times, at)
    return times[index] if index < len(times) else None


def owner_counts(state: State) -> dict[str, int]:
    """Count the queues with an unexpected owner, and those whose expected owner is unknown."""
    return {
        "differing": sum(queue.is_elsewhere for queue in state.queues),
        "unpredicted": sum(queue.expected_owner is None for queue in state.queues),
    }


def _sum(lags: Iterable[int | None]) -> int | None:
    values = [lag for lag in lags if lag is not None]
    return sum(values) if values else None
