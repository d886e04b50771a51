"""The REST API: the questions of `streaming.queries` over HTTP, with the same answers as the command line."""

from fastapi import APIRouter, Request

from streaming.errors import NotFoundError
from streaming.web.api import groups, health, incidents, sql
from streaming.web.api.errors import RESPONSES

PREFIX = "/api/v1"

router = APIRouter(responses=RESPONSES)
for part in (health, groups, incidents, sql):
    router.include_router(part.router, prefix=PREFIX)


@router.get("/api/{path:path}", include_in_schema=False)
def nothing(request: Request) -> None:
    """What else is asked below ``/api`` is no page.

    Raises:
        NotFoundError: always.
    """
    raise NotFoundError(f"There is no {request.url.path} to GET: {PREFIX}/openapi.json tells what there is.")


__all__ = ["PREFIX", "health", "router"]
