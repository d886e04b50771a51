"""`rebalance-watch doctor`: check the installation and say how to fix it."""

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich import print_json
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from streaming.base.settings import load_settings
from streaming.cli.options import TableOrJsonOption
from streaming.cli.output import print_table

if TYPE_CHECKING:
    from streaming.cli.peer_checks import Check

_COLOURS = {"ok": "green", "missing": "yellow", "wrong": "red"}


def doctor(
    *,
    servers: Annotated[bool, typer.Option("--servers", help="Also check Kafka, name servers and proxies.")] = False,
    fetch: Annotated[bool, typer.Option("--fetch", help="First download Java and every jar set.")] = False,
    lock_jars: Annotated[
        bool, typer.Option("--lock-jars", help="Download the jars again, write conf/jars.sha256 and exit.")
    ] = False,
    output: TableOrJsonOption = "table",
) -> None:
    """Check the requirements of `run`; exit code 3 if it cannot start."""
    from streaming.base import jars
    from streaming.cli.checks import examine, healthy

    settings = load_settings()
    if lock_jars:
        typer.echo(f"written: {jars.lock(settings.runtime.jars)}")
        return
    if fetch:
        for conf in jars.JAR_SETS:
            jars.ensure(conf, settings.runtime.jars)
    checks = list(examine(settings, servers=servers))
    if output == "json":
        print_json(msgspec.json.encode(checks).decode())
    else:
        print_table(_table(checks), Console())
    if not healthy(checks):
        raise typer.Exit(3)


def _table(checks: list["Check"]) -> Table:
    table = Table(box=None, header_style="bold")
    for heading in ("part", "state", "found", "how to fix"):
        table.add_column(heading, overflow="fold")  # a truncated path is useless
    for check in checks:
        state = f"[{_COLOURS[check.state]}]{check.state}[/]"
        table.add_row(check.part, state, escape(check.found), escape(check.mend))
    return table
