"""Endpoints of incidents."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from streaming.base.times import instant_ms, now_ms
from streaming.queries import incident_detail
from streaming.queries import incidents as of_incidents
from streaming.queries.health import Severity
from streaming.queries.results import Incident, IncidentDetail
from streaming.serve.web.api.parameters import At, Cluster, StoreOf, sent

router = APIRouter(tags=["incidents"])


@router.get("/incidents", response_model=list[Incident])
def incidents(  # noqa: PLR0913  its filters
    *,
    store: StoreOf,
    at: At,
    cluster: Cluster = None,
    group: Annotated[str | None, Query(description="Only incidents of this group.")] = None,
    code: Annotated[str | None, Query(description="Only this code, such as ORDERED_QUEUE_STUCK.")] = None,
    severity: Annotated[Severity | None, Query(description="Only this severity.")] = None,
    every_one: Annotated[bool, Query(alias="all", description="Include resolved incidents.")] = False,
    resolved: Annotated[bool, Query(description="Only resolved incidents.")] = False,
    since: Annotated[str | None, Query(description="Incidents that were open at any time since then.")] = None,
    unfold: Annotated[bool, Query(description="Include incidents that another one in the list explains.")] = False,
) -> Response:
    """List the incidents open now or at a time; with `all` or `since` also resolved ones. Newest first."""
    return sent(
        store.ask_here(
            of_incidents.incidents, cluster=cluster, group=group, code=code, severity=severity,
            only_open=since is None and not every_one and not resolved, only_resolved=resolved,
            since=0 if since is None else instant_ms(since, now_ms()), at=at,
            unfold=unfold,
        )
    )  # fmt: skip


@router.get("/incidents/{incident_id}", response_model=IncidentDetail)
def incident(incident_id: str, store: StoreOf) -> Response:
    """Show one incident with its timeline and triggering event, by its id or a unique prefix of it."""
    return sent(store.ask_here(incident_detail.incident, incident_id))
