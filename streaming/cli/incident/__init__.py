"""`rebalance-watch incident …`: what is wrong, and was."""

import typer

from streaming.cli.incident.list import incidents
from streaming.cli.incident.show import show

app = typer.Typer(help="What is wrong, and was: with evidence, and what to do first.", no_args_is_help=True)
app.command("list")(incidents)
app.command("show")(show)
