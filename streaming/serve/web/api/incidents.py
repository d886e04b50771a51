"""Endpoints of incidents."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Body, Query, Request

from streaming.base.place import Place, tables_of
from streaming.base.times import duration_ms, now_ms
from streaming.queries import incident_detail
from streaming.queries import incidents as of_incidents
from streaming.queries import notifications as of_actions
from streaming.queries.health import Severity
from streaming.queries.notifications import ActionKind
from streaming.queries.present import asked_instant, begin_of
from streaming.queries.results import Acknowledgement, AlertSilence, Closing, Incident, IncidentDetail, RecordedAction
from streaming.serve.alerting import status
from streaming.serve.operator_actions import Action, Actor, recorded
from streaming.serve.user import check_operator
from streaming.serve.web.api.parameters import At, Cluster, DatedRoute, SettingsOf, StoreOf, actor_of

router = APIRouter(tags=["incidents"], route_class=DatedRoute)

_By = Annotated[
    str | None,
    Body(
        min_length=1, max_length=100,
        description="Who does it, kept with it; required unless a person has signed in, whose name counts instead.",
    ),
]  # fmt: skip
_REASON = 500
"""The maximum characters of a reason."""


@router.get("/incidents")
def incidents(
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
) -> list[Incident]:
    """List the incidents open now or at a time; with `all` or `since` also resolved ones. Newest first."""
    model = store.model()
    return of_incidents.incidents(
        model, cluster=cluster, group=group, code=code, severity=severity,
        only_open=since is None and not every_one and not resolved, only_resolved=resolved,
        since=begin_of(model, since, at), at=at, unfold=unfold,
    )  # fmt: skip


@router.get("/incidents/{incident_id}")
def incident(incident_id: str, store: StoreOf) -> IncidentDetail:
    """Show one incident with its timeline and triggering event, by its id or a unique prefix of it."""
    return incident_detail.incident(store.model(), incident_id)


@router.post("/incidents/{incident_id}/acknowledge")
def acknowledge(
    request: Request,
    incident_id: str,
    settings: SettingsOf,
    by: _By = None,
    reason: Annotated[str, Body(max_length=_REASON, description="Why; may be empty.")] = "",
) -> Acknowledgement:
    """Acknowledge an open incident: no more reminders of it are sent. Escalation and resolution still are."""
    now, tables, actor = now_ms(), tables_of(settings), actor_of(request, by)
    with recorded(tables, actor, "ACKNOWLEDGE", incident_id, reason) as action:
        check_operator()
        action.target = status.acknowledge(tables, incident_id, reason, actor.name, now).incident_id
    return Acknowledgement(time=now, author=actor.name, reason=reason)


@router.post("/incidents/{incident_id}/silence")
def silence(
    request: Request,
    incident_id: str,
    settings: SettingsOf,
    reason: Annotated[str, Body(min_length=1, max_length=_REASON, description="Why, kept with it.")],
    span: Annotated[str, Body(alias="for", description="Duration: 90s, 30m, 2h or 1d.")],
    by: _By = None,
) -> AlertSilence:
    """Suppress alerts of the incident's code in its group for a time. Those still open at its end are sent then."""
    tables, actor = tables_of(settings), actor_of(request, by)
    with recorded(tables, actor, "SILENCE", incident_id, f"for {span}: {reason}"):
        check_operator()
        made = status.silence_like(tables, incident_id, duration_ms(span), reason, actor.name, now_ms())
    assert made.until is not None
    return AlertSilence(silence_id=made.control_id, until=made.until, author=made.author, reason=made.reason)


@router.post("/incidents/{incident_id}/close")
def close(
    request: Request,
    incident_id: str,
    settings: SettingsOf,
    reason: Annotated[str, Body(min_length=1, max_length=_REASON, description="Why, kept with it.")],
    by: _By = None,
) -> Closing:
    """Close an incident: it counts as resolved until it becomes worse; its health is judged as before."""
    return _closing(status.close, "CLOSE", tables_of(settings), actor_of(request, by), incident_id, reason)


@router.post("/incidents/{incident_id}/reopen")
def reopen(
    request: Request,
    incident_id: str,
    settings: SettingsOf,
    reason: Annotated[str, Body(min_length=1, max_length=_REASON, description="Why, kept with it.")],
    by: _By = None,
) -> Closing:
    """Undo the closing of an incident: it is open again if its condition still holds."""
    return _closing(status.reopen, "REOPEN", tables_of(settings), actor_of(request, by), incident_id, reason)


def _closing(
    act: Callable[[Place, str, str, str, int], Incident], action: Action, tables: Place, actor: Actor,
    incident_id: str, reason: str,
) -> Closing:  # fmt: skip
    """Close or reopen an incident, with a row in the audit trail."""
    now = now_ms()
    with recorded(tables, actor, action, incident_id, reason) as recording:
        check_operator()
        recording.target = act(tables, incident_id, reason, actor.name, now).incident_id
    return Closing(time=now, author=actor.name, reason=reason)


@router.get("/actions")
def list_actions(
    *,
    store: StoreOf,
    since: Annotated[str | None, Query(description="Actions since then. Default: all.")] = None,
    kind: Annotated[ActionKind | None, Query(description="Only actions on incidents, or only SQL.")] = None,
    last: Annotated[int, Query(ge=1, le=of_actions.LAST, description="Maximum number of actions.")] = of_actions.LAST,
) -> list[RecordedAction]:
    """List who acknowledged, silenced or closed incidents, ran SQL, or was refused, the newest first."""
    return of_actions.operator_actions(store.model(), since=asked_instant(since) or 0, kind=kind, last=last)
