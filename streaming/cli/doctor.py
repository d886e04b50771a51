"""`rebalance-watch doctor`: what is present, missing or wrong, and how to mend it."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich import print_json
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from streaming.settings import load_settings

if TYPE_CHECKING:
    from streaming.doctor import Check


class Format(StrEnum):
    """How the answer is written."""

    TABLE = "table"
    JSON = "json"


_COLOURS = {"ok": "green", "missing": "yellow", "wrong": "red"}


def doctor(
    *,
    servers: Annotated[bool, typer.Option("--servers", help="Ask Kafka and the name servers too.")] = False,
    fetch: Annotated[bool, typer.Option("--fetch", help="First fetch what can be: Java and every jar set.")] = False,
    lock_jars: Annotated[
        bool, typer.Option("--lock-jars", help="Fetch the jars anew, write conf/jars.sha256 from them, and end.")
    ] = False,
    output: Annotated[Format, typer.Option("--format", help="How to write it.")] = Format.TABLE,
) -> None:
    """Check what `run` needs; exit code 3 if it could not start as things are."""
    from streaming import jars
    from streaming.doctor import examine, healthy

    settings = load_settings()
    if lock_jars:
        typer.echo(f"written: {jars.lock(settings.runtime.jars)}")
        return
    if fetch:
        for conf in jars.JAR_SETS:
            jars.ensure(conf, settings.runtime.jars)
    checks = list(examine(settings, servers=servers))
    if output is Format.JSON:
        print_json(msgspec.json.encode(checks).decode())
    else:
        Console().print(_table(checks))
    if not healthy(checks):
        raise typer.Exit(3)


def _table(checks: list["Check"]) -> Table:
    table = Table(box=None, header_style="bold")
    for heading in ("part", "state", "found", "how to mend it"):
        table.add_column(heading, overflow="fold")  # a path that is cut short helps nobody
    for check in checks:
        state = f"[{_COLOURS[check.state]}]{check.state}[/]"
        table.add_row(check.part, state, escape(check.found), escape(check.mend))
    return table
