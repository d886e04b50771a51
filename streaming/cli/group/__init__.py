"""`rebalance-watch group …`: query consumer groups."""

import typer

from streaming.cli.group.changes import diff, lag, rebalances
from streaming.cli.group.state import assignments, groups, show

app = typer.Typer(
    help="Query consumer groups: health, owners and rebalances, now or at any time.", no_args_is_help=True
)
app.command("list")(groups)
app.command("show")(show)
app.command("assignments")(assignments)
app.command("lag")(lag)
app.command("rebalances")(rebalances)
app.command("diff")(diff)
