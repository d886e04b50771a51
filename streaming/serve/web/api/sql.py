"""Custom SQL over tables and views: one SELECT, limited in time, rows and memory."""

from typing import Annotated

from fastapi import APIRouter, Body
from fastapi.responses import Response

from streaming.base.limits import SQL_CHARACTERS
from streaming.queries.results import SqlResult
from streaming.serve.user import check_operator
from streaming.serve.web.api.parameters import SettingsOf, StoreOf, sent_json

router = APIRouter(tags=["sql"])


@router.post("/sql", response_model=SqlResult)
def sql(
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
    check_operator()
    return sent_json(store.sql.ask(query, timeout_s=settings.web.sql_seconds, limit=settings.web.sql_rows))
