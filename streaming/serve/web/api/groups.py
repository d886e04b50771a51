"""Endpoints of groups: health, queue owners, rebalances and lag."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from streaming.base.limits import REBALANCES
from streaming.base.times import instant_ms, now_ms
from streaming.queries import groups as of_groups
from streaming.queries import lag as of_lag
from streaming.queries import ownership, queue_history
from streaming.queries import rebalances as of_rebalances
from streaming.queries import rolling_restart as of_restart
from streaming.queries import what_if as of_what_if
from streaming.queries.group_at import find_group
from streaming.queries.period import TIME_FORMS, Period
from streaming.queries.plan import Plan
from streaming.queries.results import (
    Group,
    Interval,
    LagPoint,
    Overview,
    OwnerChange,
    Queue,
    QueueDetail,
    Rebalance,
    RebalanceTotals,
)
from streaming.queries.rolling_restart import RollingRestart
from streaming.serve.web.api.parameters import (
    At,
    Cluster,
    GroupName,
    InPeriod,
    InWhich,
    StoreOf,
    Which,
    sent,
)
from streaming.tables import ReadModel

router = APIRouter(tags=["groups"])


@router.get("/groups", response_model=list[Group])
def groups(store: StoreOf, at: At, cluster: Cluster = None) -> Response:
    """List all groups, unhealthy ones first."""
    return sent(store.ask_here(of_groups.groups, at=at, cluster=cluster))


@router.get("/groups/{group}", response_model=Overview)
def group(name: GroupName, store: StoreOf, at: At, cluster: Cluster = None) -> Response:
    """Show one group with its members, open incidents and last rebalances."""
    return sent(store.ask_here(of_groups.overview, name, cluster=cluster, at=at))


@router.get("/groups/{group}/queues", response_model=list[Queue])
def queues(which: InWhich, store: StoreOf, at: At) -> Response:
    """List the queues with owner, expected owner and status."""
    return sent(store.ask_here(ownership.queues, **which._asdict(), at=at))


@router.get("/groups/{group}/owners", response_model=list[Interval])
def owners(which: InWhich, store: StoreOf, at: At) -> Response:
    """List the ownership interval of each queue at a time; unassigned queues are omitted."""
    return sent(store.ask_here(_owners, which, at))


@router.get("/groups/{group}/owners/{topic}/{broker}/{queue_id}", response_model=Interval | None)
def owner(  # noqa: PLR0913  a queue has four names
    *, name: GroupName, topic: str, broker: str, queue_id: int, store: StoreOf, at: At, cluster: Cluster = None
) -> Response:
    """Show the ownership interval of one queue at a time; null if it was unassigned."""
    return sent(store.ask_here(ownership.who_owned, name, topic, broker, queue_id, cluster=cluster, at=at))


@router.get("/groups/{group}/queues/{topic}/{broker}/{queue_id}", response_model=QueueDetail)
def queue(  # noqa: PLR0913  a queue has four names
    *,
    name: GroupName,
    topic: str,
    broker: str,
    queue_id: int,
    store: StoreOf,
    at: At,
    since: Annotated[str | None, Query(description="Begin of the period; default: an hour before `at`.")] = None,
    cluster: Cluster = None,
) -> Response:
    """Show one queue at a time, and its owners, offsets, lag, lock and incidents over the period before it."""
    begin = None if since is None else instant_ms(since, now_ms())
    asked = queue_history.queue_detail
    return sent(store.ask_here(asked, name, topic, broker, queue_id, cluster=cluster, since=begin, at=at))


@router.get("/groups/{group}/intervals", response_model=list[Interval])
def intervals(which: InWhich, store: StoreOf, period: InPeriod) -> Response:
    """List the ownership intervals of the queues within a period."""
    return sent(store.ask_here(_intervals, which, period))


@router.get("/groups/{group}/diff", response_model=list[OwnerChange])
def diff(
    which: InWhich,
    store: StoreOf,
    earlier: Annotated[str, Query(alias="from", description=f"Earlier time: {TIME_FORMS}.")],
    later: Annotated[str | None, Query(alias="to", description="Later time; default: now.")] = None,
) -> Response:
    """List the queues whose owner differs between two times."""
    now = now_ms()
    end = None if later is None else instant_ms(later, now)
    return sent(store.ask_here(ownership.diff, **which._asdict(), earlier=instant_ms(earlier, now), later=end))


@router.get("/groups/{group}/rebalances", response_model=list[Rebalance])
def rebalances(  # noqa: PLR0913  its filters
    *,
    name: GroupName,
    store: StoreOf,
    since: Annotated[str | None, Query(description="Start time; default: the beginning of history.")] = None,
    until: Annotated[str | None, Query(description="End time; default: now.")] = None,
    cluster: Cluster = None,
    last: Annotated[int, Query(ge=1, le=REBALANCES, description="Maximum number of rebalances, newest first.")] = 20,
) -> Response:
    """List the rebalances, newest first, with cause, trigger and cost."""
    now = now_ms()
    begin, end = (None if text is None else instant_ms(text, now) for text in (since, until))
    asked = of_rebalances.rebalances
    return sent(store.ask_here(asked, name, cluster=cluster, since=begin or 0, until=end, last=last))


@router.get("/groups/{group}/rebalances/totals", response_model=RebalanceTotals)
def totals(
    *,
    name: GroupName,
    store: StoreOf,
    since: Annotated[str | None, Query(description="Start time; default: the beginning of history.")] = None,
    until: Annotated[str | None, Query(description="End time; default: now.")] = None,
    cluster: Cluster = None,
) -> Response:
    """Show what the rebalances of a period have cost together, the costliest one, and their number by cause."""
    now = now_ms()
    begin, end = (None if text is None else instant_ms(text, now) for text in (since, until))
    return sent(store.ask_here(_totals, name, cluster, begin or 0, end))


@router.get("/groups/{group}/rebalances/{rebalance_id}", response_model=Rebalance)
def rebalance(name: GroupName, rebalance_id: str, store: StoreOf, cluster: Cluster = None) -> Response:
    """Show one rebalance with all its moves, by its id or a unique prefix of it."""
    return sent(store.ask_here(of_rebalances.rebalance, name, rebalance_id, cluster=cluster))


@router.get("/groups/{group}/lag", response_model=list[LagPoint])
def lag(
    name: GroupName,
    store: StoreOf,
    period: InPeriod,
    cluster: Cluster = None,
    slices: Annotated[int, Query(ge=1, le=2_000, description="Number of slices of the period.")] = 120,
) -> Response:
    """List the lag by topic at the end of each slice of a period for which it was reported."""
    return sent(store.ask_here(_lag, name, cluster, period, slices))


@router.get("/groups/{group}/what-if", response_model=list[Plan])
def plans(  # noqa: PLR0913  what may change
    *,
    name: GroupName,
    store: StoreOf,
    at: At,
    leave: Annotated[tuple[str, ...], Query(description="Clients that leave, by id or the end of one.")] = (),
    join: Annotated[tuple[str, ...], Query(description="Clients that join, by name or number.")] = (),
    clients: Annotated[tuple[str, ...] | None, Query(description="Clients instead of the current members.")] = None,
    cluster: Cluster = None,
    topic: Annotated[str | None, Query(description="Only this topic.")] = None,
    strategy: Annotated[
        str | None, Query(description="A strategy to include even if the policy does not state what it needs.")
    ] = None,
) -> Response:
    """Predict the allocation after clients join or leave: the plan of each strategy, the group's own first."""
    asked = {
        "strategy": strategy,
        "leave": leave,
        "join": join,
        "clients": clients,
        "topic": topic,
        "cluster": cluster,
        "at": at,
    }
    return sent(store.ask_here(_plans, name, asked))


@router.get("/groups/{group}/rolling-restart", response_model=RollingRestart)
def restart(*, name: GroupName, store: StoreOf, at: At, cluster: Cluster = None) -> Response:
    """Plan a restart of all members that moves least: the order, and what moves at each step."""
    return sent(store.ask_here(of_restart.rolling_restart, name, cluster=cluster, at=at))


def _totals(model: ReadModel, name: str, cluster: str | None, since: int, until: int | None) -> RebalanceTotals:
    return of_rebalances.rebalance_totals(model, find_group(model, name, cluster), since, until)


def _plans(model: ReadModel, name: str, asked: Mapping[str, Any]) -> list[Plan]:
    return of_what_if.what_if(model, name, **asked).plans


def _owners(model: ReadModel, which: Which, at: int | None) -> list[Interval]:
    of = find_group(model, which.group, which.cluster, at)
    return ownership.owners_of(model, of, which.topic, retry=which.retry)


def _intervals(model: ReadModel, which: Which, period: Period) -> list[Interval]:
    of = find_group(model, which.group, which.cluster)
    return ownership.intervals(model, of, period.since, period.until, which.topic, which.retry)


def _lag(model: ReadModel, name: str, cluster: str | None, period: Period, slices: int) -> list[LagPoint]:
    return of_lag.lag(model, find_group(model, name, cluster), period.since, period.until, slices)
