"""The REST API: the queries of `streaming.queries` over HTTP, with the same results as the command line."""

from fastapi import APIRouter, Depends, Request

from streaming.base.errors import NotFoundError
from streaming.serve.web.api import clients, docs, groups, health, incidents, sql
from streaming.serve.web.api.errors import RESPONSES
from streaming.serve.web.api.parameters import refuse_unknown

PREFIX = "/api/v1"

router = APIRouter(responses=RESPONSES)
for part in (health, groups, clients, incidents, sql):
    router.include_router(part.router, prefix=PREFIX, dependencies=[Depends(refuse_unknown)])


@router.get("/api/{path:path}", include_in_schema=False)
def nothing(request: Request) -> None:
    """Reject unknown addresses under ``/api``, which are not pages.

    Raises:
        NotFoundError: always.
    """
    raise NotFoundError(f"Unknown path {request.url.path}: see {PREFIX}/openapi.json for the API.")


__all__ = ["PREFIX", "docs", "health", "router"]
