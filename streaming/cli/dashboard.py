"""`rebalance-watch dashboard`: pages, REST API and metrics over the tables."""

from typing import Annotated

import typer
from rich.console import Console

from streaming.settings import load_settings


def dashboard(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.")] = 8411,
) -> None:
    """Serve the dashboard, the REST API and the metrics."""
    from streaming.web.server import dashboard_app, listen, serve
    from streaming.web.store import Store

    settings = load_settings()
    with listen(host, port) as listening, Store(settings.runtime.tables) as store:
        app = dashboard_app(store, settings.runtime.root)
        shown = f"http://{host}:{listening.getsockname()[1]}"
        Console(stderr=True).print(f"The dashboard is at [bold]{shown}[/] (Ctrl-C ends it).", highlight=False)
        serve(app, listening)
