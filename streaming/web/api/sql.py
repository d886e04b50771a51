"""SQL of one's own over the tables and the named views: one SELECT, limited in time and rows."""

from typing import Annotated

from fastapi import APIRouter, Body
from fastapi.responses import Response
from pydantic import Field

from streaming.queries.answers import Answer
from streaming.read_model import ReadModel
from streaming.web.api.parameters import SettingsOf, StoreOf, sent

router = APIRouter(tags=["sql"])

_QUERY_CHARACTERS_MAX = 100_000


class Rows(Answer):
    """What a query gave."""

    rows: tuple[dict[str, object], ...]
    cut: bool = Field(description="Whether there are more rows than web.sql_rows, which are left out.")


@router.post("/sql", response_model=Rows)
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
    """Ask with a SELECT of your own."""
    return sent(store.ask_here(_rows, query, settings.web.sql_seconds, settings.web.sql_rows))


def _rows(model: ReadModel, query: str, seconds: float, limit: int) -> Rows:
    found = model.ask(query, timeout_s=seconds, limit=limit)
    return Rows(rows=tuple(found.table.to_pylist()), cut=found.cut)
