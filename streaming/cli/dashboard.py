"""`rebalance-watch dashboard`: pages, REST API and metrics over the tables."""

from typing import Annotated

import typer

from streaming.base.lines import start_lines
from streaming.base.settings import load_settings
from streaming.cli.interruption import end_in_time


def dashboard(
    host: Annotated[str | None, typer.Option(help="Address to listen on; default: web.host.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Port to listen on; default: web.port. 0: any free port.")
    ] = None,
) -> None:
    r"""Serve the dashboard, the REST API (/api/v1), MCP (/mcp) and the metrics (/metrics) on one port.

    Access from other machines requires a token or signing in: see \[web] in conf/default.toml.
    """
    from streaming.serve.web.server import dashboard_application, serve

    end_in_time()
    settings = load_settings()
    listens = {"host": host or settings.web.host, "port": settings.web.port if port is None else port}
    log = start_lines(settings.log.format, "dashboard")
    serve(
        "dashboard",
        dashboard_application,
        settings.model_copy(update={"web": settings.web.model_copy(update=listens)}),
        lambda where: log.info(f"Dashboard: {where} (Ctrl-C to stop)"),
        log.warning,
    )
