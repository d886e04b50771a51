"""`rebalance-watch incident …`: query and close incidents."""

import typer

from streaming.cli.incident.close import close, reopen
from streaming.cli.incident.list import incidents
from streaming.cli.incident.show import show

app = typer.Typer(help="Query open and resolved incidents with evidence and first step; close one.",
                  no_args_is_help=True)  # fmt: skip
app.command("list")(incidents)
app.command("show")(show)
app.command("close")(close)
app.command("reopen")(reopen)
