"""The FastAPI application and how it is served: NiceGUI's pages, REST API and metrics on one port.

For who writes pages: `streaming.dashboard.pages.register(store)` is called once, before NiceGUI is mounted at
``/``. In it, define pages with ``@ui.page("/…")``. Ask with ``await store.ask(question, …)``, where a question is a
function of `streaming.queries` (it takes the read model first). `store.version` rises when the tables have new rows: a
``ui.timer(1.0, …)`` compares it with the version that is shown. The paths ``/api``, ``/metrics``, ``/login`` and
``/logout`` (POST) belong to this package; everything else is the pages'. Security (token, host, headers) is in
middleware around it all, websocket included: pages need do nothing.
"""

import os
import socket
from collections.abc import Callable
from importlib.metadata import version

import uvicorn
from fastapi import FastAPI
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from streaming.errors import UserError
from streaming.metrics.collector import registry
from streaming.metrics.sources import Sources
from streaming.settings import Settings
from streaming.web import api
from streaming.web.access import Access, access
from streaming.web.api.errors import tell_errors
from streaming.web.gate import Gate
from streaming.web.login import login_routes
from streaming.web.store import Store

TITLE = "rebalance-watch"
_DESCRIPTION = (
    "Who owns every RocketMQ queue, why it moved, and what is wrong with it. Times are epoch milliseconds; null is "
    "not known, never 0. The answers are those of the command line with `--format json`."
)
_SHUTDOWN_SECONDS = 3
"""What a browser's open connection may delay the end."""


def metrics_application(settings: Settings, store: Store, who: Access) -> FastAPI:
    """Metrics and health alone."""
    app = _application(settings, store, who, openapi_url=None)
    app.include_router(api.health.router, prefix=api.PREFIX)
    return app


def api_application(settings: Settings, store: Store, who: Access) -> FastAPI:
    """The REST API and the metrics."""
    app = _application(settings, store, who, openapi_url=f"{api.PREFIX}/openapi.json")
    app.include_router(login_routes(who))
    app.include_router(api.router)
    return app


def dashboard_application(settings: Settings, store: Store, who: Access) -> FastAPI:
    """Everything: pages, REST API, metrics."""
    app = api_application(settings, store, who)
    # NiceGUI reads it when it is imported, and would keep its files in the working directory.
    os.environ.setdefault("NICEGUI_STORAGE_PATH", str(settings.runtime.root / "dashboard"))
    from nicegui import ui  # noqa: PLC0415  see above

    from streaming.dashboard import pages  # noqa: PLC0415  rests on nicegui

    pages.register(store)
    ui.run_with(app, title=TITLE, dark=None, show_welcome_message=False, reconnect_timeout=10, tailwind=False)
    return app


def _application(settings: Settings, store: Store, who: Access, *, openapi_url: str | None) -> FastAPI:
    app = FastAPI(
        title=TITLE,
        description=_DESCRIPTION,
        version=version(TITLE),
        openapi_url=openapi_url,
        docs_url=None,  # these pages load their scripts from elsewhere
        redoc_url=None,
    )
    app.state.settings, app.state.store, app.state.sources = settings, store, Sources()
    tell_errors(app)
    app.add_middleware(Gate, access=who)  # the last one that is added is the outermost
    exported = registry(store, app.state.sources, settings)

    @app.get("/metrics", include_in_schema=False)
    def metrics() -> Response:
        # The classic text format: the counter's name that RocketMQ's rules use is none in OpenMetrics.
        return Response(generate_latest(exported), media_type=CONTENT_TYPE_LATEST)

    return app


def listen(host: str, port: int) -> socket.socket:
    """Bind before anything is started, so that a taken port is one sentence.

    Raises:
        UserError: the port is taken or the address is none of this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        # Python adds the address to its words for a failed bind; a name that is unknown has no other words.
        why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise UserError(f"Can't listen on {host} port {port} ({why}): choose another with --port or --host.") from None


def address(listening: socket.socket) -> str:
    """Where a browser of this machine finds it."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    application: Callable[[Settings, Store, Access], FastAPI],
    settings: Settings,
    host: str,
    port: int,
    say: Callable[[str], None],
) -> None:
    """Serve an application until Ctrl-C or SIGTERM; its address is said as soon as it can be called.

    Raises:
        UserError: it may not listen there without a token, can't, or there are no tables.
    """
    who = access(host, settings.web)
    with listen(host, port) as listening, Store(settings.runtime.tables) as store:
        app = application(settings, store, who)
        say(address(listening))
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=_SHUTDOWN_SECONDS
        )
        uvicorn.Server(config).run(sockets=[listening])
