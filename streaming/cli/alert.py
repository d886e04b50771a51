"""`rebalance-watch alert`: send alerts when incidents open and resolve."""

import secrets
import signal
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from schemas.rows import AlertControl
from streaming.base.errors import UserError
from streaming.base.health import Health
from streaming.base.nearest import one_of
from streaming.base.place import tables_of
from streaming.base.terminal import command_line, visible
from streaming.base.times import duration_ms, now_ms, written
from streaming.cli.grid import Grid, GridColumn
from streaming.cli.options import TableOrJsonOption, actor, author, instant
from streaming.cli.output import print_table, screen, severity, tables_by_settings
from streaming.cli.output import tables as opened_tables
from streaming.queries import labels
from streaming.queries.health import Severity

if TYPE_CHECKING:
    from rebalance_model.observe.effects import IncidentTransition
    from streaming.serve.alerting.route import Recipient, RouteAt
    from streaming.serve.alerting.status import AlertedIncident, ChannelStatus, Status


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
    from streaming.base.settings import load_settings
    from streaming.serve.alerting.config import load_alerts
    from streaming.serve.alerting.route import recipients, routes_at

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


app = typer.Typer(help="Send alerts when incidents open and resolve.")
silence_app = typer.Typer(
    help="Silences: suppress alerts of matching incidents for a limited time.", no_args_is_help=True
)
app.add_typer(silence_app, name="silence")
app.command()(routes)

_LOOK_AGE_MS_MAX = 60_000
"""An alert process that has not read the incidents for this time is not ready; it reads them at every poll."""


@app.callback(invoke_without_command=True)
def _run_if_nothing_else(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        run()


@app.command()
def run() -> None:
    """Follow the incidents and send alerts until Ctrl-C; a restart resumes at the saved position.

    Routes and channels are defined in the file named by alerts.file; conf/alerts.toml is an example.
    """
    from streaming.base.lines import start_lines
    from streaming.base.settings import load_settings
    from streaming.cli.interruption import wait_for_tables
    from streaming.serve.alerting.channels import open_channel
    from streaming.serve.alerting.config import load_alerts
    from streaming.serve.alerting.follow import claimed
    from streaming.serve.alerting.render import Texts, asking
    from streaming.serve.alerting.run import Alerting
    from streaming.serve.web.probes import probes
    from streaming.tables.files import are_complete

    settings = load_settings()
    config = load_alerts(settings.alerts.file)
    if not config.routes:
        raise UserError("No routes are configured: define routes and channels as in conf/alerts.toml, and name the "
                        "file in alerts.file.")  # fmt: skip
    tables = tables_of(settings)
    log = start_lines(settings.log.format, "alert")

    def report(sentence: str, /, **fields: object) -> None:
        time = "" if settings.log.format == "json" else f"{written(now_ms())} "
        log.info(f"{time}{visible(sentence)}", **fields)

    texts = Texts(config.templates, settings.web.address, asking(tables), config.language_of)
    channels = {name: open_channel(channel) for name, channel in config.channels.items()}
    health = Health()
    looked = health.task("look at the incidents", max(_LOOK_AGE_MS_MAX, 3 * config.poll))
    with claimed(settings.runtime.root), probes(health, settings.health.host, settings.health.alert):
        wait_for_tables(partial(are_complete, tables), tables, looked)
        alerting = Alerting(
            tables,
            settings.runtime.checkpoints,
            config=config,
            channels=channels,
            texts=texts,
            clock=now_ms,
            report=report,
            on_round=looked.done,
        )

        def stop(number: int, _frame: object) -> None:
            signal.signal(number, signal.SIG_DFL)  # a second signal ends the process at once; the ledger loses nothing
            alerting.stop()

        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
        log.info(f"following the incidents in {tables}; channels: {', '.join(channels)}")
        alerting.run()
    log.info("stopped")


@app.command()
def test(channel: Annotated[str, typer.Argument(help="Name of the channel in \\[channels].")]) -> None:
    """Send a sample alert to one channel now, regardless of routes, silences and limits."""
    from streaming.base.settings import load_settings
    from streaming.serve.alerting.alert import Delivery
    from streaming.serve.alerting.channels import open_channel
    from streaming.serve.alerting.channels.channel import ChannelError
    from streaming.serve.alerting.config import load_alerts
    from streaming.serve.alerting.render import Texts, sample

    settings = load_settings()
    config = load_alerts(settings.alerts.file)
    if channel not in config.channels:
        defined = ", ".join(config.channels) or "none"
        raise UserError(f"Unknown channel {channel}: the alerts file defines {defined}.")
    now = now_ms()
    alert = sample(now)
    message = Texts(config.templates, settings.web.address, language_of=config.language_of).message(
        Delivery(alert.key, channel, (alert,), summary=False, attempt=1)
    )
    opened = open_channel(config.channels[channel])
    try:
        opened.send(message, now)
    except ChannelError as error:
        raise UserError(f"Channel {channel} did not accept the sample alert: {error}.") from None
    finally:
        opened.close()
    typer.echo(visible(f"delivered to {channel}: {message.title}"))


@app.command()
def status(*, output: TableOrJsonOption = "table") -> None:
    """Show the state of each channel, the open incidents and silences; exit code 3 if alerts are not delivered."""
    from streaming.base.settings import load_settings
    from streaming.serve.alerting.config import load_alerts
    from streaming.serve.alerting.status import status as ask

    settings = load_settings()
    now = now_ms()
    delivery = ask(settings.runtime.root, tables_of(settings), load_alerts(settings.alerts.file), now)
    if output == "json":
        typer.echo(msgspec.json.format(msgspec.json.encode(delivery)).decode())
    else:
        print_table(_drawn(delivery, now), screen())
    if not delivery.healthy:
        raise typer.Exit(3)


@app.command()
def ack(
    incident: Annotated[str, typer.Argument(metavar="ID", help="Incident id, or a unique prefix of it.")],
    *,
    reason: Annotated[str, typer.Option(help="Reason, kept for reference.")] = "",
) -> None:
    """Acknowledge an incident: stops its reminders. Escalation and resolution are still sent."""
    from streaming.serve.alerting.status import acknowledge
    from streaming.serve.operator_actions import recorded

    tables = tables_by_settings()
    with recorded(tables, actor(), "ACKNOWLEDGE", incident, reason) as action:
        found = acknowledge(tables, incident, reason, author(), now_ms())
        action.target = found.incident_id
    typer.echo(visible(f"acknowledged: {found.code} {found.group} {found.subject}".rstrip()))


@silence_app.command()
def add(
    *,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Consumer groups: a name or glob.")] = None,
    code: Annotated[str | None, typer.Option(help="Incident codes: a name or glob.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Clusters: a name or glob.")] = None,
    span: Annotated[str, typer.Option("--for", help="Duration: 90s, 30m, 2h or 1d.")],
    reason: Annotated[str, typer.Option(help="Reason, kept for reference.")],
) -> None:
    """Suppress alerts of matching incidents for a time. Those still open at its end are sent then."""
    from fnmatch import fnmatchcase

    from streaming.serve.alerting.config import CODES
    from streaming.serve.alerting.follow import write_control
    from streaming.serve.alerting.status import check_span
    from streaming.serve.operator_actions import recorded

    if group is None and code is None and cluster is None:
        raise UserError("This would silence everything: set --group, --code or --cluster ('*' to confirm).")
    if code is not None and not any(fnmatchcase(one, code) for one in CODES):
        code = one_of("code", code, CODES)
    now, name, lasts = now_ms(), secrets.token_hex(4), duration_ms(span)
    check_span(lasts)
    tables, matched = tables_by_settings(), (("group", group), ("code", code), ("cluster", cluster))
    target = " ".join(f"{of}={pattern}" for of, pattern in matched if pattern is not None)
    with recorded(tables, actor(), "SILENCE", target, f"{name} for {span}: {reason}"):
        write_control(tables, AlertControl(
            time=now, control="SILENCE", control_id=name, cluster=cluster, group=group, code=code, until=now + lasts,
            reason=reason, author=author(),
        ))  # fmt: skip
    ends = command_line("rebalance-watch", "alert", "silence", "end", name)
    typer.echo(f"silence {name} active until {written(now + lasts)}; end it with `{ends}`")


@silence_app.command(name="list")
def list_silences(*, output: TableOrJsonOption = "table") -> None:
    """List the active silences."""
    from streaming.serve.alerting.state import Controls

    now = now_ms()
    with opened_tables() as model:
        active = Controls.read(model).active(now)
    if output == "json":
        typer.echo(msgspec.json.format(msgspec.json.encode(active)).decode())
    else:
        print_table(_silences(active, now), screen())


@silence_app.command()
def end(name: Annotated[str, typer.Argument(metavar="ID", help="Id of the silence.")]) -> None:
    """End a silence now."""
    from streaming.serve.alerting.follow import write_control
    from streaming.serve.alerting.state import Controls
    from streaming.serve.operator_actions import recorded

    tables, now = tables_by_settings(), now_ms()
    with recorded(tables, actor(), "UNSILENCE", name):
        with opened_tables() as model:
            active = next((one for one in Controls.read(model).active(now) if one.control_id == name), None)
        if active is None:
            raise UserError(
                f"Unknown or expired silence {name}: list the active ones with `rebalance-watch alert silence list`."
            )
        write_control(tables, msgspec.structs.replace(active, time=now, control="END", author=author()))
    typer.echo(f"ended: silence {name}")


def _drawn(delivery: "Status", now: int) -> RenderableType:
    state = ("running", "") if delivery.running else ("not running", "red")
    behind = "unknown (never started)" if delivery.behind is None else delivery.behind
    head = Text.assemble("alert process: ", state, f"; unprocessed incident commits: {behind}\n")
    channels, incidents = _channels(delivery.channels, now), _incidents(delivery.incidents, now)
    return Lines(head, channels, Text(""), incidents, Text(""), _silences(delivery.silences, now))


def _channels(channels: Sequence["ChannelStatus"], now: int) -> RenderableType:
    table = _grid("channel", "kind", "pending", "last sent", "failing since", "attempts", "error")
    for channel in channels:
        last_sent, failing_since = (labels.moment(time, now) for time in (channel.last_sent, channel.failing_since))
        kind = channel.kind or "not configured"
        table.add(
            channel.channel, kind, str(channel.waiting), last_sent, failing_since, str(channel.attempts), channel.error
        )
    return table if channels else Text("no channel")


def _incidents(incidents: Sequence["AlertedIncident"], now: int) -> RenderableType:
    table = _grid("open incident", "opened", "severity", "code", "subject", "notified", "")
    for incident in incidents:
        states = (("acknowledged", incident.acknowledged), ("silenced", incident.silenced))
        waits = f"{', '.join(incident.off_hours)}: outside its hours" if incident.off_hours else ""
        note = next((state for state, holds in states if holds), waits)
        subject, notified = f"{incident.group} {incident.subject}".strip(), ", ".join(incident.notified) or "none"
        opened = labels.moment(incident.opened_at, now)
        table.add(incident.incident_id, opened, severity(incident.severity), incident.code, subject, notified, note)
    return table if incidents else Text("no open incident that the alert process has seen")


def _silences(silences: Sequence[AlertControl], now: int) -> RenderableType:
    table = _grid("silence", "until", "group", "code", "cluster", "author", "reason")
    for one in silences:
        matched = (part or "*" for part in (one.group, one.code, one.cluster))
        table.add(one.control_id, labels.moment(one.until, now), *matched, one.author, one.reason)
    return table if silences else Text("no silence")


def _grid(*titles: str) -> Grid:
    return Grid([GridColumn(title) for title in titles])
