"""Groups: how they are, who owns their queues, why they moved."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from streaming.queries import groups as of_groups
from streaming.queries import lag as of_lag
from streaming.queries import ownership, what_if
from streaming.queries import rebalances as of_rebalances
from streaming.queries.answers import Group, Interval, LagPoint, Overview, OwnerChange, Plan, Queue, Rebalance
from streaming.queries.subject import instant_of, subject
from streaming.read_model import ReadModel
from streaming.times import instant_ms
from streaming.web.api.parameters import At, Cluster, GroupName, InSpan, InWhich, Span, StoreOf, Which, now_ms, sent

router = APIRouter(tags=["groups"])


@router.get("/groups", response_model=list[Group])
def groups(store: StoreOf, at: At, cluster: Cluster = None) -> Response:
    """Every group, the unhealthy ones first."""
    return sent(store.ask_here(of_groups.groups, at=at, cluster=cluster))


@router.get("/groups/{group}", response_model=Overview)
def group(name: GroupName, store: StoreOf, at: At, cluster: Cluster = None) -> Response:
    """How one group is: its members, what is wrong with it, its last rebalances."""
    return sent(store.ask_here(of_groups.overview, name, cluster=cluster, at=at))


@router.get("/groups/{group}/queues", response_model=list[Queue])
def queues(which: InWhich, store: StoreOf, at: At) -> Response:
    """Every queue: who has it, who should, and how it goes."""
    return sent(store.ask_here(ownership.queues, **which._asdict(), at=at))


@router.get("/groups/{group}/owners", response_model=list[Interval])
def owners(which: InWhich, store: StoreOf, at: At) -> Response:
    """Who owned each queue at an instant, from when to when; a queue that nobody owned is left out."""
    return sent(store.ask_here(_owners, which, at))


@router.get("/groups/{group}/owners/{topic}/{broker}/{queue_id}", response_model=Interval | None)
def owner(  # noqa: PLR0913  a queue has four names
    *, name: GroupName, topic: str, broker: str, queue_id: int, store: StoreOf, at: At, cluster: Cluster = None
) -> Response:
    """Who owned one queue at an instant, from when to when; null where nobody did."""
    return sent(store.ask_here(ownership.who_owned, name, topic, broker, queue_id, cluster=cluster, at=at))


@router.get("/groups/{group}/intervals", response_model=list[Interval])
def intervals(which: InWhich, store: StoreOf, span: InSpan) -> Response:
    """Who owned each queue within a span."""
    return sent(store.ask_here(_intervals, which, span))


@router.get("/groups/{group}/diff", response_model=list[OwnerChange])
def diff(
    which: InWhich,
    store: StoreOf,
    earlier: Annotated[str, Query(alias="from", description="The earlier instant.")],
    later: Annotated[str | None, Query(alias="to", description="The later one. Now, if it isn't given.")] = None,
) -> Response:
    """Which queues had another owner at the later of two instants."""
    now = now_ms()
    end = None if later is None else instant_ms(later, now)
    return sent(store.ask_here(ownership.diff, **which._asdict(), earlier=instant_ms(earlier, now), later=end))


@router.get("/groups/{group}/rebalances", response_model=list[Rebalance])
def rebalances(
    name: GroupName,
    store: StoreOf,
    span: InSpan,
    cluster: Cluster = None,
    last: Annotated[int | None, Query(ge=1, description="Only so many, the newest.")] = None,
) -> Response:
    """The rebalances that began within a span, newest first: why, who, what they cost."""
    asked = of_rebalances.rebalances
    return sent(store.ask_here(asked, name, cluster=cluster, since=span.since, until=span.until, last=last))


@router.get("/groups/{group}/rebalances/{rebalance_id}", response_model=Rebalance)
def rebalance(name: GroupName, rebalance_id: str, store: StoreOf, cluster: Cluster = None) -> Response:
    """One rebalance with each queue that it moved, by its id or the beginning of it."""
    return sent(store.ask_here(of_rebalances.rebalance, name, rebalance_id, cluster=cluster))


@router.get("/groups/{group}/lag", response_model=list[LagPoint])
def lag(
    name: GroupName,
    store: StoreOf,
    span: InSpan,
    cluster: Cluster = None,
    slices: Annotated[int, Query(ge=1, le=2_000, description="Into how many slices the span is cut.")] = 120,
) -> Response:
    """The lag by topic at the end of each slice of a span in which anything of it was told."""
    return sent(store.ask_here(_lag, name, cluster, span, slices))


@router.get("/groups/{group}/what-if", response_model=list[Plan])
def plans(  # noqa: PLR0913  what may change
    *,
    name: GroupName,
    store: StoreOf,
    at: At,
    leave: Annotated[tuple[str, ...], Query(description="Client ids that go.")] = (),
    join: Annotated[tuple[str, ...], Query(description="Client ids that come.")] = (),
    cluster: Cluster = None,
    topic: Annotated[str | None, Query(description="Only this topic.")] = None,
) -> Response:
    """Who would get what, were clients to go or come: the plan of each strategy, the group's own first."""
    return sent(store.ask_here(what_if.what_if, name, leave=leave, join=join, topic=topic, cluster=cluster, at=at))


def _owners(model: ReadModel, which: Which, at: int | None) -> list[Interval]:
    of = subject(model, which.group, which.cluster, at)
    then = instant_of(at)
    found = ownership.intervals(model, of, then, then, which.topic, which.retry)
    return [interval for interval in found if interval.to_time is None or then < interval.to_time]


def _intervals(model: ReadModel, which: Which, span: Span) -> list[Interval]:
    of = subject(model, which.group, which.cluster)
    return ownership.intervals(model, of, span.since, span.until, which.topic, which.retry)


def _lag(model: ReadModel, name: str, cluster: str | None, span: Span, slices: int) -> list[LagPoint]:
    return of_lag.lag(model, subject(model, name, cluster), span.since, span.until, slices)
