"""`rebalance-watch metrics`: what Prometheus scrapes, without the dashboard."""

from typing import Annotated

import typer
from rich.console import Console

from streaming.settings import load_settings


def metrics(
    host: Annotated[str | None, typer.Option(help="The address to listen on (web.host).")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="The port (metrics.port); 0 takes a free one.")
    ] = None,
) -> None:
    """Serve the metrics alone, at /metrics (the dashboard serves them, too).

    Only this machine can reach them, unless there is a token: see [web] in conf/default.toml.
    """
    from streaming.web.server import metrics_application, serve

    settings, console = load_settings(), Console(stderr=True, highlight=False)
    serve(
        metrics_application,
        settings,
        host or settings.web.host,
        settings.metrics.port if port is None else port,
        lambda where: console.print(f"The metrics are at [bold]{where}/metrics[/]; Ctrl-C ends it.", soft_wrap=True),
    )
