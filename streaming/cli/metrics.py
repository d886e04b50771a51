"""`rebalance-watch metrics`: serve the Prometheus metrics without the dashboard."""

from typing import Annotated

import typer
from rich.console import Console

from streaming.base.settings import load_settings


def metrics(
    host: Annotated[str | None, typer.Option(help="Address to listen on; default: web.host.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Port to listen on; default: metrics.port. 0: any free port.")
    ] = None,
) -> None:
    """Serve only the metrics, at /metrics (the dashboard also serves them).

    Access from other machines requires a token: see [web] in conf/default.toml.
    """
    from streaming.serve.web.server import metrics_application, serve

    settings, console = load_settings(), Console(stderr=True, highlight=False)
    serve(
        metrics_application,
        settings,
        host or settings.web.host,
        settings.metrics.port if port is None else port,
        lambda where: console.print(f"Metrics: [bold]{where}/metrics[/] (Ctrl-C to stop)", soft_wrap=True),
    )
