"""`rebalance-watch metrics`: serve the Prometheus metrics without the dashboard."""

from typing import Annotated

import typer

from streaming.base.lines import start_lines
from streaming.base.settings import load_settings
from streaming.cli.interruption import end_in_time


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

    end_in_time()
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
