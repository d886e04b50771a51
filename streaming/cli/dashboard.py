"""`rebalance-watch dashboard`: pages, REST API and metrics over the tables."""

from typing import Annotated

import typer
from rich.console import Console

from streaming.settings import load_settings


def dashboard(
    host: Annotated[str | None, typer.Option(help="The address to listen on (web.host).")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="The port (web.port); 0 takes a free one.")
    ] = None,
) -> None:
    """Serve the dashboard, and on its port the REST API (/api/v1) and the metrics (/metrics).

    Only this machine can reach it, unless there is a token: see [web] in conf/default.toml.
    """
    from streaming.web.server import dashboard_application, serve

    settings, console = load_settings(), Console(stderr=True, highlight=False)
    serve(
        dashboard_application,
        settings,
        host or settings.web.host,
        settings.web.port if port is None else port,
        lambda where: console.print(f"The dashboard is at [bold]{where}[/]; Ctrl-C ends it.", soft_wrap=True),
    )
