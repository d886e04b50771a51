"""`rebalance-watch alert`: tells people what is wrong, and that it is over."""

import getpass
import secrets
import signal
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from schemas.rows import AlertControl
from streaming.cli.grid import visible
from streaming.errors import UserError
from streaming.settings import load_settings
from streaming.times import duration_ms, now_ms, written

app = typer.Typer(help="Tell people what is wrong, and when it is over.")
silence_app = typer.Typer(help="Silences: nobody is told of what they cover while they last.", no_args_is_help=True)
app.add_typer(silence_app, name="silence")

Output = Annotated[Literal["table", "json"], typer.Option("--format", help="How to print it.")]


@app.callback(invoke_without_command=True)
def _run_if_nothing_else(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        run()


@app.command()
def run() -> None:
    """Follow the incidents and send alerts, until Ctrl-C; started again it goes on where it was, and loses nothing.

    Routes and channels are in the file that alerts.file names; conf/alerts.toml shows by example how they look.
    """
    from streaming.alerting.channels import open_channel
    from streaming.alerting.config import load_alerts
    from streaming.alerting.ledger import claimed
    from streaming.alerting.reach import asking
    from streaming.alerting.render import Texts
    from streaming.alerting.run import Alerting

    settings = load_settings()
    config = load_alerts(settings.alerts.file)
    if not config.routes:
        raise UserError("No route leads anywhere: write routes and channels as conf/alerts.toml shows, and name the "
                        "file in alerts.file.")  # fmt: skip
    console = Console(stderr=True, highlight=False)
    texts = Texts(config.templates, settings.web.address, asking(settings.runtime.tables))
    channels = {name: open_channel(channel) for name, channel in config.channels.items()}
    if not settings.runtime.tables.is_dir():
        raise UserError(f"There are no tables in {settings.runtime.tables}: start `rebalance-watch run` first, or name "
                        "another root with --root.")  # fmt: skip
    with claimed(settings.runtime.root):
        alerting = Alerting(
            settings.runtime.tables,
            settings.runtime.checkpoints,
            config=config,
            channels=channels,
            texts=texts,
            clock=now_ms,
            report=lambda line: console.print(f"{written(now_ms())} {escape(visible(line))}", soft_wrap=True),
        )

        def stop(number: int, _frame: object) -> None:
            signal.signal(number, signal.SIG_DFL)  # again: at once, whatever is under way; nothing is lost by that
            alerting.stop()

        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
        console.print(f"following the incidents in {settings.runtime.tables}; channels: {', '.join(channels)}",
                      soft_wrap=True)  # fmt: skip
        alerting.run()
    console.print("ended")


@app.command()
def test(channel: Annotated[str, typer.Argument(help="Its name in [channels].")]) -> None:
    """Send a sample alert to one channel, now; whatever routes, silences and limits say."""
    from streaming.alerting.alert import Delivery
    from streaming.alerting.channels import open_channel
    from streaming.alerting.channels.channel import ChannelError
    from streaming.alerting.config import load_alerts
    from streaming.alerting.render import Texts, sample

    settings = load_settings()
    config = load_alerts(settings.alerts.file)
    if channel not in config.channels:
        there = ", ".join(config.channels) or "none at all"
        raise UserError(f"There is no channel {channel}: the alerts file has {there}.")
    now = now_ms()
    alert = sample(now)
    message = Texts(config.templates, settings.web.address).message(
        Delivery(alert.key, channel, (alert,), summary=False, attempt=1)
    )
    opened = open_channel(config.channels[channel])
    try:
        opened.send(message, now)
    except ChannelError as error:
        raise UserError(f"The channel {channel} did not take it: {error}.") from None
    finally:
        opened.close()
    typer.echo(visible(f"{channel} has taken it: {message.title}"))


@app.command()
def status(*, output: Output = "table") -> None:
    """What each channel was told, what waits and why, what is silenced; exit code 3 if alerts don't reach somebody."""
    from streaming.alerting.config import load_alerts
    from streaming.alerting.status import status as ask

    settings = load_settings()
    told = ask(settings.runtime.root, settings.runtime.tables, load_alerts(settings.alerts.file), now_ms())
    if output == "json":
        typer.echo(msgspec.json.format(msgspec.json.encode(told)).decode())
    else:
        console = Console(highlight=False)
        runs = "runs" if told.running else "[red]does not run[/]"
        behind = "unknown, it never ran" if told.behind is None else told.behind
        console.print(f"the alert process {runs}; commits of incidents that it has not looked at: {behind}")
        console.print()
        _print(console, ("channel", "kind", "waiting", "last sent", "failing since", "attempts", "why"), [
            (one.channel, one.kind or "not in the file", str(one.waiting), _time(one.last_sent),
             _time(one.failing_since), str(one.attempts), one.error) for one in told.channels
        ])  # fmt: skip
        _print(console, ("open incident", "since", "severity", "code", "where", "told to", ""), [
            (one.incident_id, _time(one.opened_at), one.severity, one.code, f"{one.group} {one.subject}".strip(),
             ", ".join(one.told) or "nobody",
             "acknowledged" if one.acknowledged else "silenced" if one.silenced else "") for one in told.incidents
        ])  # fmt: skip
        _print_silences(console, told.silences)
    if not told.healthy:
        raise typer.Exit(3)


@app.command()
def ack(
    incident: Annotated[
        str, typer.Argument(metavar="ID", help="The incident's id, or a beginning that fits no other.")
    ],
    *,
    reason: Annotated[str, typer.Option(help="For those who look later.")] = "",
) -> None:
    """Say that an incident is known: no more reminders of it. When it gets worse and when it is over is told."""
    from streaming.alerting.ledger import tell
    from streaming.alerting.status import open_incident

    tables = load_settings().runtime.tables
    found = open_incident(tables, incident)
    tell(tables, AlertControl(time=now_ms(), control="ACK", control_id=found.incident_id, cluster=None, group=None,
                              code=None, until=None, reason=reason, author=_author()))  # fmt: skip
    typer.echo(visible(f"acknowledged: {found.code} {found.group} {found.subject}".rstrip()))


@silence_app.command()
def add(
    *,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Of these groups: a name or glob.")] = None,
    code: Annotated[str | None, typer.Option(help="Of these codes: a name or glob.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Of these clusters: a name or glob.")] = None,
    span: Annotated[str, typer.Option("--for", help="How long: 90s, 30m, 2h or 1d.")],
    reason: Annotated[str, typer.Option(help="For those who look later.")],
) -> None:
    """Tell nobody of these incidents for a while. What is open when it ends is told then."""
    from fnmatch import fnmatchcase

    from streaming.alerting.config import CODES
    from streaming.alerting.ledger import tell

    if group is None and code is None and cluster is None:
        raise UserError("That would silence everything: name a --group, --code or --cluster ('*' if you mean it).")
    if code is not None and not any(fnmatchcase(one, code) for one in CODES):
        raise UserError(f"No incident has a code like {code!r}: the README lists them.")
    now, name = now_ms(), secrets.token_hex(4)
    if not (lasts := duration_ms(span)):
        raise UserError("A silence needs an end that lies ahead: give a span with --for.")
    tell(load_settings().runtime.tables, AlertControl(
        time=now, control="SILENCE", control_id=name, cluster=cluster, group=group, code=code, until=now + lasts,
        reason=reason, author=_author(),
    ))  # fmt: skip
    typer.echo(f"silence {name} until {written(now + lasts)}; `rebalance-watch alert silence end {name}` ends it")


@silence_app.command(name="list")
def list_silences(*, output: Output = "table") -> None:
    """The silences that hold now."""
    from streaming.alerting.status import controls

    active = controls(load_settings().runtime.tables).active(now_ms())
    if output == "json":
        typer.echo(msgspec.json.format(msgspec.json.encode(active)).decode())
    else:
        _print_silences(Console(highlight=False), active)


@silence_app.command()
def end(name: Annotated[str, typer.Argument(metavar="ID", help="The silence's id.")]) -> None:
    """End a silence now."""
    from streaming.alerting.ledger import tell
    from streaming.alerting.status import controls

    tables, now = load_settings().runtime.tables, now_ms()
    found = next((silence for silence in controls(tables).active(now) if silence.control_id == name), None)
    if found is None:
        raise UserError(f"No silence {name} holds now: `rebalance-watch alert silence list` shows those that do.")
    tell(tables, msgspec.structs.replace(found, time=now, control="END", author=_author()))
    typer.echo(f"ended: silence {name}")


def _print_silences(console: Console, silences: Sequence[AlertControl]) -> None:
    heads = ("silence", "until", "group", "code", "cluster", "by", "reason")
    rows = [
        (one.control_id, _time(one.until), *(part or "*" for part in (one.group, one.code, one.cluster)), one.author,
         one.reason)
        for one in silences
    ]  # fmt: skip
    _print(console, heads, rows)


def _print(console: Console, heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*(escape(visible(cell)) for cell in row))
    console.print(table if rows else f"no {heads[0]}", "")


def _time(time_ms: int | None) -> str:
    return "-" if time_ms is None else written(time_ms)[:19].replace("T", " ")


def _author() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return ""
