"""`rebalance-watch group …`: query consumer groups."""

import typer

from streaming.cli.group.assignments import assignments
from streaming.cli.group.diff import diff
from streaming.cli.group.lag import lag
from streaming.cli.group.list import groups
from streaming.cli.group.rebalances import rebalances
from streaming.cli.group.show import show

app = typer.Typer(
    help="Query consumer groups: health, owners and rebalances, now or at any time.", no_args_is_help=True
)
app.command("list")(groups)
app.command("show")(show)
app.command("assignments")(assignments)
app.command("lag")(lag)
app.command("rebalances")(rebalances)
app.command("diff")(diff)
