"""What the pages ask, each in one go, so that a page shows one state of the tables."""

from dataclasses import dataclass

from streaming.dashboard.moment import Window
from streaming.queries.answers import Group, Incident, Interval, LagPoint, Queue, Rebalance
from streaming.queries.groups import group_of, groups
from streaming.queries.incidents import incidents, incidents_of
from streaming.queries.lag import lag
from streaming.queries.ownership import intervals, queues_of
from streaming.queries.present import Ends, told_ends
from streaming.queries.rebalances import rebalances_of
from streaming.queries.subject import subject
from streaming.read_model import ReadModel
from streaming.times import written

_UNOWNED = """
SELECT h.topic, h.broker, h.queue_id FROM assignment_history h
WHERE h.cluster = $cluster AND h.group = $group AND h.time <= $since AND NOT starts_with(h.topic, '%RETRY%')
GROUP BY h.topic, h.broker, h.queue_id
HAVING arg_max(h.action, (h.time, h.seq)) = 'RELEASED'
"""


@dataclass(frozen=True)
class Overview:
    """All groups at an instant, and what is wrong with them."""

    ends: Ends
    groups: list[Group]
    incidents: list[Incident]
    """Open ones that no other absorbed, the worst first."""


@dataclass(frozen=True)
class State:
    """A group at an instant."""

    ends: Ends
    group: Group
    queues: list[Queue]
    incidents: list[Incident]
    """Those that were open, the worst first, what they absorbed after them."""


@dataclass(frozen=True)
class History:
    """A group over a span."""

    window: Window
    intervals: list[Interval]
    unowned: frozenset[tuple[str, str, int]]
    """Queues (topic, broker, id) that were known and that nobody owned when the span began."""
    rebalances: list[Rebalance]
    incidents: list[Incident]
    lag: list[LagPoint]


_HEALTH = ("BAD", "WARN", "UNKNOWN", "OK")
_RANK = {"critical": 0, "warning": 1, "info": 2}


def worst_first(found: list[Incident]) -> list[Incident]:
    """By severity, then the newest."""
    return sorted(found, key=lambda i: (i.parent is not None, _RANK[i.severity], -i.opened_at, i.code, i.subject))


def _as_known(group: Group, told: Ends, at: int | None) -> Group:
    """The group, whose health is not known now if nothing of it has been told for long while others were."""
    if at is not None or not told.is_silent(group.time):
        return group
    reason = f"nothing told since {written(group.time)}; it was {group.health}"
    return group.model_copy(update={"health": "UNKNOWN", "health_reason": reason})


def overview(model: ReadModel, at: int | None = None) -> Overview:
    """All groups and open incidents.

    Raises:
        UserError: see `told_ends`.
    """
    told = told_ends(model)
    found = [i for i in incidents(model, only_open=True, at=at) if i.parent is None]
    known = [_as_known(group, told, at) for group in groups(model, at)]
    return Overview(told, sorted(known, key=lambda group: _HEALTH.index(group.health)), worst_first(found))


def state(model: ReadModel, name: str, cluster: str | None, at: int | None) -> State:
    """One group at an instant.

    Raises:
        UserError: see `streaming.queries.subject.subject`.
    """
    of = subject(model, name, cluster, at)
    found = incidents_of(model, of, only_open=True)
    told = told_ends(model)
    return State(told, _as_known(group_of(model, of), told, at), queues_of(model, of), worst_first(found))


def history(model: ReadModel, name: str, cluster: str | None, span: Window) -> History:
    """One group over a span.

    Raises:
        UserError: see `streaming.queries.subject.subject`.
    """
    of = subject(model, name, cluster)
    return History(
        window=span,
        intervals=intervals(model, of, *span),
        unowned=frozenset(
            (row["topic"], row["broker"], row["queue_id"])
            for row in model.rows(_UNOWNED, {"cluster": of.cluster, "group": of.group, "since": span.since})
        ),
        rebalances=rebalances_of(model, of, *span),
        incidents=[
            i
            for i in incidents_of(model, of._replace(instant=span.until), since=span.since)
            if i.opened_at <= span.until
        ],
        lag=lag(model, of, *span),
    )
