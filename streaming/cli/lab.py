"""`rebalance-watch lab`: run a real cluster on this machine and inject faults."""

import shlex
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from streaming.base.errors import UnhealthyError
from streaming.base.settings import load_settings
from streaming.cli.options import TableOrJsonOption
from streaming.cli.ours import our_command

if TYPE_CHECKING:
    from streaming.lab.control import LabQueue
    from streaming.lab.faults import LabFault
    from streaming.lab.lab import Lab, MemberStatus

app = typer.Typer(help="Run a RocketMQ cluster, Kafka and consumers on this machine.", no_args_is_help=True)

_COLOURS = {"running": "green", "frozen": "yellow", "down": "red"}


@app.command()
def up(
    *,
    kafka: Annotated[bool | None, typer.Option(help="Start a Kafka node; default: lab.kafka.")] = None,
    hook: Annotated[bool | None, typer.Option(help="Install the broker hook; default: lab.hook.")] = None,
    secure: Annotated[
        bool | None, typer.Option("--secure/--open", help="Accept only TLS and known users; default: lab.secure.")
    ] = None,
    pop: Annotated[
        bool | None,
        typer.Option("--pop/--no-pop", help="Add a proxy and groups whose consumers pop; default: lab.pop."),
    ] = None,
) -> None:
    """Start the processes of the lab that are not running."""
    from streaming.lab.lab import Lab

    console, began = Console(stderr=True), time.monotonic()

    def say(step: str) -> None:
        console.print(f"{time.monotonic() - began:4.0f} s  {step}", highlight=False)

    lab = Lab.up(load_settings(), kafka=kafka, hook=hook, secure=secure, pop=pop, say=say)
    members = lab.status()
    running = sum(member.state != "down" for member in members)
    say(f"The lab is up: {running} of {len(members)} processes are running.")
    _print_addresses(console, lab)
    for title, line in _next_commands(lab):
        console.print(f"{title:<11} [bold]{escape(line)}[/]", highlight=False, soft_wrap=True)


def _next_commands(lab: "Lab") -> Iterator[tuple[str, str]]:
    """Yield what to run next, with a title for each."""
    environment = f'eval "$({our_command("lab", "env")})"'
    topic = [our_command("topic", "create")] if lab.kafka_bootstrap else []
    spool = ("--spool", str(lab.spool)) if lab.spool else ()
    yield "observe it", " && ".join([environment, *topic, our_command("up", *spool)])
    yield "break it", our_command("lab", "fault", "poison")
    yield "stop it", our_command("lab", "down")


@app.command()
def status(
    output: TableOrJsonOption = "table",
) -> None:
    """Show every process; exit code 3 if any is down."""
    from streaming.lab.lab import Lab

    lab = Lab(load_settings())
    members = lab.status()
    if output == "json":
        spool = str(lab.spool) if lab.spool else None
        servers = {"name_server": lab.name_server, "proxy": lab.proxy, "kafka": lab.kafka_bootstrap}
        shown = {**servers, "spool": spool, "members": members}
        typer.echo(msgspec.json.format(msgspec.json.encode(shown)).decode())
    else:
        console = Console()
        console.print(_table(members))
        _print_addresses(console, lab)
    if down := [member.name for member in members if member.state == "down"]:
        raise UnhealthyError(f"Down: {', '.join(down)}; cure the fault or run `rebalance-watch lab up`.")


@app.command()
def down() -> None:
    """Stop every process of the lab; the logs are kept until the next `up`."""
    from streaming.lab.lab import Lab

    lab = Lab.find(load_settings())
    if lab is None:
        typer.echo("The lab is not running.")
        return
    lab.down()
    typer.echo("The lab is stopped.")


@app.command()
def env() -> None:
    """Print the environment variables that connect collector and job to the lab: eval "$(rebalance-watch lab env)"."""
    from streaming.lab.lab import Lab

    lab = Lab(load_settings())
    for name, value in lab.environment().items():
        typer.echo(f"export {name}={shlex.quote(value)}")


@app.command()
def record(folder: Annotated[Path, typer.Argument(help="Folder for the recording and the fault log.")]) -> None:
    """Record the demo's capture: 26 minutes of a separate lab with a schedule of all faults."""
    from streaming.lab.capture import record as play

    console = Console(stderr=True)
    play(load_settings(), folder, lambda what: console.print(what, highlight=False))


@app.command()
def fault(
    name: Annotated[str | None, typer.Argument(help="Fault to inject; omit to list all faults.")] = None,
    *,
    cure: Annotated[bool, typer.Option("--cure", help="Cure the fault.")] = False,
    client: Annotated[
        str | None,
        typer.Option(
            "--client",
            "--broker",
            help="Target; default: the first healthy consumer, or the last broker. Of a whole group: its key.",
        ),
    ] = None,
    queue: Annotated[str | None, typer.Option(metavar="[BROKER:]NUMBER", help="hang, poison: only this queue.")] = None,
    count: Annotated[int | None, typer.Option(min=1, max=64, help="add-queues: number of queues.")] = None,
) -> None:
    """Inject a fault into the lab or cure it; both are logged with the expected observation."""
    from streaming.lab.fault_actions import NEW_QUEUES
    from streaming.lab.faults import CURES
    from streaming.lab.lab import Lab

    if name is None:
        _print_catalogue(Console())
        return
    broker, queue_id = _place(queue)
    lab = Lab(load_settings())
    done = (
        lab.cure(name, client=client)
        if cure or name in CURES
        else lab.fault(name, client=client, broker=broker, queue_id=queue_id, count=count or NEW_QUEUES)
    )
    typer.echo(f"{done.kind}{' cured' if done.cure else ''}: {done.expect}.")


def _place(queue: str | None) -> tuple[str | None, int | None]:
    broker, _, number = (queue or "").rpartition(":")
    if queue is not None and not number.isdecimal():
        raise typer.BadParameter(f"Invalid queue {queue!r}. Use 3 or broker-a:3.", param_hint="--queue")
    return broker or None, int(number) if number else None


def _print_addresses(console: Console, lab: "Lab") -> None:
    console.print(f"name server {lab.name_server}", highlight=False)
    if lab.proxy:
        console.print(f"proxy       {lab.proxy}", highlight=False)
    if lab.kafka_bootstrap:
        console.print(f"Kafka       {lab.kafka_bootstrap}", highlight=False)
    if lab.spool:
        console.print(f"hook spool  {lab.spool}", highlight=False, soft_wrap=True)
    if lab.secrets:
        console.print(f"secured     {lab.secrets}", highlight=False, soft_wrap=True)


def _table(members: "list[MemberStatus]") -> Table:
    table = Table("name", "role", "state", "pid", "group", "fault", "owns", box=None, pad_edge=False)
    for member in members:
        owns = "not known" if member.owns is None else _places(member.owns)
        state = f"[{_COLOURS[member.state]}]{member.state}[/]"
        table.add_row(member.name, member.role, state, str(member.pid), member.group, member.fault, owns)
    return table


def _places(queues: "list[LabQueue]") -> str:
    """Show queues by broker; a client that pops has all of a broker (-1)."""
    return "  ".join(
        " ".join([f"{broker}:", *("all" if queue.queue_id < 0 else str(queue.queue_id) for queue in some)])
        for broker, some in groupby(queues, lambda queue: queue.broker)
    )


def _print_catalogue(console: Console) -> None:
    from streaming.lab.faults import FAULTS
    from streaming.lab.pop_faults import POP_FAULTS

    for name, known in FAULTS.items():
        _print_fault(console, name, known)
        console.print(Padding(_shows(known), (0, 0, 0, 4)), highlight=False)
    console.print(
        "\nConsumers that pop ([bold]lab up --pop[/]; --client: pop-1, fifo-1, …; of a group: pop, fifo, simple)",
        highlight=False,
    )
    for name, faults in POP_FAULTS.items():
        _print_fault(console, name, next(iter(faults.values())))
        clients: dict[str, list[str]] = {}
        for client, fault in faults.items():
            clients.setdefault(_shows(fault), []).append(client)
        for shows, names in clients.items():
            console.print(Padding(f"{', '.join(names)}: {shows}", (0, 0, 0, 4)), highlight=False)


def _print_fault(console: Console, name: str, fault: "LabFault") -> None:
    console.print(f"[bold]{name}[/]: {fault.does}. [dim]--cure: {fault.cure_does}.[/]", highlight=False)


def _shows(fault: "LabFault") -> str:
    subject = "the topic" if fault.target == "topic" else "it"
    return f"{fault.expect.format(client=subject, group='its group', where='its queues')}."
