"""Incidents: what is wrong, and was."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from streaming.queries import incident_story
from streaming.queries import incidents as of_incidents
from streaming.queries.answers import Incident, IncidentStory, Severity
from streaming.times import instant_ms, now_ms
from streaming.web.api.parameters import At, Cluster, StoreOf, sent

router = APIRouter(tags=["incidents"])


@router.get("/incidents", response_model=list[Incident])
def incidents(  # noqa: PLR0913  its filters
    *,
    store: StoreOf,
    at: At,
    cluster: Cluster = None,
    group: Annotated[str | None, Query(description="Only of this group.")] = None,
    code: Annotated[str | None, Query(description="Only of this code, as ORDERED_QUEUE_STUCK.")] = None,
    severity: Annotated[Severity | None, Query(description="Only of this severity.")] = None,
    every_one: Annotated[bool, Query(alias="all", description="Those that are over, too.")] = False,
    since: Annotated[str | None, Query(description="Whatever was open at some time from then on.")] = None,
    unfold: Annotated[bool, Query(description="Those that another one in the list explains, too.")] = False,
) -> Response:
    """List what is open now, or was at an instant; with `all` or `since` what is over, too, the newest first."""
    return sent(
        store.ask_here(
            of_incidents.incidents, cluster=cluster, group=group, code=code, severity=severity,
            only_open=since is None and not every_one, since=0 if since is None else instant_ms(since, now_ms()), at=at,
            unfold=unfold,
        )
    )  # fmt: skip


@router.get("/incidents/{incident_id}", response_model=IncidentStory)
def incident(incident_id: str, store: StoreOf) -> Response:
    """One incident with its life and the event that opened it, by its id or the beginning of it."""
    return sent(store.ask_here(incident_story.incident, incident_id))
