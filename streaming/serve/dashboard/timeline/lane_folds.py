"""The first view of thousands of queues: the sick ones by reason, and the others folded.

A fold shows the lanes of one broker or client as one line. It counts all of them, also those that are listed above the
folds because they are a problem, so that its status is the worst one.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from streaming.base.language import gettext, marked, ngettext
from streaming.base.nearest import one_of
from streaming.queries import labels
from streaming.queries.group_at import find_group
from streaming.queries.health import HEALTH, Health, WithoutOwner
from streaming.queries.incidents import group_incidents
from streaming.queries.lag import lag
from streaming.queries.ownership import intervals, unassigned
from streaming.queries.rebalances import rebalance_totals, rebalances
from streaming.queries.results import Incident, Interval, LagPoint, Queue, Rebalance, RebalanceTotals
from streaming.serve.dashboard.parts.moment import Window
from streaming.tables import ReadModel


@dataclass(frozen=True)
class History:
    """A group over a period."""

    window: Window
    intervals: list[Interval]
    unassigned: frozenset[tuple[str, str, int]]
    """Queues (topic, broker, id) that were unassigned at the beginning of the period."""
    rebalances: list[Rebalance]
    totals: RebalanceTotals
    """The cost of these rebalances together."""
    incidents: list[Incident]
    lag: list[LagPoint]


def history(model: ReadModel, name: str, cluster: str | None, period: Window) -> History:
    """Read the history of a group over a period.

    Raises:
        UserError: see `streaming.queries.group_at.find_group`.
    """
    group_at = find_group(model, name, cluster)
    incidents = group_incidents(model, group_at._replace(instant=period.until), since=period.since)
    return History(
        window=period,
        intervals=intervals(model, group_at, *period),
        unassigned=unassigned(model, group_at._replace(instant=period.since)),
        rebalances=rebalances(model, group_at, *period),
        totals=rebalance_totals(model, group_at, *period),
        incidents=[incident for incident in incidents if incident.opened_at <= period.until],
        lag=lag(model, group_at, *period),
    )


Place = tuple[str, str, int]
"""Topic, broker and id of a queue."""


class OwnerSpan(NamedTuple):
    """A part of a period in which a queue had one owner, or none."""

    begin: int
    """Milliseconds since the begin of the period."""
    end: int
    client_id: str | None
    """None: it was unassigned."""


def owner_spans(history: History, until: int) -> Mapping[Place, Sequence[OwnerSpan]]:
    """Return the spans of each queue; none before its first owner, unless it was unassigned when the period began.

    Args:
        history: the history of the period.
        until: the end of what is known of it, epoch milliseconds.
    """
    intervals: dict[Place, list[Interval]] = defaultdict(list)
    for interval in history.intervals:
        intervals[interval.topic, interval.broker, interval.queue_id].append(interval)
    window = history.window.since, min(history.window.until, until)
    return {
        place: _spans(intervals.get(place, []), window, was_unassigned=place in history.unassigned)
        for place in {*intervals, *history.unassigned}
    }  # fmt: skip


def has_moved(spans: Sequence[OwnerSpan]) -> bool:
    """Return whether a queue has, or had for a time, another owner than at first, or none."""
    return any(span.client_id != spans[0].client_id for span in spans)


def _spans(intervals: Sequence[Interval], window: tuple[int, int], *, was_unassigned: bool) -> list[OwnerSpan]:
    since, until = window
    spans: list[OwnerSpan] = []
    end: int | None = since if was_unassigned else None
    for interval in intervals:
        begin = max(interval.from_time, since)
        if end is not None and begin > end:
            spans.append(OwnerSpan(end - since, begin - since, None))
        end = min(interval.to_time if interval.to_time is not None else until, until)
        if end > begin:
            spans.append(OwnerSpan(begin - since, end - since, interval.client_id))
    if end is not None and end < until:
        spans.append(OwnerSpan(max(end, since) - since, until - since, None))
    return spans


FOLDS = {
    "": marked("Folded as needed"), "broker": marked("Folded by broker"), "client": marked("Folded by client"),
    "ok": marked("OK queues folded"), "none": marked("Not folded"),
}  # fmt: skip
"""The ways to fold lanes, as in an address and in the list to choose from."""
FEW_LANES = 24
"""Up to this number of queues the lanes are seen at once: unless folded, they are in the order of their names."""
_UNFOLDED = 64
"""Up to this number of queues the lanes are folded on a narrow screen only, unless the user chooses."""
_LISTED, _ALIKE = 50, 8
"""Above the first number, problems are folded by their reason if more than the second have the same one."""
REASONS = 6
"""The maximum number of reasons that the summary of problems names."""
_NAMES = 3
"""The maximum number of clients, and of brokers, that it names of each."""


class LaneFilter(NamedTuple):
    """The lanes that the user wants to see, and how they are folded."""

    find: str = ""
    """A part of the name of a queue or client."""
    fold: str = ""
    """One of `FOLDS`."""
    only_problems: bool = False
    only_moved: bool = False

    @property
    def shows_all(self) -> bool:
        """Return whether it omits no queue."""
        return not (self.find or self.only_problems or self.only_moved)

    @property
    def text(self) -> str:
        """The text to find, in lower case."""
        return self.find.lower()


ALL_LANES = LaneFilter()
"""No filter, folded as needed."""


def checked(lanes: LaneFilter) -> LaneFilter:
    """Return the filter if its way to fold is known.

    Raises:
        InvalidValueError: it is not one of `FOLDS`.
    """
    return lanes._replace(fold=one_of("fold", lanes.fold, FOLDS))


class Fold(NamedTuple):
    """Lanes that are shown as one."""

    name: str
    lanes: Sequence[int]
    status: Health
    """The worst one of its queues."""
    problems: int
    moved: int
    """The number of queues whose owner changed in the period."""
    unassigned: int
    lag: str
    is_of_problems: bool = False

    @property
    def order(self) -> tuple[bool, int, bool, bool, str]:
        """The order of the folds: problems, then the worst first, then those with moved queues."""
        return not self.is_of_problems, HEALTH[self.status].rank, not self.problems, not self.moved, self.name

    @property
    def facts(self) -> str:
        """Return the facts by which the fold is summed up, in words."""
        count = len(self.lanes)
        parts = [ngettext("{n} queue", "{n} queues", count, n=f"{count:,}")]
        if self.problems and not self.is_of_problems:
            parts.append(gettext("{n} with a problem", n=f"{self.problems:,}"))
        if self.unassigned:
            parts.append(gettext("{n} unassigned", n=f"{self.unassigned:,}"))
        if self.moved:
            parts.append(gettext("{n} moved", n=f"{self.moved:,}"))
        return gettext(", ").join([*parts, gettext("lag {lag}", lag=self.lag)])


class Lanes(NamedTuple):
    """The order of the lanes, and how they are folded."""

    top: Sequence[int]
    """Problems, the worst first, that are listed above the folds or the other lanes."""
    folds: Sequence[Fold]
    """Empty: every lane is listed."""
    narrow: bool
    """True if the lanes are folded on a narrow screen only."""
    bands: Sequence[Fold]
    """The folds in the order of the overview, where each keeps its place: by name."""


class Reason(NamedTuple):
    """The queues that have a problem for the same reason."""

    status: Health
    why: str
    queues: int
    owners: str
    brokers: str


def why(queue: Queue) -> str:
    """Return the reason why a queue is a problem; empty if it is none."""
    parts = [labels.reason(queue.status_reason) or gettext(queue.status)] if queue.status != "OK" else []
    return gettext(", ").join([*parts, gettext("unexpected owner")] if queue.is_elsewhere else parts)


def lanes_of(
    places: Sequence[Place],
    states: Mapping[Place, Queue],
    moved: Collection[int],
    fold: str,
    without_owner: WithoutOwner,
) -> Lanes:
    """Return the order of lanes and their folds.

    Args:
        places: the queue of each lane.
        states: the queues at the instant that is shown; one that did not exist then is not among them.
        moved: the lanes whose owner changed in the period.
        fold: one of `FOLDS`.
        without_owner: what a queue without an owner is.
    """
    by = fold or _as_needed(places)
    lanes, queues = range(len(places)), [states.get(place) for place in places]

    def folded(name_of: Callable[[int], str], members: Iterable[int], *, problems: bool = False) -> list[Fold]:
        by_name: dict[str, list[int]] = defaultdict(list)
        for lane in members:
            by_name[name_of(lane)].append(lane)
        folds = [_fold(name, by_name[name], queues, moved, problems=problems) for name in sorted(by_name)]
        return folds if without_owner is WithoutOwner.UNASSIGNED else [fold._replace(unassigned=0) for fold in folds]

    def owner(lane: int) -> str:
        queue = queues[lane]
        return gettext("not known at this time") if queue is None else queue.holder(without_owner)

    top = sorted((lane for lane in lanes if _is_problem(queues[lane])), key=lambda lane: _rank(queues[lane]))
    bands = folded(owner if by == "client" else lambda lane: places[lane][1], lanes)
    if by == "none":
        return Lanes(top, (), narrow=False, bands=bands)
    folds = folded(lambda _: gettext("OK queues"), sorted({*lanes}.difference(top))) if by == "ok" else bands
    if len(top) > _LISTED:
        alike = Counter(_reason(queues[lane]) for lane in top)
        crowd = [lane for lane in top if alike[_reason(queues[lane])] > _ALIKE]
        folds = [*folded(lambda lane: _reason(queues[lane]), crowd, problems=True), *folds]
        top = [lane for lane in top if alike[_reason(queues[lane])] <= _ALIKE]
    return Lanes(top, sorted(folds, key=lambda one: one.order), narrow=not fold and by == "ok", bands=bands)


def _as_needed(places: Sequence[Place]) -> str:
    if len(places) <= _UNFOLDED:
        return "ok"
    return "broker" if len({broker for _, broker, _ in places}) > 1 else "client"


def _is_problem(queue: Queue | None) -> bool:
    return queue is not None and queue.is_problem


def _rank(queue: Queue | None) -> tuple[int, Place]:
    assert queue is not None
    return HEALTH[queue.status].rank, (queue.topic, queue.broker, queue.queue_id)


def _reason(queue: Queue | None) -> str:
    return "" if queue is None else why(queue)


def _fold(
    name: str, lanes: Sequence[int], queues: Sequence[Queue | None], moved: Collection[int], *, problems: bool
) -> Fold:  # fmt: skip
    existing = [queue for lane in lanes if (queue := queues[lane]) is not None]
    lags = [q.lag for q in existing if q.lag is not None and not q.lag_is_stale]
    at_least = len(lags) < len(existing) or any(q.lag_is_at_least for q in existing)
    statuses: set[Health] = {q.status for q in existing}
    if len(existing) < len(lanes):
        statuses.add("UNKNOWN")
    return Fold(
        name, lanes, status=min(statuses, key=lambda status: HEALTH[status].rank),
        problems=sum(q.is_problem for q in existing), moved=sum(lane in moved for lane in lanes),
        unassigned=sum(q.owner is None and not q.shared_by for q in existing),
        lag=labels.total(sum(lags) if lags else None, 0, at_least=at_least), is_of_problems=problems,
    )  # fmt: skip


def reasons(queues: Iterable[Queue], short: Mapping[str, str], without_owner: WithoutOwner) -> list[Reason]:
    """Return the reasons of problems, the worst first, each with whose queues they are.

    Args:
        queues: the queues at the instant that is shown.
        short: the short names of clients.
        without_owner: what a queue without an owner is.
    """
    by_reason: dict[tuple[Health, str], list[Queue]] = defaultdict(list)
    for queue in queues:
        if queue.is_problem:
            by_reason[queue.status, why(queue)].append(queue)

    def owner(queue: Queue) -> str:
        return short.get(queue.owner, queue.owner) if queue.owner else queue.holder(without_owner)

    return [
        Reason(status, text, len(alike), _named(Counter(map(owner, alike))), _named(Counter(q.broker for q in alike)))
        for (status, text), alike in sorted(
            by_reason.items(), key=lambda item: (HEALTH[item[0][0]].rank, -len(item[1]), item[0])
        )
    ]


def _named(counts: Counter[str]) -> str:
    """Format the most frequent names with their numbers."""
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    if len(ordered) == 1:
        return ordered[0][0]
    names, more = ", ".join(f"{name} ({count:,})" for name, count in islice(ordered, _NAMES)), len(ordered) - _NAMES
    return gettext("{names} and {n} more", names=names, n=f"{more:,}") if more > 0 else names
