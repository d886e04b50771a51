"""Endpoints of clients."""

from typing import Annotated

from fastapi import APIRouter, Query

from streaming.queries import clients as of_clients
from streaming.queries.present import begin_of
from streaming.queries.results import ClientDetail, GroupClient
from streaming.serve.web.api.parameters import At, Cluster, DatedRoute, StoreOf

router = APIRouter(tags=["clients"], route_class=DatedRoute)
InGroup = Annotated[str | None, Query(description="Only in this group.")]


@router.get("/clients")
def clients(store: StoreOf, at: At, group: InGroup = None, cluster: Cluster = None) -> list[GroupClient]:
    """List clients with version, language, address, last heartbeat, subscriptions, queues and open incidents."""
    return of_clients.clients(store.model(), group, cluster=cluster, at=at)


@router.get("/clients/{client_id}")
def client(
    *,
    client_id: str,
    store: StoreOf,
    at: At,
    group: InGroup = None,
    cluster: Cluster = None,
    since: Annotated[str | None, Query(description="Queues and incidents since then; default: all of history.")] = None,
) -> ClientDetail:
    """Show one client in its groups, its queues over time, and its incidents."""
    model = store.model()
    begin = begin_of(model, since, at)
    return of_clients.client(model, client_id, group=group, cluster=cluster, since=begin, at=at)
