"""`rebalance-watch quality`: the results of the checks of the data."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from streaming.base.lines import print_error
from streaming.base.settings import load_settings
from streaming.base.times import now_ms
from streaming.cli.grid import Grid
from streaming.cli.options import CheckOption, Output, SinceOption, instant
from streaming.cli.output import place_of_tables, present
from streaming.queries.columns import QUALITY
from streaming.queries.columns.column import Context
from streaming.queries.labels import checked
from streaming.queries.results import QualityCheck


def quality(
    *,
    check_now: Annotated[bool, typer.Option("--now", help="First check the tables, as `maintain` does.")] = False,
    since: SinceOption = None,
    check: CheckOption = False,
    output: Output,
) -> None:
    """Show the last result of each check of the data: of the archive's last batch, and of the tables.

    --now --since 30d checks what the log received in 30 days; else the check begins an hour before the last one. With
    --now, --check also fails if something could not be compared.
    """
    from streaming.queries.quality import quality as ask

    if since is not None and not check_now:
        raise typer.BadParameter("--since is for --now.")
    not_compared = _check(instant(since)) if check_now else 0
    found = present(ask, _draw, QualityCheck, output)
    if check and (not_compared or not all(one.success for one in found)):
        raise typer.Exit(3)


def _check(since: int | None) -> int:
    """Check the tables; return how many suites could not be compared with something, each of which is reported."""
    from checkpoints.table_quality import TableGate

    place_of_tables()
    left_out = TableGate(load_settings()).check(now_ms(), since).left_out
    for why in left_out:
        print_error(str(why))
    return len(left_out)


def _draw(checks: Sequence[QualityCheck], now: int) -> RenderableType:
    if not checks:
        return Text("No checks yet: `rebalance-watch quality --now` checks the tables.")
    reasons = [
        Text(f"{one.suite} {checked(one.column, one.expectation)}: {one.why}") for one in checks if not one.success
    ]
    return Group(Grid.of(QUALITY.grid, checks, Context(now)), *reasons)
