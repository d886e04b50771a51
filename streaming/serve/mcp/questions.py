"""Create the server with all its tools and resources, for standard input and output, or for HTTP."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from streaming.base.settings import Settings
from streaming.serve.mcp.brief import in_words
from streaming.serve.mcp.descriptions import add_resources
from streaming.serve.mcp.groups import GroupTools
from streaming.serve.mcp.incidents import IncidentTools
from streaming.serve.mcp.ownership import OwnershipTools
from streaming.serve.mcp.server import McpServer
from streaming.serve.operator_actions import SqlActions
from streaming.serve.store import Store

PATH = "/mcp"
"""The path of the server on the dashboard's port."""


def question_server(settings: Settings, store: Store, sql_actions: SqlActions | None) -> McpServer:
    """Create the server of these tables.

    Args:
        settings: of the process.
        store: the tables.
        sql_actions: records the users of SQL; None: the user has the tables anyway.
    """
    server = McpServer()
    for tools in (GroupTools(store), IncidentTools(store, settings, sql_actions), OwnershipTools(store)):
        for tool in tools:
            server.add_question(in_words(tool))
    add_resources(server)
    return server


def http_routes(server: McpServer) -> Sequence[BaseRoute]:
    """Return the routes of a server over HTTP; they answer within `http_lifespan`.

    Each request is a JSON answer, without a session. The host name and the origin of requests are checked by the gate
    around all routes.
    """
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    routes = server.streamable_http_app(
        streamable_http_path=PATH, json_response=True, stateless_http=True, transport_security=unchecked
    ).routes
    for route in routes:
        if isinstance(route, Route):
            route.app = _of_json(route.app)
    return routes


def _of_json(app: ASGIApp) -> ASGIApp:
    """Refuse requests that are no JSON in the form of all refusals; the SDK would answer them with bare text."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        kind = Headers(scope=scope).get("content-type", "")
        if scope["method"] == "POST" and not kind.lower().startswith("application/json"):
            said = f"A request to {PATH} has the content type application/json."
            problem = {"title": "Unsupported Media Type", "status": 415, "detail": said, "error": said}
            refused = JSONResponse(problem, 415, media_type="application/problem+json")
            await refused(scope, receive, send)
            return
        await app(scope, receive, send)

    return checked


@asynccontextmanager
async def http_lifespan(server: McpServer) -> AsyncIterator[None]:
    """Let the routes of a server answer until the end of the block."""
    async with server.session_manager.run():
        yield
