"""Custom SQL over tables and views: one SELECT, limited in time and rows."""

import threading
from typing import Annotated

from fastapi import APIRouter, Body
from fastapi.responses import Response

from streaming.base.errors import UserError
from streaming.queries.results import SqlResult
from streaming.queries.sql import sql as ask
from streaming.serve.web.api.parameters import SettingsOf, StoreOf, sent

router = APIRouter(tags=["sql"])

_QUERY_CHARACTERS_MAX = 100_000
_AT_ONCE, _PATIENCE_SECONDS = 2, 1
"""The number of concurrent queries, so that memory and cores are left for the pages, and the wait for a free one."""
_free = threading.BoundedSemaphore(_AT_ONCE)


@router.post("/sql", response_model=SqlResult)
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
    """Run one SELECT in DuckDB's SQL, limited to web.sql_seconds and web.sql_rows."""
    if not _free.acquire(timeout=_PATIENCE_SECONDS):
        raise UserError(f"{_AT_ONCE} queries are already running: retry later.")
    try:
        return sent(store.ask_here(ask, query, timeout_s=settings.web.sql_seconds, limit=settings.web.sql_rows))
    finally:
        _free.release()
