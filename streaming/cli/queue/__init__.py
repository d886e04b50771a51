"""`rebalance-watch queue …`: query one queue of a group."""

import typer

from streaming.cli.queue.show import show

app = typer.Typer(help="Query one queue of a group over time.", no_args_is_help=True)
app.command("show")(show)


@app.callback()
def _queue() -> None:
    """Make `show` a command of its own."""
