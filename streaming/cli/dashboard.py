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
    from streaming.web.access import access
    from streaming.web.server import address, dashboard_application, listen, serve
    from streaming.web.store import Store

    settings = load_settings()
    host = host or settings.web.host
    who = access(host, settings.web)
    with (
        listen(host, settings.web.port if port is None else port) as listening,
        Store(settings.runtime.tables) as store,
    ):
        app = dashboard_application(settings, store, who)
        console = Console(stderr=True, highlight=False)
        console.print(f"The dashboard is at [bold]{address(listening)}[/]; Ctrl-C ends it.", soft_wrap=True)
        serve(app, listening)
