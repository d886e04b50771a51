"""`rebalance-watch backtest`: compare past incidents with those of another policy."""

import csv
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import msgspec
import typer
from rich.console import Console, RenderableType
from rich.console import Group as Lines
from rich.text import Text

from streaming.base.errors import UserError
from streaming.base.place import tables_of
from streaming.base.settings import load_policy, load_settings
from streaming.base.times import duration_ms, now_ms, written
from streaming.cli.grid import Grid, GridColumn
from streaming.cli.options import instant
from streaming.cli.output import print_table, screen, severity
from streaming.queries import labels

if TYPE_CHECKING:
    from streaming.pipeline.backtest import BacktestResult, CodeCount, IncidentDifference, IncidentPeriod
    from streaming.queries.health import Severity

_SAYS = {"OPENED": "additional", "NOT_OPENED": "missing", "MOVED": "changed"}


def backtest(
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
    from streaming.pipeline.backtest import BacktestPeriod, last_time
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
            result = run(model, thresholds, BacktestPeriod(begin, end, duration_ms(warm_up), group))
    for warning in result.warnings:
        console.print(f"[yellow]warning:[/] {warning}", soft_wrap=True)
    if output == "json":
        typer.echo(msgspec.json.format(msgspec.json.encode(result)).decode())
    elif output == "csv":
        _write_csv(result)
    else:
        _print_table(result, now_ms())


def _write_csv(result: "BacktestResult") -> None:
    from streaming.pipeline.backtest import IncidentDifference, IncidentPeriod

    lives = ("was", "would_be")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    names = [name for name in IncidentDifference.__struct_fields__ if name not in lives]
    writer.writerow([*names, *(f"{life}_{name}" for life in lives for name in IncidentPeriod.__struct_fields__)])
    for one in result.differences:
        values = [_value(life, name) for life in (one.was, one.would_be) for name in IncidentPeriod.__struct_fields__]
        writer.writerow([*(getattr(one, name) for name in names), *values])


def _value(life: "IncidentPeriod | None", name: str) -> object:
    value = getattr(life, name, None)
    return written(value) if name.endswith("_at") and value is not None else value


def _print_table(result: "BacktestResult", now: int) -> None:
    parts: list[RenderableType] = []
    if result.differences:
        parts += [_differences(result.differences, now), Text()]
    if result.codes:
        parts += [_codes(result.codes), Text()]
    begin, end = labels.moment_in_zone(result.since, now), labels.moment_in_zone(result.until, now)
    parts.append(
        Text(
            f"{labels.number(len(result.differences))} incidents differ, {labels.number(result.same)} are the same, "
            f"from {begin} to {end} ({labels.number(result.rows)} rows)"
        )
    )
    print_table(Lines(*parts), screen())


def _differences(differences: "Iterable[IncidentDifference]", now: int) -> Grid:
    titles = ("difference", "severity", "opened", "duration", "group", "incident", "subject", "with this policy")
    grid = Grid([GridColumn(title) for title in titles])
    for difference in differences:
        period = difference.was or difference.would_be
        assert period is not None
        lasted = (
            labels.duration(period.resolved_at - period.opened_at) if period.resolved_at is not None else "still open"
        )
        changed = (
            "; ".join(_changes(difference.was, difference.would_be)) if difference.was and difference.would_be else ""
        )
        grid.add(
            _SAYS[difference.change],
            severity(cast("Severity", period.severity)),
            labels.moment(period.opened_at, now),
            lasted,
            difference.group or "(cluster)",
            f"{difference.code} {period.sub_cause}".rstrip(),
            difference.subject or "the group",
            changed,
        )
    return grid


def _changes(was: "IncidentPeriod", would_be: "IncidentPeriod") -> Iterator[str]:
    """Yield what another policy changes in one incident."""
    yield from _shift("opens", was.opened_at, would_be.opened_at)
    if was.resolved_at is None or would_be.resolved_at is None:
        if was.resolved_at != would_be.resolved_at:
            yield "still open" if would_be.resolved_at is None else "resolved"
    else:
        yield from _shift("resolves", was.resolved_at, would_be.resolved_at)
    for before, after in ((was.severity, would_be.severity), (was.sub_cause, would_be.sub_cause)):
        if before != after:
            yield f"{after or 'no sub-cause'} instead of {before or 'none'}"


def _shift(verb: str, before: int, after: int) -> Iterator[str]:
    if after != before:
        yield f"{verb} {labels.duration(abs(after - before))} {'later' if after > before else 'earlier'}"


def _codes(codes: "Iterable[CodeCount]") -> Grid:
    titles = ("recorded", "with this policy", "same", "additional", "missing", "changed")
    grid = Grid([GridColumn("incident"), *(GridColumn(title, right=True) for title in titles)])
    for count in codes:
        both = count.same + count.changed
        counts = (
            both + count.missing,
            both + count.additional,
            count.same,
            count.additional,
            count.missing,
            count.changed,
        )
        grid.add(count.code, *map(labels.number, counts))
    return grid
