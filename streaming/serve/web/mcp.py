"""The path ``/mcp``: the server of the Model Context Protocol, if its package is installed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.util import find_spec
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from streaming.base.settings import Settings
from streaming.serve.store import Store
from streaming.serve.web.api.errors import failure

PATH = "/mcp"


def add_mcp(app: FastAPI, settings: Settings, store: Store) -> None:
    """Add the path to an application; without the package it says how to install that."""
    if find_spec("mcp") is None:
        app.add_api_route(PATH, _not_installed, methods=["GET", "POST", "DELETE"], include_in_schema=False)
        return
    from streaming.serve.mcp.questions import http_lifespan, http_routes, question_server

    server = question_server(settings, store, store.sql_actions)
    app.router.routes.extend(http_routes(server))
    outer = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(application: FastAPI) -> AsyncIterator[Any]:
        async with outer(application) as state, http_lifespan(server):
            yield state

    app.router.lifespan_context = lifespan


def _not_installed(_: Request) -> JSONResponse:
    return failure(HTTPStatus.NOT_IMPLEMENTED, "MCP is not installed here: install rebalance-watch[mcp].")
