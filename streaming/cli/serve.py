"""`rebalance-watch dashboard|metrics|mcp`: serve pages, REST API, metrics and tools over the tables."""

from typing import Annotated

import typer

from streaming.base.lines import start_lines
from streaming.base.place import tables_of
from streaming.base.settings import load_settings


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


def metrics(
    host: Annotated[str | None, typer.Option(help="Address to listen on; default: web.host.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Port to listen on; default: metrics.port. 0: any free port.")
    ] = None,
) -> None:
    r"""Serve only the metrics, at /metrics (the dashboard also serves them).

    Access from other machines requires a token: see \[web] in conf/default.toml.
    """
    from streaming.serve.web.server import metrics_application, serve

    settings = load_settings()
    listens = {
        "host": host or settings.web.host,
        "port": settings.metrics.port if port is None else port,
        "sign_in": settings.web.sign_in.model_copy(update={"kind": "token"}),  # only programs ask for metrics
    }
    log = start_lines(settings.log.format, "metrics")
    serve(
        "metrics",
        metrics_application,
        settings.model_copy(update={"web": settings.web.model_copy(update=listens)}),
        lambda where: log.info(f"Metrics: {where}/metrics (Ctrl-C to stop)"),
        log.warning,
    )


def mcp() -> None:
    """Serve the questions as tools of the Model Context Protocol (MCP), over standard input and output.

    A client such as an assistant or an editor starts this command, and ends it by closing the input. All tools are
    read-only. The dashboard serves the same over HTTP, at /mcp.
    """
    from streaming.serve.mcp.questions import question_server
    from streaming.serve.mcp.server import serve_stdio
    from streaming.serve.store import Store

    settings = load_settings()
    start_lines(settings.log.format, "mcp")
    with Store(tables_of(settings)) as store:
        serve_stdio(question_server(settings, store, None))
