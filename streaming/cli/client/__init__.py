"""`rebalance-watch client …`: query the clients of consumer groups."""

import typer

from streaming.cli.client.list import clients
from streaming.cli.client.show import show

app = typer.Typer(
    help="Query clients: version, address, heartbeat, subscriptions, queues and incidents, now or at any time.",
    no_args_is_help=True,
)
app.command("list")(clients)
app.command("show")(show)
