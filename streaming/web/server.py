"""The FastAPI application and how it is served: NiceGUI's pages, REST API and metrics on one port.

For who writes pages: `streaming.dashboard.pages.register(app, store)` is called once, before NiceGUI is mounted at
``/``. In it, define pages with ``@ui.page("/…")``. Ask with ``await store.ask(question, …)``, where a question is a
function of `streaming.queries` (it takes the read model first). `store.version` rises when the tables have new rows: a
``ui.timer(1.0, …)`` compares it with the version that is shown. The paths ``/api``, ``/metrics``, ``/login``,
``/logout`` and ``/openapi.json`` belong to this package; everything else is the pages'. Security (token, host, headers)
is in middleware around it all, websocket included: pages need do nothing.
"""

import os
import socket
from contextlib import suppress
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from streaming.errors import UserError
from streaming.web.store import Store

TITLE = "rebalance-watch"


def dashboard_app(store: Store, root: Path) -> FastAPI:
    """The application with everything on it.

    Args:
        store: the tables.
        root: the runtime root, where NiceGUI keeps what it must remember.
    """
    os.environ.setdefault("NICEGUI_STORAGE_PATH", str(root / "dashboard"))  # read when nicegui is imported
    from nicegui import ui  # noqa: PLC0415  reads the variable

    app = FastAPI(title=TITLE, docs_url=None, redoc_url=None)
    with suppress(ModuleNotFoundError):
        from streaming.dashboard import pages  # noqa: PLC0415  its pages rest on nicegui

        pages.register(app, store)
    ui.run_with(app, title=TITLE, dark=None, show_welcome_message=False, reconnect_timeout=10)
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
        raise UserError(f"Can't listen on {host} port {port} ({error.strerror}): choose another with --port.") from None


def serve(app: FastAPI, listening: socket.socket) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=3)
    uvicorn.Server(config).run(sockets=[listening])
