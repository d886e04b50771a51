"""`rebalance-watch incident …`: query incidents."""

import typer

from streaming.cli.incident.list import incidents
from streaming.cli.incident.show import show

app = typer.Typer(help="Query open and resolved incidents with evidence and first step.", no_args_is_help=True)
app.command("list")(incidents)
app.command("show")(show)
