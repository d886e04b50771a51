"""`rebalance-watch sql`: a question of one's own."""

import sys
from typing import Annotated

import typer
from rich.console import Console

from streaming.cli.grid import Column, Grid
from streaming.cli.options import FormatOption
from streaming.cli.output import print_json, screen, tables, write_csv
from streaming.queries import words


def sql(
    query: Annotated[str, typer.Argument(help='One SELECT, such as "FROM open_incidents"; - reads it from stdin.')],
    *,
    limit: Annotated[int, typer.Option(min=1, help="At most so many rows.")] = 10_000,
    timeout: Annotated[float, typer.Option(min=0.1, help="At most so many seconds.")] = 30.0,
    output: FormatOption = "table",
) -> None:
    """A question of your own, in DuckDB's SQL, over tables, views, and functions such as owners_at(time).

    SHOW TABLES names tables and views, DESCRIBE one of them its columns. Times are epoch milliseconds.
    """
    from streaming.queries.sql import sql as ask

    with tables() as model:
        answer = ask(model, sys.stdin.read() if query == "-" else query, timeout_s=timeout, limit=limit)
    if output == "json":
        print_json(answer)
    elif output == "csv":
        write_csv(answer.columns, answer.rows)
    else:
        numbers = [
            all(isinstance(row[n], int | float | None) for row in answer.rows) for n in range(len(answer.columns))
        ]
        grid = Grid([Column(name, right=right) for name, right in zip(answer.columns, numbers, strict=True)])
        for row in answer.rows:
            grid.add(*(words.NOT_KNOWN if value is None else str(value) for value in row))
        screen().print(grid)
    if answer.cut:
        Console(stderr=True, highlight=False).print(
            f"[yellow]warning:[/] there are more than {limit:,} rows; --limit gives more", soft_wrap=True
        )
