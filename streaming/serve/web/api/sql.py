"""Endpoints over all tables: one SELECT, limited in time, rows and memory, and the checks of the data."""

from typing import Annotated

from fastapi import APIRouter, Body, Request
from fastapi.responses import Response

from streaming.base.limits import SQL_CHARACTERS
from streaming.queries import quality as of_quality
from streaming.queries.results import QualityCheck, SqlResult
from streaming.serve.operator_actions import Actor
from streaming.serve.user import check_operator, current_user
from streaming.serve.web.api.parameters import SettingsOf, StoreOf, source_of
from streaming.serve.web.api.route import ApiRoute, sent_json

router = APIRouter(route_class=ApiRoute)


@router.get("/quality", tags=["health"])
def quality(store: StoreOf) -> list[QualityCheck]:
    """List the last result of each check of the data, the failed ones first."""
    return of_quality.quality(store.model())


@router.post("/sql", tags=["sql"], response_model=SqlResult)
def sql(
    request: Request,
    query: Annotated[
        str,
        Body(
            embed=True,
            max_length=SQL_CHARACTERS,
            description="One SELECT; see the README for tables, views and functions.",
            examples=["SELECT * FROM open_incidents"],
        ),
    ],
    store: StoreOf,
    settings: SettingsOf,
) -> Response:
    """Run one SELECT in DuckDB's SQL, limited to web.sql_seconds and web.sql_rows."""
    user, web = current_user(), settings.web
    with store.sql_actions.recorded(Actor(user.subject, user.name, source_of(request)), query) as recording:
        check_operator()
        answer = store.sql.ask(query, timeout_s=web.sql_seconds, limit=web.sql_rows)
        recording.rows = answer.rows
    return sent_json(answer.content)
