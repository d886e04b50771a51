"""`rebalance-watch backtest`: compare past incidents with those of another policy."""

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from streaming.base.errors import UserError
from streaming.base.place import tables_of
from streaming.base.settings import load_policy, load_settings
from streaming.base.times import duration_ms
from streaming.base.zone import clock
from streaming.cli.options import instant

if TYPE_CHECKING:
    from streaming.pipeline.backtest import IncidentPeriod, Result

_SAYS = {"OPENED": "additional", "NOT_OPENED": "missing", "MOVED": "changed"}


def backtest(  # noqa: PLR0913  a command line
    *,
    since: Annotated[str, typer.Option(help="Start, such as 2h (ago), 15:58 or 2026-11-21.")],
    until: Annotated[str | None, typer.Option(help="End; default: the end of the archive.")] = None,
    policy: Annotated[Path | None, typer.Option(help="Policy file to test instead of conf/policy.toml.")] = None,
    group: Annotated[str, typer.Option(help="Consumer groups: a name or glob.")] = "*",
    warm_up: Annotated[str, typer.Option(help="Telemetry read before --since to build up state.")] = "1h",
    output: Annotated[Literal["table", "json", "csv"], typer.Option("--format", help="Output format.")] = "table",
) -> None:
    """Process the archived telemetry with another policy and print which incidents change.

    The result is compared with the recorded incidents (table anomalies). The tables are not modified.
    """
    from streaming.pipeline.backtest import Span, last_time
    from streaming.pipeline.backtest import backtest as run
    from streaming.tables import ReadModel

    thresholds = load_policy(policy)
    console = Console(stderr=True, highlight=False)
    with ReadModel(tables_of(load_settings())) as model:
        begin = instant(since)
        end = instant(until) if until is not None else last_time(model)
        if end is None or end < begin:
            raise UserError("No telemetry between --since and --until: choose a period within the archive.")
        with console.status("processing the archived telemetry"):
            result = run(model, thresholds, Span(begin, end, duration_ms(warm_up), group))
    for warning in result.warnings:
        console.print(f"[yellow]warning:[/] {warning}", soft_wrap=True)
    if output == "json":
        typer.echo(msgspec.json.format(msgspec.json.encode(result)).decode())
    elif output == "csv":
        _write_csv(result)
    else:
        _print_table(result)


def _write_csv(result: "Result") -> None:
    from streaming.pipeline.backtest import Difference, IncidentPeriod

    lives = ("was", "would_be")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    names = [name for name in Difference.__struct_fields__ if name not in lives]
    writer.writerow([*names, *(f"{life}_{name}" for life in lives for name in IncidentPeriod.__struct_fields__)])
    for one in result.differences:
        values = [
            getattr(life, name, None) for life in (one.was, one.would_be) for name in IncidentPeriod.__struct_fields__
        ]
        writer.writerow([*(getattr(one, name) for name in names), *values])


def _print_table(result: "Result") -> None:
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    for name in ("difference", "group", "incident", "subject", "recorded", "with this policy"):
        table.add_column(name, overflow="fold")
    for one in result.differences:
        table.add_row(_SAYS[one.change], one.group, one.code, one.subject, _life(one.was), _life(one.would_be))
    if result.differences:
        console.print(table, "")
    console.print(
        f"{len(result.differences)} incidents differ, {result.same} are the same, "
        f"from {_clock(result.since)} to {_clock(result.until)} ({result.rows:,} rows)",
        soft_wrap=True,
    )


def _life(life: "IncidentPeriod | None") -> str:
    if life is None:
        return "-"
    ended = _clock(life.resolved_at) if life.resolved_at is not None else "still open"
    return f"{life.severity} {life.sub_cause}".rstrip() + f", {_clock(life.opened_at)} to {ended}"


def _clock(time_ms: int) -> str:
    return clock(time_ms).strftime("%Y-%m-%d %H:%M:%S")
