"""Groups: how they are, who owns their queues, why they moved."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query
from fastapi.responses import Response

from streaming.errors import UserError
from streaming.queries import groups as of_groups
from streaming.queries import lag as of_lag
from streaming.queries import ownership, what_if
from streaming.queries import rebalances as of_rebalances
from streaming.queries.answers import Group, Interval, LagPoint, Overview, OwnerChange, Plan, Queue, Rebalance
from streaming.queries.subject import subject
from streaming.read_model import ReadModel
from streaming.times import instant_ms, now_ms
from streaming.web.api.parameters import (
    FORMS,
    At,
    Cluster,
    GroupName,
    InSpan,
    InWhich,
    Span,
    StoreOf,
    Which,
    sent,
)

router = APIRouter(tags=["groups"])

_NEWCOMERS_MAX = 1_000


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
    earlier: Annotated[str, Query(alias="from", description=f"The earlier instant: {FORMS}.")],
    later: Annotated[str | None, Query(alias="to", description="The later one. Now, if it isn't given.")] = None,
) -> Response:
    """Which queues had another owner at the later of two instants."""
    now = now_ms()
    end = None if later is None else instant_ms(later, now)
    return sent(store.ask_here(ownership.diff, **which._asdict(), earlier=instant_ms(earlier, now), later=end))


@router.get("/groups/{group}/rebalances", response_model=list[Rebalance])
def rebalances(  # noqa: PLR0913  its filters
    *,
    name: GroupName,
    store: StoreOf,
    since: Annotated[str | None, Query(description="From when; from the first, if it isn't given.")] = None,
    until: Annotated[str | None, Query(description="Up to when. Now, if it isn't given.")] = None,
    cluster: Cluster = None,
    last: Annotated[int, Query(ge=1, description="The newest so many.")] = 20,
) -> Response:
    """When it rebalanced, newest first: why, who did it, what it cost."""
    now = now_ms()
    begin, end = (None if text is None else instant_ms(text, now) for text in (since, until))
    asked = of_rebalances.rebalances
    return sent(store.ask_here(asked, name, cluster=cluster, since=begin or 0, until=end, last=last))


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
    leave: Annotated[tuple[str, ...], Query(description="Clients that go.")] = (),
    join: Annotated[tuple[str, ...], Query(description="Clients that come, by name, or how many.")] = (),
    clients: Annotated[tuple[str, ...] | None, Query(description="These, instead of the members.")] = None,
    cluster: Cluster = None,
    topic: Annotated[str | None, Query(description="Only this topic.")] = None,
) -> Response:
    """Who would get what, were clients to go or come: the plan of each strategy, the group's own first."""
    asked = Change(leave=leave, join=join, clients=clients)
    return sent(store.ask_here(_plans, name, asked, topic=topic, cluster=cluster, at=at))


class Change(NamedTuple):
    """Who goes and comes."""

    leave: Sequence[str]
    join: Sequence[str]
    clients: Sequence[str] | None


def _plans(  # noqa: PLR0913  what may change
    model: ReadModel, name: str, change: Change, *, topic: str | None, cluster: str | None, at: int | None
) -> list[Plan]:
    if any(one.isdecimal() and int(one) > _NEWCOMERS_MAX for one in change.join):
        raise UserError(f"join: at most {_NEWCOMERS_MAX} clients can come.")
    members = change.clients
    if members is None:
        members = of_groups.last_told(model, subject(model, name, cluster, at)).members
    join = what_if.coming(members, change.join)
    return what_if.what_if(
        model, name, clients=change.clients, leave=change.leave, join=join, topic=topic, cluster=cluster, at=at
    )


def _owners(model: ReadModel, which: Which, at: int | None) -> list[Interval]:
    of = subject(model, which.group, which.cluster, at)
    return ownership.owners_of(model, of, which.topic, retry=which.retry)


def _intervals(model: ReadModel, which: Which, span: Span) -> list[Interval]:
    of = subject(model, which.group, which.cluster)
    return ownership.intervals(model, of, span.since, span.until, which.topic, which.retry)


def _lag(model: ReadModel, name: str, cluster: str | None, span: Span, slices: int) -> list[LagPoint]:
    return of_lag.lag(model, subject(model, name, cluster), span.since, span.until, slices)
