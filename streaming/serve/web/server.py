"""The FastAPI application and how it is served: NiceGUI's pages, REST API and metrics on one port.

Writing pages: `streaming.serve.dashboard.routes.register(store)` is called once, before NiceGUI is mounted at ``/``. It
defines the pages with ``@ui.page("/…")``. Queries run with ``await store.ask(query, …)``, where a query is a function
of `streaming.queries` that takes the read model first. `store.version` rises when the tables have new rows; a
``ui.timer(1.0, …)`` compares it with the version that is shown. The paths ``/api``, ``/mcp``, ``/metrics``, ``/login``
and ``/logout`` (POST) belong to this package, all others to the pages. Security (token, host, headers) is in middleware
around everything, including the websocket; pages need not care.
"""

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from http import HTTPStatus
from importlib.metadata import version
from importlib.util import find_spec
from ipaddress import ip_network
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from streaming.base.errors import SettingsError
from streaming.base.place import tables_of
from streaming.base.sections.web import Web
from streaming.base.settings import Settings
from streaming.serve.first_run import FirstRun
from streaming.serve.metrics.collector import registry
from streaming.serve.metrics.snapshot import Sources
from streaming.serve.otlp.start import pushing
from streaming.serve.store import Store
from streaming.serve.web import api, probes
from streaming.serve.web.access import Access, access
from streaming.serve.web.api.errors import failure, install_error_handlers, install_refusals, sentence_of
from streaming.serve.web.gate import ProxyHeaders, RequestGate
from streaming.serve.web.http_server import HttpServer, server_tls
from streaming.serve.web.login import login_routes
from streaming.serve.web.middleware import Languages, Prefix
from streaming.serve.web.probes import address, listen


def add_sign_in(app: FastAPI, access: Access, web: Web) -> None:
    """Add the routes to an application; with a proxy that names people there are none.

    Raises:
        SettingsError: the package for OIDC is not installed, or its settings can't be used.
    """
    if access.sign_in.kind == "token":
        app.include_router(login_routes(access))
    elif access.sign_in.kind == "oidc":
        if find_spec("authlib") is None:
            raise SettingsError(
                'web.sign_in.kind = "oidc" needs a package that is not installed here: install rebalance-watch[oidc].'
            )
        from streaming.serve.web.oidc import add_oidc

        add_oidc(app, access, web)


TITLE = "rebalance-watch"
MCP_PATH = "/mcp"
_DESCRIPTION = (
    "Owners, rebalances and incidents of RocketMQ queues. Times are in epoch milliseconds; null means unknown, never "
    "0. The results are those of the command line with `-o json`."
)


def metrics_application(settings: Settings, store: Store, who: Access) -> FastAPI:
    """Create the application with metrics and health only."""
    app = _application(settings, store, who, openapi_url=None)
    app.include_router(api.health.router, prefix=api.PREFIX)
    return app


def api_application(settings: Settings, store: Store, who: Access) -> FastAPI:
    """Create the application with REST API, MCP and metrics."""
    app = _application(settings, store, who, openapi_url=f"{api.PREFIX}/openapi.json")
    _add_mcp(app, settings, store)
    add_sign_in(app, who, settings.web)
    app.include_router(api.router)

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        return HTMLResponse(api.docs.page(app.openapi()))

    return app


def dashboard_application(settings: Settings, store: Store, who: Access) -> FastAPI:
    """Create the application with pages, REST API, MCP and metrics."""
    app = api_application(settings, store, who)
    # NiceGUI reads this when imported; by default it stores its files in the working directory.
    os.environ.setdefault("NICEGUI_STORAGE_PATH", str(settings.runtime.root / "dashboard"))
    from nicegui import app as nicegui
    from nicegui import ui

    from streaming.serve.dashboard import routes

    routes.register(store, FirstRun(settings), settings.web)
    install_refusals(nicegui)

    @nicegui.exception_handler(RequestValidationError)
    def wrong_parameter(request: Request, error: RequestValidationError) -> Response:
        return routes.refusal(request, sentence_of(error), HTTPStatus.UNPROCESSABLE_ENTITY)

    ui.run_with(app, title=TITLE, dark=None, show_welcome_message=False, reconnect_timeout=10, tailwind=False)
    return app


def _application(settings: Settings, store: Store, who: Access, *, openapi_url: str | None) -> FastAPI:
    app = FastAPI(
        title=TITLE,
        description=_DESCRIPTION,
        version=version(TITLE),
        openapi_url=openapi_url,
        docs_url=None,  # these pages load scripts from another site: see `api.docs`
        redoc_url=None,
    )
    app.state.settings, app.state.store, app.state.sources = settings, store, Sources()
    install_error_handlers(app)
    # The last one that is added is the outermost.
    app.add_middleware(Languages, setting=settings.web.language)
    app.add_middleware(RequestGate, access=who)
    app.add_middleware(Prefix, prefix=settings.web.prefix)
    if settings.web.trusted_proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(settings.web.trusted_proxies))
    app.add_middleware(ProxyHeaders, sign_in=who.sign_in, proxies=settings.web.trusted_proxies)  # before that one
    app.router.routes.extend(probes.routes(store.health))
    app.state.metrics = exported = registry(store, app.state.sources, settings)

    @app.get("/metrics", include_in_schema=False)
    def metrics() -> Response:
        # The classic text format: OpenMetrics does not allow the counter's name that RocketMQ's rules use.
        return Response(generate_latest(exported), media_type=CONTENT_TYPE_LATEST)

    return app


def _add_mcp(app: FastAPI, settings: Settings, store: Store) -> None:
    """Add the path ``/mcp``: the server of MCP, or without its package how to install that."""
    if find_spec("mcp") is None:
        app.add_api_route(MCP_PATH, _not_installed, methods=["GET", "POST", "DELETE"], include_in_schema=False)
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


def serve(
    process: str,
    application: Callable[[Settings, Store, Access], FastAPI],
    settings: Settings,
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Serve an application on the host and port of the section [web] until Ctrl-C or SIGTERM.

    Before there are tables it is served, too: requests for them are answered with 503, and pages wait.

    Args:
        process: the name of the command.
        application: creates it.
        settings: of the process.
        say: is called with its address when it is reachable.
        warn: is called with what is wrong with a renewed certificate, or with the pushes of metrics.

    Raises:
        UserError: a token is required, the certificate can't be used, or the port cannot be bound.
    """
    web = settings.web
    who = access(web.host, web)
    with (
        server_tls(web, warn) as tls,
        listen(web.host, web.port) as listening,
        Store(tables_of(settings)) as store,
        probes.probes(store.health, web.host, port=0),  # for a supervisor; otherwise they are on the same port
        ExitStack() as stack,
    ):
        app = application(settings, store, who)
        stack.enter_context(pushing(settings.otlp, process, warn, app.state.metrics))
        say(address(listening, "http" if tls is None else "https"))
        proxies = tuple(map(ip_network, web.trusted_proxies))
        server = HttpServer(app, proxies=proxies, tls=None if tls is None else tls.context)
        # At its own end the server raises the signal again: that must not end the process by halves.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        server.run(sockets=[listening])
