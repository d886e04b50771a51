"""Endpoints of groups and their queues: health, owners, rebalances and lag."""

from typing import Annotated

from fastapi import APIRouter, Query

from rebalance_model.entities import MessageQueue
from streaming.base.limits import REBALANCES
from streaming.queries import groups as of_groups
from streaming.queries import lag as of_lag
from streaming.queries import ownership, queue_owners
from streaming.queries import rebalances as of_rebalances
from streaming.queries import rolling_restart as of_restart
from streaming.queries import what_if as of_what_if
from streaming.queries.group_at import GroupAt, find_group
from streaming.queries.plan import Plan
from streaming.queries.present import TIME_FORMS, asked_instant, begin_of
from streaming.queries.queue_history import queue_detail
from streaming.queries.queue_owners import QueueOwner
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
from streaming.serve.store import Store
from streaming.serve.web.api.parameters import (
    At,
    Cluster,
    DatedRoute,
    GroupName,
    InPeriod,
    InWhich,
    StoreOf,
)
from streaming.tables import ReadModel

router = APIRouter(tags=["groups"], route_class=DatedRoute)


def _of(store: Store, group: str, cluster: str | None, at: int | None = None) -> tuple[ReadModel, GroupAt]:
    """Return the tables, and the group that a question is about."""
    model = store.model()
    return model, find_group(model, group, cluster, at)


@router.get("/groups")
def groups(store: StoreOf, at: At, cluster: Cluster = None) -> list[Group]:
    """List all groups, unhealthy ones first."""
    return of_groups.groups(store.model(), at, cluster)


@router.get("/groups/{group}")
def group(name: GroupName, store: StoreOf, at: At, cluster: Cluster = None) -> Overview:
    """Show one group with its members, open incidents and last rebalances."""
    return of_groups.overview(*_of(store, name, cluster, at))


@router.get("/groups/{group}/queues")
def queues(which: InWhich, store: StoreOf, at: At) -> list[Queue]:
    """List the queues with owner, expected owner and status."""
    return ownership.queues(*_of(store, which.group, which.cluster, at), which.topic, retry=which.retry)


@router.get("/groups/{group}/owners")
def owners(which: InWhich, store: StoreOf, at: At) -> list[Interval]:
    """List the ownership interval of each queue at a time; unassigned queues are omitted."""
    return ownership.owners(*_of(store, which.group, which.cluster, at), which.topic, retry=which.retry)


@router.get("/groups/{group}/owners/{topic}/{broker}/{queue_id}")
def owner(
    *, name: GroupName, topic: str, broker: str, queue_id: int, store: StoreOf, at: At, cluster: Cluster = None
) -> Interval | None:
    """Show the ownership interval of one queue at a time; null if it was unassigned."""
    return ownership.who_owned(*_of(store, name, cluster, at), MessageQueue(topic, broker, queue_id))


@router.get("/groups/{group}/queues/{topic}/{broker}/{queue_id}")
def queue(
    *,
    name: GroupName,
    topic: str,
    broker: str,
    queue_id: int,
    store: StoreOf,
    at: At,
    since: Annotated[str | None, Query(description="Begin of the period; default: an hour before `at`.")] = None,
    cluster: Cluster = None,
) -> QueueDetail:
    """Show one queue at a time, and its owners, offsets, lag, lock and incidents over the period before it."""
    begin = None if since is None else begin_of(store.model(), since, at)
    return queue_detail(*_of(store, name, cluster, at), MessageQueue(topic, broker, queue_id), begin)


@router.get("/groups/{group}/intervals")
def intervals(which: InWhich, store: StoreOf, period: InPeriod) -> list[Interval]:
    """List the ownership intervals of the queues within a period."""
    return ownership.intervals(*_of(store, which.group, which.cluster), *period, which.topic, retry=which.retry)


@router.get("/groups/{group}/diff")
def diff(
    which: InWhich,
    store: StoreOf,
    earlier: Annotated[str, Query(alias="from", description=f"Earlier time: {TIME_FORMS}.")],
    later: Annotated[str | None, Query(alias="to", description="Later time; default: now.")] = None,
) -> list[OwnerChange]:
    """List the queues whose owner differs between two times."""
    end = asked_instant(later)
    begin = begin_of(store.model(), earlier, end)
    return ownership.diff(*_of(store, which.group, which.cluster, begin), end, which.topic, retry=which.retry)


@router.get("/groups/{group}/rebalances")
def rebalances(
    *,
    name: GroupName,
    store: StoreOf,
    since: Annotated[str | None, Query(description="Start time; default: the beginning of history.")] = None,
    until: Annotated[str | None, Query(description="End time; default: now.")] = None,
    cluster: Cluster = None,
    last: Annotated[int, Query(ge=1, le=REBALANCES, description="Maximum number of rebalances, newest first.")] = 20,
) -> list[Rebalance]:
    """List the rebalances, newest first, with cause, trigger and cost."""
    end = asked_instant(until)
    begin = begin_of(store.model(), since, end)
    return of_rebalances.rebalances(*_of(store, name, cluster), begin, end, last)


@router.get("/groups/{group}/rebalances/totals")
def totals(
    *,
    name: GroupName,
    store: StoreOf,
    since: Annotated[str | None, Query(description="Start time; default: the beginning of history.")] = None,
    until: Annotated[str | None, Query(description="End time; default: now.")] = None,
    cluster: Cluster = None,
) -> RebalanceTotals:
    """Show what the rebalances of a period have cost together, the costliest one, and their number by cause."""
    end = asked_instant(until)
    begin = begin_of(store.model(), since, end)
    return of_rebalances.rebalance_totals(*_of(store, name, cluster), begin, end)


@router.get("/groups/{group}/rebalances/{rebalance_id}")
def rebalance(name: GroupName, rebalance_id: str, store: StoreOf, cluster: Cluster = None) -> Rebalance:
    """Show one rebalance with all its moves, by its id or a unique prefix of it."""
    return of_rebalances.rebalance(*_of(store, name, cluster), rebalance_id)


@router.get("/groups/{group}/lag")
def lag(
    name: GroupName,
    store: StoreOf,
    period: InPeriod,
    cluster: Cluster = None,
    slices: Annotated[int, Query(ge=1, le=2_000, description="Number of slices of the period.")] = 120,
) -> list[LagPoint]:
    """List the lag by topic at the end of each slice of a period for which it was reported."""
    return of_lag.lag(*_of(store, name, cluster), *period, slices)


@router.get("/groups/{group}/what-if")
def plans(
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
) -> list[Plan]:
    """Predict the allocation after clients join or leave: the plan of each strategy, the group's own first."""
    prediction = of_what_if.what_if(
        *_of(store, name, cluster, at), strategy=strategy, leave=leave, join=join, clients=clients, topic=topic
    )
    return prediction.plans


@router.get("/groups/{group}/rolling-restart")
def restart(*, name: GroupName, store: StoreOf, at: At, cluster: Cluster = None) -> RollingRestart:
    """Plan a restart of all members that moves least: the order, and what moves at each step."""
    return of_restart.rolling_restart(*_of(store, name, cluster, at))


@router.get("/owners/{topic}/{broker}/{queue_id}")
def owners_in_each_group(
    *, topic: str, broker: str, queue_id: int, store: StoreOf, at: At, cluster: Cluster = None
) -> list[QueueOwner]:
    """List who owned a queue at a time, in each group that has it."""
    return queue_owners.queue_owners(store.model(), topic, broker, queue_id, cluster=cluster, at=at)
