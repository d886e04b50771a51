"""`rebalance-watch client …`: query the clients of consumer groups."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from streaming.cli.grid import Grid, incident_grid
from streaming.cli.options import (
    AtOption,
    ClusterOption,
    GroupOption,
    Output,
    SinceOption,
    begin,
    instant,
    named,
)
from streaming.cli.output import AsOf, present, section
from streaming.queries import labels
from streaming.queries.columns import CLIENT, INTERVAL
from streaming.queries.columns.column import Context
from streaming.queries.results import ClientDetail, GroupClient

if TYPE_CHECKING:
    from streaming.tables import ReadModel


def clients(
    group: Annotated[str | None, typer.Argument(help="Only clients of this group.", show_default=False)] = None,
    *,
    group_option: GroupOption = None,
    cluster: ClusterOption = None,
    at: AtOption = None,
    output: Output,
) -> None:
    """List clients with version, language, address, last heartbeat, subscriptions, queues and open incidents.

    Members of a group that run different versions are named below the table.
    """
    from streaming.queries.clients import clients as ask
    from streaming.queries.present import present as instant_shown

    shown_at = 0

    def answer(model: "ReadModel") -> list[GroupClient]:
        nonlocal shown_at
        shown_at = instant_shown(model, instant(at))
        return ask(model, group, cluster=cluster, at=instant(at))

    group = named(group, group_option) if group_option is not None else group
    present(
        answer,
        lambda found, now: _draw_list(found, Context(shown_at, today=now)),
        GroupClient,
        output,
        as_of=AsOf(instant(at)),
    )


def _draw_list(listed: Sequence[GroupClient], context: Context) -> RenderableType:
    if not listed:
        return Text("No clients.")
    several = len({one.cluster for one in listed}) > 1
    table = Grid.of(CLIENT.grid, listed, context, without=() if several else {"cluster"})
    return Lines(table, *(Text(line, style="yellow") for line in _mixed(listed)))


def _mixed(listed: Sequence[GroupClient]) -> Iterator[str]:
    from streaming.queries.clients import mixed_versions

    for (_, group), counts in mixed_versions(listed).items():
        versions = ", ".join(f"{count} run {version}" for version, count in counts.items())
        yield f"info: members of {group} run different versions: {versions}"


def show(
    client_id: Annotated[str, typer.Argument(metavar="CLIENT", help="Client id.", show_default=False)],
    *,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Only in this group.")] = None,
    cluster: ClusterOption = None,
    since: SinceOption = None,
    at: AtOption = None,
    output: Output,
) -> None:
    """Show one client: version, address, heartbeat and subscriptions, its queues over time, and its incidents."""
    from streaming.queries.clients import client

    present(
        lambda model: client(
            model, client_id, group=group, cluster=cluster, since=begin(model, since, instant(at)), at=instant(at)
        ),
        _draw_one,
        ClientDetail,
        output,
        as_of=AsOf(instant(at)),
    )


def _draw_one(client: ClientDetail, now: int) -> RenderableType:
    context = Context(client.until, today=now)
    as_of = f"  as of {labels.moment_in_zone(client.until, now)}"
    parts: list[RenderableType] = [Text.assemble((client.client_id, "bold"), (as_of, "dim"))]
    if not client.groups:
        parts.append(Text("in no group"))
    for membership in client.groups:
        values = {column.title.lower(): str(column.value(membership, context)) for column in CLIENT.page[2:]}
        said = ", ".join(f"{title} {text}" for title, text in values.items() if text not in {"", labels.NOT_KNOWN})
        parts.append(Text(f"{membership.group} ({membership.cluster}): {said}"))
    if client.intervals:
        parts += section("Queues over time", Grid.of(INTERVAL.grid, client.intervals, context))
    if client.incidents:
        parts += section("Incidents", incident_grid(client.incidents, now))
    return Lines(*parts)


app = typer.Typer(
    help="Query clients: version, address, heartbeat, subscriptions, queues and incidents, now or at any time.",
    no_args_is_help=True,
)
app.command("list")(clients)
app.command("show")(show)
