"""`rebalance-watch client list`: list the clients of all groups, or of one."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from streaming.cli.grid import Grid
from streaming.cli.options import (
    AtOption,
    ClusterOption,
    EveryOption,
    FormatOption,
    GroupOption,
    Output,
    WatchOption,
    instant,
    named,
)
from streaming.cli.output import AsOf, present
from streaming.queries.columns import CLIENT
from streaming.queries.columns.column import Context
from streaming.queries.results import GroupClient

if TYPE_CHECKING:
    from streaming.tables import ReadModel


def clients(
    group: Annotated[str | None, typer.Argument(help="Only clients of this group.", show_default=False)] = None,
    *,
    group_option: GroupOption = None,
    cluster: ClusterOption = None,
    at: AtOption = None,
    output: FormatOption = "table",
    watch: WatchOption = False,
    every: EveryOption = 2.0,
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
        lambda found, now: _draw(found, Context(shown_at, today=now)),
        GroupClient,
        Output(output, watch, every),
        as_of=AsOf(instant(at)),
    )


def _draw(listed: Sequence[GroupClient], context: Context) -> RenderableType:
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
