"""Endpoints of groups and their queues: health, owners, rebalances and lag."""

from collections.abc import Callable
from typing import Annotated, Concatenate, ParamSpec, TypeVar

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

P = ParamSpec("P")
T = TypeVar("T")

router = APIRouter(tags=["groups"], route_class=DatedRoute)


@router.get("/groups")
def groups(store: StoreOf, at: At, cluster: Cluster = None) -> list[Group]:
    """List all groups, unhealthy ones first."""
    return store.ask_here(of_groups.groups, at=at, cluster=cluster)


@router.get("/groups/{group}")
def group(name: GroupName, store: StoreOf, at: At, cluster: Cluster = None) -> Overview:
    """Show one group with its members, open incidents and last rebalances."""
    return _ask(store, of_groups.overview, name, cluster, at)


@router.get("/groups/{group}/queues")
def queues(which: InWhich, store: StoreOf, at: At) -> list[Queue]:
    """List the queues with owner, expected owner and status."""
    return _ask(store, ownership.queues, which.group, which.cluster, at, which.topic, retry=which.retry)


@router.get("/groups/{group}/owners")
def owners(which: InWhich, store: StoreOf, at: At) -> list[Interval]:
    """List the ownership interval of each queue at a time; unassigned queues are omitted."""
    return _ask(store, ownership.owners, which.group, which.cluster, at, which.topic, retry=which.retry)


@router.get("/groups/{group}/owners/{topic}/{broker}/{queue_id}")
def owner(
    *, name: GroupName, topic: str, broker: str, queue_id: int, store: StoreOf, at: At, cluster: Cluster = None
) -> Interval | None:
    """Show the ownership interval of one queue at a time; null if it was unassigned."""
    return _ask(store, ownership.who_owned, name, cluster, at, MessageQueue(topic, broker, queue_id))


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
    return _ask(store, queue_detail, name, cluster, at, MessageQueue(topic, broker, queue_id), begin)


@router.get("/groups/{group}/intervals")
def intervals(which: InWhich, store: StoreOf, period: InPeriod) -> list[Interval]:
    """List the ownership intervals of the queues within a period."""
    asked = ownership.intervals
    return _ask(store, asked, which.group, which.cluster, None, *period, which.topic, retry=which.retry)  # fmt: skip


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
    asked = ownership.diff
    return _ask(store, asked, which.group, which.cluster, begin, end, which.topic, retry=which.retry)


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
    return _ask(store, of_rebalances.rebalances, name, cluster, None, begin, end, last)


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
    return _ask(store, of_rebalances.rebalance_totals, name, cluster, None, begin, end)


@router.get("/groups/{group}/rebalances/{rebalance_id}")
def rebalance(name: GroupName, rebalance_id: str, store: StoreOf, cluster: Cluster = None) -> Rebalance:
    """Show one rebalance with all its moves, by its id or a unique prefix of it."""
    return _ask(store, of_rebalances.rebalance, name, cluster, None, rebalance_id)


@router.get("/groups/{group}/lag")
def lag(
    name: GroupName,
    store: StoreOf,
    period: InPeriod,
    cluster: Cluster = None,
    slices: Annotated[int, Query(ge=1, le=2_000, description="Number of slices of the period.")] = 120,
) -> list[LagPoint]:
    """List the lag by topic at the end of each slice of a period for which it was reported."""
    return _ask(store, of_lag.lag, name, cluster, None, *period, slices)


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
    prediction = _ask(
        store, of_what_if.what_if, name, cluster, at,
        strategy=strategy, leave=leave, join=join, clients=clients, topic=topic,
    )  # fmt: skip
    return prediction.plans


@router.get("/groups/{group}/rolling-restart")
def restart(*, name: GroupName, store: StoreOf, at: At, cluster: Cluster = None) -> RollingRestart:
    """Plan a restart of all members that moves least: the order, and what moves at each step."""
    return _ask(store, of_restart.rolling_restart, name, cluster, at)


def _ask(
    store: Store, question: Callable[Concatenate[ReadModel, GroupAt, P], T], name: str, cluster: str | None,
    at: int | None, /, *arguments: P.args, **keywords: P.kwargs,
) -> T:  # fmt: skip
    """Find a group, and return the answer to a question about it."""

    def ask(model: ReadModel) -> T:
        return question(model, find_group(model, name, cluster, at), *arguments, **keywords)

    return store.ask_here(ask)


@router.get("/owners/{topic}/{broker}/{queue_id}")
def owners_in_each_group(
    *, topic: str, broker: str, queue_id: int, store: StoreOf, at: At, cluster: Cluster = None
) -> list[QueueOwner]:
    """List who owned a queue at a time, in each group that has it."""
    asked = queue_owners.queue_owners
    return store.ask_here(asked, topic, broker, queue_id, cluster=cluster, at=at)
