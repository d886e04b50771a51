"""`rebalance-watch sql`: run a custom query."""

import sys
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.console import Group as Lines
from rich.markup import escape
from rich.text import Text

from streaming.base.errors import UserError
from streaming.cli.grid import Cell, Grid, GridColumn
from streaming.cli.options import SHAPE, FormatOption, Shape
from streaming.cli.output import place_of_tables, print_json, print_table, print_yaml, screen, write_csv
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
    answer = _shaped(answer, SHAPE.get())
    if output == "json":
        print_json(answer)
    elif output == "yaml":
        print_yaml([dict(zip(answer.columns, row, strict=True)) for row in answer.rows])
    elif output == "csv":
        write_csv(answer.columns, answer.rows, header=SHAPE.get().headers)
    else:
        console = screen()
        print_table(_draw(answer, console.width, is_wide=output == "wide"), console)
    cut = f"there are more than {limit:,} rows; increase --limit"
    for warning in (*answer.warnings, *([cut] if answer.cut else [])):
        Console(stderr=True, highlight=False).print(f"[yellow]warning:[/] {escape(warning)}", soft_wrap=True)


def _shaped(answer: SqlResult, shape: Shape) -> SqlResult:
    """Return the answer with the chosen columns, sorted.

    Raises:
        UserError: there is no such column.
    """
    by = shape.sort.lstrip("-+")
    if unknown := [name for name in (*shape.columns, *([by] if by else [])) if name not in answer.columns]:
        raise UserError(f"There is no column {unknown[0]} in the answer. Its columns are {', '.join(answer.columns)}.")
    rows = list(answer.rows)
    if by:
        place = answer.columns.index(by)
        rows.sort(key=lambda row: (row[place] is not None, row[place]), reverse=shape.sort.startswith("-"))
    places = [answer.columns.index(name) for name in shape.columns or answer.columns]
    return answer.model_copy(
        update={
            "columns": tuple(answer.columns[place] for place in places),
            "rows": tuple(tuple(row[place] for place in places) for row in rows),
        }
    )


def _draw(answer: SqlResult, width: int, *, is_wide: bool) -> RenderableType:
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
    columns = [GridColumn(name, right=right) for name, right in zip(answer.columns, numbers, strict=True)]
    table = Grid(columns, is_wide=is_wide, headers=SHAPE.get().headers)
    for row in rows:
        table.add(*row)
    if is_wide or table.fits(width):
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
