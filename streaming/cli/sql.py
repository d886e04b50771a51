"""`rebalance-watch sql`: run a custom query."""

import sys
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.console import Group as Lines
from rich.text import Text

from streaming.cli.grid import Cell, Grid, GridColumn
from streaming.cli.options import FormatOption
from streaming.cli.output import place_of_tables, print_json, print_table, screen, write_csv
from streaming.queries import labels
from streaming.queries.results import SqlResult


def sql(
    query: Annotated[str, typer.Argument(help='One SELECT, such as "FROM open_incidents"; - reads it from stdin.')],
    *,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of rows.")] = 10_000,
    timeout: Annotated[float, typer.Option(min=0.1, help="Timeout in seconds.")] = 30.0,
    output: FormatOption = "table",
) -> None:
    """Run a SELECT in DuckDB's SQL over tables, views and functions such as owners_at(time).

    SHOW TABLES lists tables and views, SHOW FUNCTIONS the functions with their parameters; DESCRIBE lists the columns
    of one. Times are timestamps, UTC; intervals are durations, in JSON and CSV by ISO 8601.
    """
    from streaming.queries.sql_process import SqlProcess

    text = sys.stdin.read() if query == "-" else query
    with SqlProcess(place_of_tables()) as process:
        answer = SqlResult.model_validate_json(process.ask(text, timeout_s=timeout, limit=limit).content)
    if output == "json":
        print_json(answer)
    elif output == "csv":
        write_csv(answer.columns, answer.rows)
    else:
        console = screen()
        print_table(_draw(answer, console.width), console)
    if answer.cut:
        Console(stderr=True, highlight=False).print(
            f"[yellow]warning:[/] there are more than {limit:,} rows; increase --limit", soft_wrap=True
        )


def _draw(answer: SqlResult, width: int) -> RenderableType:
    """Render one line per row, or one line per value if a row is too wide for the terminal."""
    if not answer.rows:
        return Text("No rows.")
    durations = [name in answer.durations for name in answer.columns]
    rows = [
        [_text(value, is_duration=is_duration) for value, is_duration in zip(row, durations, strict=True)]
        for row in answer.rows
    ]
    numbers = [
        all(isinstance(value, int | float | None) for value in column) for column in zip(*answer.rows, strict=True)
    ]
    table = Grid([GridColumn(name, right=right) for name, right in zip(answer.columns, numbers, strict=True)])
    for row in rows:
        table.add(*row)
    if table.fits(width):
        return table
    parts: list[RenderableType] = []
    for number, row in enumerate(rows, 1):
        values = Grid([GridColumn(f"row {number:,}"), GridColumn("")])
        for name, value in zip(answer.columns, row, strict=True):
            values.add(Cell(name, "dim"), value)
        parts += [values, Text("")]
    return Lines(*parts)


def _text(value: object, *, is_duration: bool) -> str:
    if value is None:
        return labels.NOT_KNOWN
    return labels.iso_duration(str(value)) if is_duration else str(value)
