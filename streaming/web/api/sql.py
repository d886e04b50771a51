"""SQL of one's own over the tables and the named views: one SELECT, limited in time and rows."""

import threading
from typing import Annotated

from fastapi import APIRouter, Body
from fastapi.responses import Response

from streaming.errors import UserError
from streaming.queries.answers import SqlAnswer
from streaming.queries.sql import sql as ask
from streaming.web.api.parameters import SettingsOf, StoreOf, sent

router = APIRouter(tags=["sql"])

_QUERY_CHARACTERS_MAX = 100_000
_AT_ONCE, _PATIENCE_SECONDS = 2, 1
"""More would take from the pages what memory and cores there are."""
_free = threading.BoundedSemaphore(_AT_ONCE)


@router.post("/sql", response_model=SqlAnswer)
def sql(
    query: Annotated[
        str,
        Body(
            embed=True,
            max_length=_QUERY_CHARACTERS_MAX,
            description="One SELECT; see the README for tables, views and functions.",
            examples=["SELECT * FROM open_incidents"],
        ),
    ],
    store: StoreOf,
    settings: SettingsOf,
) -> Response:
    """One SELECT of your own, in DuckDB's SQL: it may take web.sql_seconds and give web.sql_rows."""
    if not _free.acquire(timeout=_PATIENCE_SECONDS):
        raise UserError(f"{_AT_ONCE} queries are running already: ask again when they are done.")
    try:
        return sent(store.ask_here(ask, query, timeout_s=settings.web.sql_seconds, limit=settings.web.sql_rows))
    finally:
        _free.release()
