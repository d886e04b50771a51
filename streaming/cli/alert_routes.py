"""`rebalance-watch alert routes`: who gets which incidents, and when."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import RenderableType
from rich.text import Text

from streaming.base.errors import UserError
from streaming.base.nearest import one_of
from streaming.base.place import tables_of
from streaming.base.settings import load_settings
from streaming.base.times import now_ms
from streaming.cli.grid import Grid, GridColumn
from streaming.cli.options import TableOrJsonOption, instant
from streaming.cli.output import print_table, screen
from streaming.queries import labels
from streaming.queries.health import Severity

if TYPE_CHECKING:
    from rebalance_model.observe.effects import IncidentTransition
    from streaming.serve.alerting.recipients import Recipient, RouteAt


def routes(
    incident: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Open incident: its id, or a unique prefix of it.")
    ] = None,
    *,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Consumer group of a supposed incident.")] = None,
    code: Annotated[str | None, typer.Option(help="Code of a supposed incident.")] = None,
    severity: Annotated[Severity, typer.Option(help="Severity of a supposed incident.")] = "critical",
    cluster: Annotated[str, typer.Option("--cluster", "-c", help="Cluster of a supposed incident.")] = "",
    at: Annotated[str | None, typer.Option("--at", help="Time, such as 03:00 or '11-21 15:58'; default: now.")] = None,
    output: TableOrJsonOption = "table",
) -> None:
    """Show the routes with their hours, or who would get an incident at a time: an open one, or --group and --code."""
    from streaming.serve.alerting.config import load_alerts
    from streaming.serve.alerting.recipients import recipients, routes_at

    settings = load_settings()
    config = load_alerts(settings.alerts.file)
    now = now_ms()
    time = instant(at) if at is not None else now
    if incident is None and group is None and code is None:
        found = routes_at(config, time)
        _print(found, _routes(found, time), output)
        return
    if incident is not None:
        from streaming.serve.alerting.status import open_incident

        transition = open_incident(tables_of(settings), incident)
    else:
        transition = _supposed(group, code, severity, cluster)
    who = recipients(config, transition, time)
    _print(who, _recipients(who, transition, time), output)


def _supposed(group: str | None, code: str | None, severity: Severity, cluster: str) -> "IncidentTransition":
    """Return an incident with these values; without a group it is one of a cluster."""
    from streaming.serve.alerting.config import CODES
    from streaming.serve.alerting.render import SAMPLE

    if code is None:
        raise UserError("Name the incident's code with --code: routes depend on it.")
    code = one_of("code", code, CODES)
    return msgspec.structs.replace(SAMPLE.transition, code=code, group=group or "", severity=severity, cluster=cluster)


def _print(rows: Sequence[Any], drawn: RenderableType, output: str) -> None:
    if output == "json":
        typer.echo(msgspec.json.format(msgspec.json.encode(rows)).decode())
    else:
        print_table(drawn, screen())


def _routes(listed: Sequence["RouteAt"], time: int) -> RenderableType:
    if not listed:
        return Text("No routes are configured: nobody is notified.")
    titles = ("route", "channels", "severity", "codes", "groups", "clusters", "hours")
    table = Grid([GridColumn(title) for title in (*titles, labels.moment_in_zone(time, now_ms()))])
    for route in listed:
        lists = (", ".join(names) for names in (route.codes, route.groups, route.clusters))
        state = "active" if route.begins is None else f"begins {labels.moment(route.begins, time)}"
        number = f"{route.route}, further" if route.further else str(route.route)
        table.add(number, ", ".join(route.channels), f"≥ {route.severity}", *lists, route.hours or "any time", state)
    return table


def _recipients(who: Sequence["Recipient"], transition: "IncidentTransition", time: int) -> RenderableType:
    if not who:
        return Text(f"No route matches {transition.code} {transition.severity}: nobody is notified.")
    table = Grid([GridColumn(title) for title in ("channel", "kind", "route", "notified")])
    for recipient in who:
        soon = "at once" if recipient.wait_ms == 0 else f"within {labels.duration(recipient.wait_ms)}"
        when = soon if recipient.begins is None else (
            f"{labels.moment_in_zone(recipient.begins, time)}, when its hours begin, if it is still open"
        )  # fmt: skip
        table.add(recipient.channel, recipient.kind, str(recipient.route), when)
    return table
