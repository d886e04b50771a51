"""Values that the page of a group derives from query results: members, unexpected owners, changes."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate

from pydantic import Field

from streaming.base.language import gettext, ngettext
from streaming.queries import labels
from streaming.queries.column import Column, Context, Value, counted
from streaming.queries.columns import MEMBER
from streaming.queries.health import HEALTH
from streaming.queries.labels import queue_name
from streaming.queries.results import Coverage, Group, Member, Queue
from streaming.serve.dashboard.lane_folds import LaneFilter
from streaming.serve.dashboard.owner_spans import Place
from streaming.serve.dashboard.page_data import History, State


class MemberLoad(Member):
    """A client with its queues, and how they are."""

    expected: int | None = Field(description="Number of queues that the strategy assigns to it; null if unknown.")
    lag: int | None = Field(description="Sum of the known, fresh lags of its queues.")
    lag_is_at_least: bool = Field(description="Whether one of these is a lower bound, or others are not known.")
    troubled: int = Field(title="Not OK", description="Number of its queues that are not OK.")


def _expected(member: MemberLoad, _: Context) -> Value:
    differs = member.expected is not None and member.expected != member.queues
    return Value(labels.number(member.expected), "attention" if differs else "")


def _lag(member: MemberLoad, _: Context) -> Value:
    return Value(labels.total(member.lag, 0, at_least=member.lag_is_at_least))


MEMBER_COLUMNS = (
    MEMBER["client_id"],
    MEMBER["queues"],
    Column(MemberLoad, "expected", "count", _expected),
    Column(MemberLoad, "lag", "count", _lag),
    Column(MemberLoad, "troubled", "count", lambda m, _: counted(m.troubled)),
)


def members(group: Group, queues: Iterable[Queue]) -> list[MemberLoad]:
    """List members and other owners of queues: non-members first, then by the number of queues that are not OK."""
    own: dict[str, list[Queue]] = defaultdict(list)
    expected: Counter[str] = Counter()
    predicted = False
    for queue in queues:
        if queue.owner is not None:
            own[queue.owner].append(queue)
        if queue.expected_owner is not None:
            predicted = True
            expected[queue.expected_owner] += 1
    found = [
        MemberLoad(
            client_id=client, is_member=client in group.members, queues=len(own[client]),
            expected=expected[client] if predicted else None,
            lag=_sum(queue.lag for queue in own[client] if not queue.lag_is_stale),
            lag_is_at_least=any(q.lag is None or q.lag_is_stale or q.lag_is_at_least for q in own[client]),
            troubled=sum(queue.status != "OK" for queue in own[client]),
        )
        for client in sorted({*group.members, *own})
    ]  # fmt: skip
    return sorted(found, key=lambda m: (m.is_member, -m.troubled, -m.queues, m.client_id))


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
    for one in history.intervals:
        known = owners[one.topic, one.broker, one.queue_id]
        if one.client_id not in known:
            known.append(one.client_id)
    return owners


def matches(queue: Queue, wanted: LaneFilter, owners: Sequence[str] = (), *, moved: bool = False) -> bool:
    """Return whether a queue, or one of the clients that owned it in the period, matches the user's filters.

    Args:
        queue: the queue.
        wanted: the filters.
        owners: the clients that owned it in the period.
        moved: whether its owner changed in the period.
    """
    if (wanted.only_problems and not queue.is_problem) or (wanted.only_moved and not moved):
        return False
    name = queue_name(queue.topic, queue.broker, queue.queue_id)
    owner = queue.owner or f"unassigned {gettext('unassigned')}"
    return wanted.text in " ".join((name, owner, queue.expected_owner or "", *owners)).lower()


def changes(history: History) -> list[int]:
    """List the instants in a period at which anything changed, ascending; of a rebalance, its start and its end."""
    since, until = history.window
    times = {time for i in history.intervals for time in (i.from_time, i.to_time)}
    times |= {time for i in history.incidents for time in (i.opened_at, i.resolved_at)}
    rebalances = sorted((one.start_time, one.end_time) for one in history.rebalances)
    starts, ends = [start for start, _ in rebalances], list(accumulate((end for _, end in rebalances), max))

    def within(time: int) -> bool:
        before = bisect_left(starts, time)
        return before > 0 and time < ends[before - 1]

    found = {time for time in times if time is not None and not within(time)}.union(*rebalances)
    return sorted(time for time in found if since <= time <= until)


def before(times: Sequence[int], at: int) -> int | None:
    """Return the last time before an instant."""
    index = bisect_left(times, at)
    return times[index - 1] if index else None


def after(times: Sequence[int], at: int) -> int | None:
    """Return the first time after an instant."""
    index = bisect_right(times, at)
    return times[index] if index < len(times) else None


def coverage_of(coverage: Coverage) -> str:
    """Format the telemetry coverage in one line."""
    parts = []
    if coverage.hooks:
        parts.append(gettext("hooks {n}/{brokers}", n=coverage.hooks, brokers=coverage.brokers))
    if coverage.polls:
        parts.append(gettext("{n}/{clients} clients respond", n=coverage.members_answering, clients=coverage.members))
    if coverage.silent_rules:
        rules = len(coverage.silent_rules)
        parts.append(ngettext("{n} rule suspended or not applicable", "{n} rules suspended or not applicable", rules))
    if unreadable := len(coverage.unreadable) + coverage.unreadable_more:
        parts.append(ngettext("{n} part of an answer unreadable", "{n} parts of answers unreadable", unreadable))
    if coverage.routes_incomplete:
        topics = "; ".join(coverage.routes_incomplete)
        parts.append(gettext("the collector's route lacks a broker ({topics})", topics=topics))
    return " · ".join(parts) or gettext("none")


def owner_counts(state: State) -> dict[str, int]:
    """Count the queues with an unexpected owner, and those whose expected owner is unknown."""
    return {
        "differing": sum(queue.is_elsewhere for queue in state.queues),
        "unpredicted": sum(queue.expected_owner is None for queue in state.queues),
    }


def _sum(lags: Iterable[int | None]) -> int | None:
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known else None
